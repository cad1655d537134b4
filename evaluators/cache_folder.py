"""Where a judge keeps what later judges of the same user may use: a folder that nobody else can enter or replace."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from evaluators.sandbox.view import base_view

VARIABLE = "KERNEL_EVOLVE_CACHE"
"""A folder to use in the place of the user's own cache, or ``off``."""
OFF = "off"
_PRODUCT = "kernel-evolve"
_ROOT_USER = 0


class CacheUnusable(Exception):
    """Nothing can be kept on this machine; the message says why in one line, and is for people."""


def open_cache_folder(part: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of one kind of things that are kept, made where there is none; ``None`` where it is switched off.

    No part of its path is a link.

    Raises:
        CacheUnusable: it cannot be made, or others than this user could change what lies in it.
    """
    named = find_cache_folder(part, environment)
    if named is None:
        return None
    base = named.parent
    try:
        _make(base)
        folder = base.resolve() / part
        folder.mkdir(mode=0o700, exist_ok=True)
        _refuse_foreign(folder)
    except (OSError, RuntimeError) as error:  # up to Python 3.12 a circle of links is a RuntimeError
        raise CacheUnusable(f"{base}: {getattr(error, 'strerror', None) or error}") from None
    return folder


def find_cache_folder(part: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the folder is, or would be; ``None`` where it is switched off.

    Raises:
        CacheUnusable: nothing names a place.
    """
    if environment.get(VARIABLE) == OFF:
        return None
    for variable, below in ((VARIABLE, ()), ("XDG_CACHE_HOME", (_PRODUCT,)), ("HOME", (".cache", _PRODUCT))):
        named = environment.get(variable)
        if named and not os.path.isabs(named):
            raise CacheUnusable(f"{variable} is not an absolute path: {named}")
        if named:
            return Path(named, *below, part)
    raise CacheUnusable(f"none of {VARIABLE}, XDG_CACHE_HOME and HOME names a folder")


def _make(base: Path) -> None:
    """The folder and those above it that are missing, closed to others whatever the umask."""
    for folder in reversed([base, *base.parents]):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)


def _refuse_foreign(folder: Path) -> None:
    """Raise unless the folder is this user's alone, no sandbox shows it and nobody can put another in its place."""
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        raise CacheUnusable(f"{folder} is no folder: remove it")
    if facts.st_uid != os.geteuid():
        raise CacheUnusable(f"{folder} belongs to another user")
    if facts.st_mode & 0o077:
        raise CacheUnusable(f"{folder} is open to others: chmod 700 {folder}")
    shown = next((path for path in base_view().binds if folder.is_relative_to(path.resolve())), None)
    if shown is not None:
        raise CacheUnusable(f"{folder} lies in {shown}, which sandboxed programs see")
    for parent in folder.parents:
        facts = parent.lstat()
        if facts.st_uid not in (_ROOT_USER, os.geteuid()):
            raise CacheUnusable(f"{parent} belongs to another user, who can replace {folder}")
        if facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX:
            raise CacheUnusable(f"others can write {parent} and replace {folder}: chmod go-w {parent}")
