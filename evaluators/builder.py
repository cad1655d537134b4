"""What runs inside a builder's process: the compiler, in the sandbox, on a source nobody trusts.

Leaves ``candidate.so`` and ``report.json`` in its own work folder. The judge takes both as data: it copies the one
without following links and reads the other with a size cap and a schema.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SHARED_OBJECT = "candidate.so"
REPORT = "report.json"
BUILD_FAILED = 3
"""Exit status: the compiler refused the source."""

_INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\s+(?:lock\s+|rep\w*\s+)?([a-z][\w.]*)\s*(.*)$")
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_RUNTIME_STUBS = ("_init", "_fini", "_start", "deregister_tm_clones", "register_tm_clones", "frame_dummy")


def compile_command(compiler: str, flags: Iterable[str], source: str) -> list[str]:
    """The command line of a ``cpp`` build; diagnostics name the source by its bare file name."""
    return [compiler, *flags, "-shared", "-fPIC", "-fdiagnostics-color=never", "-o", SHARED_OBJECT, source]


def main(payload: dict[str, Any], fds: dict[str, int]) -> None:
    """Entry of a builder's process. Exits with ``BUILD_FAILED`` when the compiler does; its words go to the log."""
    del fds
    work = Path(payload["folder"])
    command = compile_command(payload["compiler"], payload["flags"], payload["source_name"])
    done = subprocess.run(command, cwd=work, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(BUILD_FAILED)
    (work / REPORT).write_text(json.dumps(resource_report(work / SHARED_OBJECT)))


def resource_report(shared_object: Path) -> dict[str, float]:
    """Compiled facts of a shared object: size of its code and the share of vector instructions in it.

    ``simd_share`` counts instructions on xmm/ymm/zmm (x86) or v/z (Arm) registers that are packed, outside of the
    C runtime's own stubs.
    """
    size = subprocess.run(
        ["size", "-A", "-d", shared_object.name], cwd=shared_object.parent, capture_output=True, text=True, check=False
    )
    text_bytes = next((int(row.split()[1]) for row in size.stdout.splitlines() if row.startswith(".text")), 0)
    dump = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", shared_object.name],
        cwd=shared_object.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    counts = instruction_mix(dump.stdout.splitlines())
    total = max(sum(counts.values()), 1)
    return {"text_kib": text_bytes / 1024, "simd_share": counts["packed"] / total}


def instruction_mix(lines: Iterable[str]) -> Counter[str]:
    """Instructions by kind (``packed``, ``other``) in a disassembly, the C runtime's own stubs left out."""
    counts: Counter[str] = Counter()
    inside_stub = False
    for line in lines:
        function = _FUNCTION.match(line)
        if function:
            inside_stub = function[1].startswith(_RUNTIME_STUBS) or "@plt" in function[1]
            continue
        instruction = None if inside_stub else _INSTRUCTION.match(line)
        if instruction:
            counts[_kind(instruction[1], instruction[2])] += 1
    return counts


def _kind(mnemonic: str, operands: str) -> str:
    if re.search(r"%[yz]mm", operands) or (
        "%xmm" in operands and re.search(r"(ps|pd|dq[au]?|[bwdq])$", mnemonic) and not mnemonic.startswith("vcvts")
    ):
        return "packed"
    if re.search(r"\b[vz]\d+\.", operands):
        return "packed"
    return "other"
