"""What runs inside a builder's process: a compiler, in the sandbox, on a source nobody trusts.

Leaves an artifact and ``report.json`` in its own work folder. The judge takes both as data: it copies the one
without following links and reads the other with a size cap and a schema. Where building runs the source, a second
process that has not makes the report of the copy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from evaluators.builders import BuildRefused, builder_of
from evaluators.builders.base import REPORT

BUILD_FAILED = 3
"""Exit status: the compiler refused the source."""


def main(payload: dict[str, Any], fds: dict[str, int]) -> None:
    """Entry of a builder's process. Exits with ``BUILD_FAILED`` when the compiler does; its words go to the log.

    With ``built`` in the payload there is an artifact already, and only its report is made.
    """
    del fds
    work, order = Path(payload["folder"]), payload["order"]
    builder = builder_of(payload["language"])
    if builder is None:
        raise ValueError(f"nothing to build for {payload['language']}")
    built = Path(payload.get("built", work / builder.artifact))
    try:
        if "built" not in payload:
            builder.build(work, order)
            if builder.runs_source:
                return
        report = builder.report(work, built, order)
    except BuildRefused as refusal:
        if str(refusal):
            sys.stderr.write(f"{refusal}\n")
        sys.exit(BUILD_FAILED)
    (work / REPORT).write_text(json.dumps(report))
