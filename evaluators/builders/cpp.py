"""Builds C++ with gcc or clang into a shared object."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evaluators.builders.base import BuildRefused, BuildTarget
from evaluators.errors import UsageError
from evaluators.listing import COMMAND

SHARED_OBJECT = "candidate.so"
SOURCE = "candidate.cpp"
LISTING = "candidate.lst"
_LINE_TABLES = "-g1"
"""Lines and inlined calls, without a change to the code (GCC manual: Debugging Options)."""

_INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\s+(?:lock\s+|rep\w*\s+)?([a-z][\w.]*)\s*(.*)$")
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_RUNTIME_STUBS = ("_init", "_fini", "_start", "deregister_tm_clones", "register_tm_clones", "frame_dummy")


def find_compiler() -> str:
    """The C++ compiler: ``$CXX``, else ``g++``, else ``clang++``.

    Raises:
        UsageError: there is none.
    """
    for name in filter(None, (os.environ.get("CXX"), "g++", "clang++")):
        path = shutil.which(name)
        if path:
            return path
    raise UsageError("no C++ compiler found: install g++ (Debian: apt-get install g++) or set CXX to one")


def compile_command(compiler: str, flags: Iterable[str], source: str) -> list[str]:
    """The command line of a build; diagnostics name the source by its bare file name."""
    return [compiler, *flags, "-shared", "-fPIC", "-fdiagnostics-color=never", "-o", SHARED_OBJECT, source]


class CppBuilder:
    """Builds C++."""

    source_name = SOURCE
    artifact = SHARED_OBJECT
    texts: tuple[str, ...] = (LISTING,)
    report_texts: tuple[str, ...] = ()
    runs_source = False
    takes_flags = True
    packages: tuple[str, ...] = ()

    def order(self, target: BuildTarget) -> dict[str, Any]:
        """The compiler and its flags; with a listing also the lines it needs."""
        flags = [*target.flags, _LINE_TABLES] if target.listing else list(target.flags)
        return {"compiler": find_compiler(), "flags": flags, "listing": target.listing}

    def build(self, work: Path, order: Mapping[str, Any]) -> None:
        """One compiler run."""
        command = compile_command(order["compiler"], order["flags"], self.source_name)
        done = subprocess.run(command, cwd=work, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise BuildRefused
        if order["listing"]:
            with (work / LISTING).open("wb") as file:
                subprocess.run([*COMMAND, SHARED_OBJECT], cwd=work, stdout=file, check=False)

    def report(self, work: Path, built: Path, order: Mapping[str, Any]) -> dict[str, float]:
        """Size of its code, and the share of vector instructions."""
        del work, order
        return resource_report(built)


BUILDER = CppBuilder()


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
