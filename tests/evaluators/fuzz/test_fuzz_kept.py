"""Inputs that fuzzing came upon, and what it found: each is read, or refused as the parser says it refuses.

``kept_inputs.json`` holds for each parser, in base64, the few inputs that between them reach most of its code, out of
those that a fuzzer led by coverage made in minutes (docs/judge.md says how).
"""

from __future__ import annotations

import base64
import json
import math
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from evaluators import channel
from evaluators.build import lint
from evaluators.builders import sass, triton_report
from evaluators.builders.base import BuildRefused
from evaluators.builders.resources import count_instructions, parse_usage, summary
from evaluators.cuda import ncu, sanitizer
from evaluators.cuda.inspection import Report, ToolUnavailable
from evaluators.cuda.recording import DamagedRecord, FullRecord, Recording
from evaluators.failure import CandidateFailure
from evaluators.listing import Listing
from evaluators.mappings import AddressSpace
from evaluators.task_loading import load_task
from evaluators.wire import read

DOUBLE = Path(__file__).parents[2] / "data" / "double"
MANY_DIGITS = "9" * 5000
"""More than Python turns into a number."""
NCU_HEAD = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'


def report_of(data: bytes) -> Report:
    """What a tool wrote, and after a mark what was printed, as the fuzzer put them together."""
    written, _, printed = data.decode(errors="replace").partition("\x1e")
    return Report(written, printed, {"0": 0, "1": 1}.get(printed[:1]))


def a_frame(data: bytes, folder: Path) -> None:
    with suppress(channel.ProtocolViolation):
        assert channel.encode(channel.decode(data)) == data


def a_recording(data: bytes, folder: Path) -> None:
    recording = Recording()
    recording._view[: len(data)] = data
    try:
        assert all(activity.duration_ns >= 0 and "\0" not in activity.name for activity in recording.read())
    except (DamagedRecord, FullRecord):
        pass
    finally:
        recording.close()


def a_cubin(data: bytes, folder: Path) -> None:
    with suppress(ValueError, LookupError, OverflowError, struct.error):
        assert all(len(name.split()) == 1 for name, _ in sass.functions(data))


def a_sanitizers_report(data: bytes, folder: Path) -> None:
    try:
        found = sanitizer.parse(report_of(data))
    except ToolUnavailable as why:
        assert len(str(why).splitlines()) == 1
    else:
        assert all(len(row.splitlines()) == 1 and len(row) <= 240 for row in found.findings)


def counters(data: bytes, folder: Path) -> None:
    try:
        kernels = ncu.parse(report_of(data))
    except ToolUnavailable as why:
        assert len(str(why).splitlines()) == 1
    else:
        assert all(math.isfinite(value) for kernel in kernels for value, _ in kernel.values.values())


def a_resource_report(data: bytes, folder: Path) -> None:
    text = data.decode(errors="replace")
    numbers = summary(parse_usage(text), count_instructions(text.splitlines()))
    assert all(0 <= number < 1e15 for number in numbers.values())


def a_triton_build(data: bytes, folder: Path) -> None:
    metadata, _, code = data.partition(b"\x1e\x1e")
    (folder / "kernel.json").write_bytes(metadata)
    (folder / "kernel.amdgcn").write_bytes(code)
    try:
        numbers = triton_report.write(folder, folder, {"arch": "gfx942", "cuobjdump": None, "nvdisasm": None})
    except BuildRefused as why:
        assert len(str(why).splitlines()) == 1
    else:
        assert all(0 <= number < 1e15 for number in numbers.values())


def a_message(data: bytes, folder: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.close()
        with suppress(ValueError):  # no candidate holds an end of it
            read(ours)


def a_source(data: bytes, folder: Path) -> None:
    try:
        lint(load_task(DOUBLE), data.decode("utf-8", "surrogateescape"), "cpp", (DOUBLE / "seed.cpp").read_text())
    except CandidateFailure as failure:
        assert failure.message


def a_listing(data: bytes, folder: Path) -> None:
    text = data.decode(errors="replace")
    listing = Listing(text, "candidate.cpp")
    for address in (0, 0x1000, 0x1100, 2**64):
        found = listing.at(address)
        assert found is None or found.line is None or found.line > 0
        AddressSpace(text).place(address)


PARSERS: dict[str, Callable[[bytes, Path], None]] = {
    "channel": a_frame,
    "recording": a_recording,
    "sass": a_cubin,
    "sanitizer": a_sanitizers_report,
    "ncu": counters,
    "usage": a_resource_report,
    "triton": a_triton_build,
    "wire": a_message,
    "source": a_source,
    "listing": a_listing,
}
KEPT = json.loads(Path(__file__).with_name("kept_inputs.json").read_bytes())


def test_inputs_are_kept_of_every_parser():
    assert {name for name, inputs in KEPT.items() if inputs} == set(PARSERS)


@pytest.mark.parametrize("name", PARSERS)
def test_what_fuzzing_made_is_read_or_refused(name, tmp_path):
    for text in KEPT[name]:
        PARSERS[name](base64.b64decode(text), tmp_path)


@pytest.mark.parametrize("text", ['"ID","Kernel N4.5"\r"0",024.5"\n"0"', f'{NCU_HEAD}"{"x" * 200_000}"\n'])
def test_counters_that_are_no_table_are_none(text):
    with pytest.raises(ToolUnavailable, match=r"ncu's counters cannot be read: [^\n]*$"):
        ncu.parse(Report(text, "", 0))


def test_counters_too_large_to_be_any_are_left_out():
    """The median of two is half of their sum, and that was Inf."""
    rows = "".join(f'"0","soft","{ncu.DURATION}","ns","{value}"\n' for value in ("1e308", "1.7e308", "nan", "inf", "5"))
    (kernel,) = ncu.parse(Report(NCU_HEAD + rows, "", 0))
    assert kernel.values[ncu.DURATION] == (5.0, "ns")


def test_numbers_of_thousands_of_digits_are_refused_like_any_other_damage(tmp_path):
    with pytest.raises(ToolUnavailable, match="did not end"):
        sanitizer.parse(Report(f"========= ERROR SUMMARY: {MANY_DIGITS} errors\n", "", 0))
    assert parse_usage(f"Function soft:\n  REG:{MANY_DIGITS} STACK:1 SHARED:1 LOCAL:1\n") == []
    a_triton_build(f'{{"shared": 0, "num_warps": 4}}\x1e\x1e .vgpr_count: {MANY_DIGITS}\n'.encode(), tmp_path)
    (tmp_path / "kernel.json").write_text(f'{{"shared": {MANY_DIGITS}, "num_warps": 4}}')
    with pytest.raises(BuildRefused, match="no metadata"):
        triton_report.write(tmp_path, tmp_path, {"arch": "gfx942", "cuobjdump": None, "nvdisasm": None})
