"""What runs inside of sandboxed processes in tests: source text, as a candidate's would."""

from __future__ import annotations

from typing import Any


def execute(payload: dict[str, Any], fds: dict[str, int]) -> None:
    exec(payload["code"], {"fds": fds, "payload": payload})
