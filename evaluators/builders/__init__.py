"""Turning a source text into something a runner can import: one module a language.

A builder has two sides. ``order`` runs in the judge and says what is to be built; ``build`` runs in a sandboxed process
on a source nobody trusts, and leaves files in its own work folder that the judge takes as data.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from evaluators.builders.base import Builder, BuildRefused

if TYPE_CHECKING:  # a builder's process need not load what only the judge needs
    from evaluators.task import Language

__all__ = ["BuildRefused", "Builder", "builder_of", "module_of"]

#: Languages whose source is what a runner imports.
UNBUILT: frozenset[Language] = frozenset({"python", "torch"})


def module_of(language: str) -> str:
    """The module that builds a language; a zygote preloads it, since nothing of ours is visible in the sandbox."""
    return f"evaluators.builders.{language}"


def builder_of(language: Language) -> Builder | None:
    """The builder of a language; ``None`` where nothing is to be built."""
    if language in UNBUILT:
        return None
    builder: Builder = importlib.import_module(module_of(language)).BUILDER
    return builder
