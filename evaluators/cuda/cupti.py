"""Where NVIDIA's profiling library (CUPTI) and its headers are: in a toolkit, or in NVIDIA's wheels."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

TOOLKIT = Path("/usr/local/cuda")
_HEADERS = ("cupti.h", "cuda.h")
_SONAME = re.compile(rb"libcupti\.so\.\d+(?=\0)")


class CuptiUnavailable(Exception):
    """Kernels cannot be recorded or counted here; the message says why, in one line."""


def cupti_library() -> Path:
    """The shared library.

    Raises:
        CuptiUnavailable: there is none.
    """
    for root in _roots():
        found = sorted(path.resolve() for path in root.glob("**/libcupti.so.*[0-9]"))
        if found:
            return found[-1]
    raise CuptiUnavailable("no CUPTI found: install the CUDA toolkit, or pip install nvidia-cuda-cupti")


def soname(library: Path) -> str:
    """The name by which programs linked with it look for it."""
    found = _SONAME.search(library.read_bytes())
    return found[0].decode() if found else library.name


def cupti_headers() -> list[Path]:
    """The folders that hold ``cupti.h`` and ``cuda.h``.

    Raises:
        CuptiUnavailable: there are none.
    """
    roots = _roots()
    found = {
        name: next((p.parent for root in roots for p in sorted(root.glob(f"**/{name}"))), None) for name in _HEADERS
    }
    missing = [name for name, folder in found.items() if folder is None]
    if missing:
        raise CuptiUnavailable(f"no {' and no '.join(missing)}: install the CUDA toolkit's CUPTI headers")
    return sorted({folder for folder in found.values() if folder is not None})


def _roots() -> list[Path]:
    return [root for root in (TOOLKIT.resolve(), *_wheels()) if root.is_dir()]


def _wheels() -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(root)
