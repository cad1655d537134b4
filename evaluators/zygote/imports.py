"""What a child may import: the standard library, what the zygote already holds, and the packages it was granted."""

from __future__ import annotations

import importlib
import sys
import sysconfig
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

Entry = Callable[[dict[str, Any], dict[str, int]], object]
"""What a child calls, with its payload and its descriptors by name."""


class GrantedPackages(MetaPathFinder):
    """Finds the granted top-level packages, and no other, in folders that are not on ``sys.path``."""

    def __init__(self, folders: Sequence[str], names: Sequence[str]) -> None:
        self._folders = list(folders)
        self._names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As :class:`importlib.abc.MetaPathFinder` says; modules inside a package are found by its own path."""
        if path is not None or fullname not in self._names:
            return None
        return PathFinder.find_spec(fullname, self._folders, target)


def preload(modules: Sequence[str]) -> None:
    """Import what every child will find in memory; ``module:function`` also calls the function, once."""
    for name in modules:
        path, _, function = name.partition(":")
        module = importlib.import_module(path)
        if function:
            getattr(module, function)()


def keep_standard_library(packages: Sequence[Path]) -> None:
    """Leave on ``sys.path`` only the standard library, none of the package folders that may lie inside it."""
    standard = Path(sysconfig.get_path("stdlib"))
    sys.path[:] = [p for p in sys.path if Path(p).is_relative_to(standard) and Path(p) not in packages]


def resolve(entry: str, preloaded: Sequence[str]) -> Entry:
    """The function that ``package.module:function`` names.

    Raises:
        ValueError: its module was not preloaded, or has no such function.
    """
    module, _, name = entry.partition(":")
    if module not in preloaded:
        raise ValueError(f"entry {entry!r}: the zygote has not preloaded {module!r}")
    function = getattr(sys.modules[module], name, None)
    if not callable(function):
        raise ValueError(f"entry {entry!r}: no function {name!r} in {module}")
    found: Entry = function
    return found
