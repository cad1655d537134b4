"""What runs first in a tool's box."""

from __future__ import annotations

import os
from typing import Any


def become(payload: dict[str, Any], fds: dict[str, int]) -> None:
    """Entry of the box: become the tool, in the folder it may write."""
    del fds
    os.chdir(payload["folder"])
    os.execv(payload["command"][0], payload["command"])
