"""``compute-sanitizer`` over a program on small shapes: accesses beyond its buffers, and races in shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evaluators.cuda.inspection import REPORT, Report, ToolUnavailable

MEMCHECK = ("compute-sanitizer", "--tool", "memcheck", "--padding", "256", "--report-api-errors", "no")
RACECHECK = ("compute-sanitizer", "--tool", "racecheck", "--racecheck-report", "analysis")
COMMON = (
    *("--log-file", REPORT, "--print-limit", "20", "--show-backtrace", "no", "--launch-timeout", "600"),
    *("--target-processes", "application-only"),
)
"""How long the program may take to come to the device is the gate's affair, and ours."""
MOST_FINDINGS = 8
_CAP = 240
_PREFIX = re.compile(r"^=+ ?")
_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d{1,9}) error|RACECHECK SUMMARY: .*\((\d{1,9}) error)")
_INVALID = re.compile(r"^(Invalid \S+ \w+ of size [\d,]+ bytes?|Misaligned .*|Device-side .*|Warp .*|.* exception.*)$")
_RACE = re.compile(r"^Error: ((?:Race reported between|Potential \w+ hazard detected) .*)$")
_TRIFLE = re.compile(r"^\s+(?:by thread|Saved host backtrace|Host Frame|Device Frame)")


@dataclass(frozen=True)
class Sanitized:
    """What one tool found."""

    errors: int
    findings: tuple[str, ...]
    """The first few, a line each: what, in which kernel, where. About the candidate: data."""


def parse(report: Report) -> Sanitized:
    """Read a report of either tool.

    Raises:
        ToolUnavailable: the tool or the program did not come to an end of its own; the message says why.
    """
    rows = [_PREFIX.sub("", row) for row in report.text.splitlines()]
    counts = [int(found[1] or found[2]) for row in rows if (found := _SUMMARY.search(row))]
    if not counts:
        words = next((row for row in [*rows[1:], *report.log.splitlines()] if row.strip()), "it wrote nothing")
        raise ToolUnavailable(f"compute-sanitizer did not end: {words.strip()[:_CAP]}")
    findings = tuple(dict.fromkeys(_findings(rows)))[:MOST_FINDINGS]
    if not findings and report.code != 0:
        raise ToolUnavailable(f"the program did not run under compute-sanitizer: {report.last_words or 'no words'}")
    return Sanitized(max(counts) if findings else 0, findings)


def _findings(rows: list[str]) -> list[str]:
    """Each error's first line and what follows it that says where."""
    found = []
    for index, row in enumerate(rows):
        head = _INVALID.match(row) or _RACE.match(row)
        if head is None:
            continue
        parts = [head[1]]
        for more in rows[index + 1 :]:
            if not more.startswith(" ") or not more.strip():
                break
            if not _TRIFLE.match(more):
                parts.append(more.strip())
        found.append(" ".join(parts)[:_CAP])
    return found
