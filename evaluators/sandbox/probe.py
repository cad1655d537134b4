"""What the sandbox of this host would be, for people."""

from __future__ import annotations

import tempfile
from pathlib import Path

from evaluators.sandbox.report import SandboxReport
from evaluators.zygote.client import Zygote


def probe_layers() -> SandboxReport:
    """Which layers are in force for children on this host, and why the others are not.

    Sets up a zygote that imports nothing, rehearses a child of each role, and ends it again (about a tenth of a
    second): what a layer does is found out by doing it.

    Raises:
        JudgeError: the zygote did not come up at all.
    """
    with (
        tempfile.TemporaryDirectory(prefix="kernel-evolve-probe-") as scratch,
        Zygote(minimum="none", scratch=Path(scratch), preload=()) as zygote,
    ):
        return zygote.layers
