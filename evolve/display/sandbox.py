"""What every summary and report says where programs ran in less than the full sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from evaluators.client import SandboxMode

FULL: SandboxMode = "full"
_WORST_FIRST: tuple[str, ...] = get_args(SandboxMode)[::-1]


def lowest(levels: Mapping[str, int]) -> str:
    """The weakest of the levels that programs were judged in; ``full`` where there are none."""
    return next((level for level in _WORST_FIRST if levels.get(level)), FULL)


def warning(levels: Mapping[str, int]) -> str:
    """How many programs were judged in less than the full sandbox, the weakest level first; empty where none was."""
    parts = [
        f"{level} for {count} program{'' if count == 1 else 's'}"
        for level in _WORST_FIRST
        if level != FULL and (count := levels.get(level, 0))
    ]
    return f"{', '.join(parts)}: {_ADVICE}" if parts else ""


def single_warning(level: str) -> str:
    """The same of one measurement."""
    return "" if level == FULL else f"{level}: {_ADVICE}"


_ADVICE = "a candidate may have cheated; do not publish these numbers"
