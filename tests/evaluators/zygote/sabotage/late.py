"""Preloaded, it makes a layer fail in those children whose environment names it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

from evaluators.sandbox import box, identity
from evaluators.sandbox.landlock import Landlock
from evaluators.sandbox.seccomp import Program


def _failing(layer: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*arguments: Any) -> Any:
        if os.environ.get("SABOTAGE") == layer:
            raise OSError(errno.EPERM, "sabotage")
        return original(*arguments)

    return wrapper


Landlock.restrict = _failing("landlock", Landlock.restrict)  # type: ignore[method-assign]
Program.install = _failing("seccomp", Program.install)  # type: ignore[method-assign]
identity.become = _failing("other user", identity.become)
box.apply_limits = _failing("resource limits", box.apply_limits)
