"""What runs a program of each language inside a runner: one module a language, loaded by its name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from evaluators.programs.base import Admitted, Call, NativeCall, Program

__all__ = ["Admitted", "Call", "NativeCall", "Program", "load_program", "module_of"]


def module_of(language: str) -> str:
    """The module that runs a language; a zygote preloads it, since nothing of ours is visible in the sandbox."""
    return f"evaluators.programs.{language}"


def load_program(payload: Mapping[str, Any]) -> Program:
    """Import the candidate: its shared object, or its module level code.

    Raises:
        Admitted: it cannot be imported.
    """
    module = importlib.import_module(module_of(payload["language"]))
    program: Program = module.load(payload)
    return program
