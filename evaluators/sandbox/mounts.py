"""The mount namespace: a root that holds what sandboxed processes need, read-only, and nothing else of the host."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from evaluators.sandbox import kernel
from evaluators.sandbox.view import View

_STAGING = "/proc"
"""The new root is put together on top of this folder: it exists everywhere and nothing shown lies below it."""
_OLD_ROOT = "/.old"
PROCESSES = "/proc"
"""Where a GPU's driver looks for its own process."""
_READ_ONLY = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
_SCRATCH = kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
_TMPFS_OPTIONS = "mode=0755,size=1m"


def enter_new_root(view: View, scratch: Path) -> None:
    """Replace this process's root; needs a mount namespace of its own and the right to mount in it.

    Afterwards there is no ``/proc``, no home and no file of the host but those of ``view``, and ``scratch``, writable.

    Raises:
        OSError: a mount was refused; the old root is still in place, and nothing of the new one is left.
    """
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", _STAGING, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, _TMPFS_OPTIONS)
    try:
        _fill(view, scratch)
        os.mkdir(_STAGING + _OLD_ROOT)
        kernel.call("pivot_root", _STAGING.encode(), (_STAGING + _OLD_ROOT).encode())
    except OSError:
        kernel.call("umount2", _STAGING.encode(), kernel.MNT_DETACH)
        raise
    os.chdir("/")
    kernel.call("umount2", _OLD_ROOT.encode(), kernel.MNT_DETACH)
    os.rmdir(_OLD_ROOT)
    kernel.mount("none", "/", None, kernel.MS_REMOUNT | kernel.MS_BIND | _root_flags())


def narrow_scratch(scratch: Path, writable: Iterable[Path], readable: Iterable[Path]) -> None:
    """In a mount namespace of this process's own, show of the scratch folder only what is named.

    Raises:
        OSError: a mount was refused, or a path does not exist.
    """
    kernel.call("unshare", kernel.CLONE_NEWNS)
    writable = list(writable)
    shown = [(path, kernel.clone_mount(str(path))) for path in writable]
    for path in readable:
        fd = kernel.clone_mount(str(path))
        kernel.restrict_mount_fd(fd, _READ_ONLY)
        shown.append((path, fd))
    folders = {path for path in (*writable, *readable) if path.is_dir()}
    kernel.mount("tmpfs", str(scratch), "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, _TMPFS_OPTIONS)
    for path, fd in sorted(shown, key=lambda item: len(item[0].parts)):
        _make_place(path, folder=path in folders)
        kernel.attach_mount(fd, str(path))
        os.close(fd)


def show_own_processes() -> None:
    """In a mount namespace and a pid namespace of this process's own, show it the kernel's view of itself.

    Raises:
        OSError: the kernel refused.
    """
    kernel.mount("proc", PROCESSES, "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)


def _fill(view: View, scratch: Path) -> None:
    for path in view.binds:
        _bind(path, _READ_ONLY)
    for path in view.hidden:
        _hide(path)
    for path in view.links:
        os.symlink(os.readlink(path), _STAGING + str(path))
    for path in (*view.devices, *view.gpu_devices):
        _bind(path, kernel.MOUNT_ATTR_NOSUID)
    for path in view.gpu_files:
        _bind(path, _READ_ONLY)
    if view.gpu_devices:
        os.mkdir(_STAGING + PROCESSES)
    _bind(scratch, _SCRATCH)


def _bind(path: Path, attributes: int) -> None:
    target = _STAGING + str(path)
    _make_place(Path(target), folder=path.is_dir())
    kernel.mount(str(path), target, None, kernel.MS_BIND | kernel.MS_REC)
    kernel.restrict_mount(target, attributes)


def _hide(path: Path) -> None:
    target = _STAGING + str(path)
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_RDONLY
    kernel.mount("tmpfs", target, "tmpfs", flags, "mode=0755,size=4k")


def _make_place(target: Path, *, folder: bool) -> None:
    if folder:
        target.mkdir(mode=0o755, parents=True, exist_ok=True)
    else:
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        target.touch()


def _root_flags() -> int:
    return kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
