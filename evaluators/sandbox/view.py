"""What of the host's files a sandboxed process needs at all: system libraries, compilers, Python and its packages."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from glob import glob
from pathlib import Path

_LIBRARIES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/local/lib", "/usr/local/lib64")
_TOP_LEVEL = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
"""Links into /usr on most systems, folders of their own on some."""
_SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives")
_TOOLCHAINS = ("/opt/cuda*", "/opt/gcc*", "/opt/llvm*", "/opt/rocm*", "/nix/store", "/gnu/store")
_GPU_FILES = ("/sys/devices/system", "/sys/module/nvidia", "/sys/module/nvidia_uvm", "/etc/nvidia")
_GPU_TOOLS = ("/opt/nvidia",)
_GPU_LIBRARIES = ("/usr/local/nvidia", "/usr/local/cuda*/targets", "/usr/share/nvidia")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random")


@dataclass(frozen=True)
class View:
    """Paths of the host; what does not exist here is left out."""

    binds: tuple[Path, ...]
    """Shown read-only at the same place."""
    links: tuple[Path, ...]
    """Symbolic links to make again."""
    hidden: tuple[Path, ...]
    """Package folders below a bind that belong to another Python or to nobody's task: shown empty."""
    devices: tuple[Path, ...]
    libraries: tuple[Path, ...]
    """What a runner may read: shared libraries and the standard library."""
    tools: tuple[Path, ...]
    """What a builder may read and execute besides: compilers, headers (those of Python too, which Triton's launchers
    include), and the interpreter, which profilers start."""
    packages: tuple[Path, ...]
    """The site-packages in use. Nobody reads them whole."""
    gpu_devices: tuple[Path, ...] = ()
    """Device nodes of the one GPU that children who ask for it may use."""
    gpu_files: tuple[Path, ...] = ()
    """What its driver wants to read besides."""


def base_view(devices: Iterable[Path] = ()) -> View:
    """The view for the interpreter that runs this, with the device nodes of a GPU."""
    devices = tuple(devices)
    standard = Path(sysconfig.get_path("stdlib"))
    packages = _unique(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    packages += tuple(Path(p) for p in sys.path if Path(p).name == "dist-packages" and Path(p) not in packages)
    patterns = (*_TOOLCHAINS, *(_GPU_TOOLS if devices else ()))
    toolchains = tuple(Path(match) for pattern in patterns for match in sorted(glob(pattern)))
    top_level = _unique(_TOP_LEVEL)
    folders = tuple(path for path in top_level if not path.is_symlink())
    settings = _unique(_SETTINGS)
    python = Path(sys.base_prefix, "lib")
    own = (Path(sys.executable).resolve(), *_unique((sysconfig.get_path("include"),)))
    binds = _outermost((Path("/usr"), *folders, *settings, *toolchains, python, *own, standard, *packages))
    drivers = [match for pattern in _GPU_LIBRARIES if devices for match in sorted(glob(pattern))]
    libraries = _outermost((*_unique(_LIBRARIES), *folders, python, *_unique(("/etc/ld.so.cache", *drivers))))
    return View(
        binds=binds,
        links=tuple(path for path in top_level if path.is_symlink()),
        hidden=tuple(path for path in _package_folders(python) if path not in packages),
        devices=_unique(DEVICES),
        libraries=libraries,
        tools=_outermost((Path("/usr"), *folders, *settings, *toolchains, *own)),
        packages=packages,
        gpu_devices=devices,
        gpu_files=tuple(p for p in _unique(_GPU_FILES) if devices),
    )


def cover(roots: Iterable[Path], excluded: Iterable[Path]) -> list[Path]:
    """The fewest paths whose hierarchies hold all of ``roots`` and none of ``excluded``."""
    excluded = [path.resolve() for path in excluded]
    covered: list[Path] = []
    pending = list(roots)
    while pending:
        path = pending.pop()
        real = path.resolve()
        if any(real.is_relative_to(other) for other in excluded):
            continue
        if not any(other.is_relative_to(real) for other in excluded):
            covered.append(path)
        elif real.is_dir():
            pending += [path / name for name in sorted(os.listdir(path))]
    return covered


def package_paths(folders: Iterable[Path], name: str) -> list[Path]:
    """The files and folders of one top-level package: itself, and the shared libraries its wheel carries.

    Raises:
        FileNotFoundError: no such package beside this interpreter.
    """
    found: list[Path] = []
    for folder in folders if name.isidentifier() else ():
        candidates = [folder / name, folder / f"{name}.py", folder / f"{name}.libs", *folder.glob(f"{name}.*.so")]
        found += [path for path in candidates if path.exists()]
    if not found:
        raise FileNotFoundError(f"the Python package {name!r} is not installed beside {sys.executable}")
    return found


def _package_folders(python: Path) -> tuple[Path, ...]:
    patterns = [
        f"{root}/python*/{name}-packages"
        for root in ("/usr/lib", "/usr/local/lib", python)
        for name in ("site", "dist")
    ]
    return _unique(match for pattern in patterns for match in sorted(glob(pattern)))


def _unique(paths: Iterable[str]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(Path(path) for path in paths if os.path.lexists(path)))


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Without those that lie below another."""
    unique = list(dict.fromkeys(paths))
    return tuple(p for p in unique if p.exists() and not any(p != o and p.is_relative_to(o) for o in unique))
