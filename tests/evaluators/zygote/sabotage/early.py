"""Preloaded, it makes Landlock fail from the start, as a kernel might that has it and refuses it."""

from __future__ import annotations

import errno

from evaluators.sandbox.landlock import Landlock


def _refuse(self: Landlock, ruleset: int) -> None:
    raise OSError(errno.EPERM, "sabotage")


Landlock.restrict = _refuse  # type: ignore[method-assign]
