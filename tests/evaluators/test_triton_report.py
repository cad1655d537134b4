"""What is said of Triton kernels comes from the files that a build left, read as an enemy's."""

import json
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.builders.base import BuildRefused
from evaluators.builders.sass import disassemble, functions
from evaluators.builders.triton_report import DISASSEMBLED, write

TOOL = """#!/bin/sh
case "$1" in
--dump-resource-usage)
  name=$(grep -ao '#.*#' "$2" | tr -d '#')
  test -n "$name" || exit 1
  echo " Function ${name%:*}:"; echo "  REG:${name#*:} STACK:0 SHARED:0 LOCAL:8" ;;
--binary)
  test "$2" = SM90a || exit 1
  size=$(stat -c %s "$3")
  for at in $(seq 0 16 $((size - 1))); do
    printf '        /*%04x*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;\n' $at
  done ;;
esac
"""
"""Finds the name between two marks; takes every 16 bytes for a matrix instruction."""


def cubin(name, registers, instructions=1):
    """An ELF file with one function, and what the tool above looks for."""
    names = b"\0.shstrtab\0.text." + name.encode() + b"\0"
    mark = f"#{name}:{registers}#".encode()
    code_at = 64 + 3 * 64
    names_at = code_at + 16 * instructions
    head = struct.pack("<4s36xQ10xHHH", b"\x7fELF", 64, 64, 3, 1)
    sections = [(0, 0, 0), (1, names_at, len(names)), (11, code_at, 16 * instructions)]
    table = b"".join(struct.pack("<I20xQQ24x", word, at, size) for word, at, size in sections)
    return head + table + b"\1" * 16 * instructions + names + mark


@pytest.fixture
def place(tmp_path):
    """A cache to be filled, and the order of a report on it."""
    tool = tmp_path / "tool"
    tool.write_text(TOOL)
    tool.chmod(0o755)
    (tmp_path / "cache").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path, {"arch": "sm_90", "cuobjdump": str(tool), "nvdisasm": str(tool)}


def kernel(tmp_path, folder, name, registers=32, metadata=None, file="kernel"):
    path = tmp_path / "cache" / folder
    path.mkdir()
    (path / f"{file}.cubin").write_bytes(cubin(name, registers) if name else b"garbage")
    text = metadata if metadata is not None else json.dumps({"shared": 2048, "num_warps": 4})
    (path / f"{file}.json").write_text(text)


def report(place):
    tmp_path, order = place
    measures = write(tmp_path / "work", tmp_path / "cache", order)
    return measures, (tmp_path / "work" / "resources.txt").read_text()


def test_names_and_registers_are_those_of_the_code_whatever_its_file_is_called(place):
    kernel(place[0], "a", "soft", 40, file="nvjet_sm90_gemm")
    measures, listed = report(place)
    assert (measures["kernels"], measures["registers"], measures["shared_kib"]) == (1, 40, 2)
    assert measures["tensor_core_share"] == 1
    assert listed.startswith("Function soft: 40 registers, 8 bytes")
    assert "nvjet" not in listed


def test_the_same_kernel_for_several_shapes_counts_once(place):
    for folder in "abc":
        kernel(place[0], folder, "soft")
    kernel(place[0], "d", "soft", metadata=json.dumps({"shared": 0, "num_warps": 4}))
    measures, _ = report(place)
    assert measures["kernels"] == 2


def test_every_kernel_of_many_is_named_and_some_are_disassembled(place):
    for index in range(DISASSEMBLED + 5):
        kernel(place[0], f"k{index}", f"tuned_{index:02}", 30 + index)
    measures, listed = report(place)
    assert (measures["kernels"], measures["registers"]) == (DISASSEMBLED + 5, 30 + DISASSEMBLED + 4)
    assert measures["instructions"] == DISASSEMBLED
    assert listed.count("Function ") == DISASSEMBLED + 5


@pytest.mark.parametrize(
    "metadata",
    [
        *("", "[", "[]", "{}", "[" * 100_000),
        '{"shared": "1", "num_warps": 4}',
        '{"shared": -1, "num_warps": 4}',
        '{"shared": 0, "num_warps": 0}',
        '{"shared": 0, "num_warps": 1e9}',
    ],
)
def test_metadata_that_is_none_is_refused(place, metadata):
    kernel(place[0], "a", "soft", metadata=metadata)
    with pytest.raises(BuildRefused, match="no metadata"):
        report(place)


def test_code_that_cannot_be_read_is_refused(place):
    kernel(place[0], "a", "")
    with pytest.raises(BuildRefused, match="finds no kernel"):
        report(place)


@pytest.mark.parametrize("name", ["soft\n        /*0010*/   HMMA.16816 R4", "soft\u2028", "a b", ""])
def test_names_that_could_pass_for_instructions_are_not_printed(place, name):
    tmp_path, order = place
    assert disassemble(order["nvdisasm"], "sm_90", tmp_path, [cubin("soft$a.b@c", 32)]) is not None
    assert disassemble(order["nvdisasm"], "sm_90", tmp_path, [cubin(name, 32)]) is None


def test_a_kernel_under_a_strange_name_is_refused(place):
    kernel(place[0], "a", "so,ft")
    with pytest.raises(BuildRefused, match="name holds"):
        report(place)


def test_a_build_without_kernels_is_refused(place):
    with pytest.raises(BuildRefused, match="no kernel"):
        report(place)


def test_code_that_cannot_be_taken_apart_has_no_mix_of_instructions(place):
    kernel(place[0], "a", "soft")
    path = place[0] / "cache" / "a" / "kernel.cubin"
    path.write_bytes(path.read_bytes().replace(b"ELF", b"elf"))
    measures, listed = report(place)
    assert measures["registers"] == 32
    assert "tensor_core_share" not in measures
    assert "matrix instructions" not in listed


@given(st.binary(max_size=300), st.integers(0, 400))
def test_any_file_is_either_taken_apart_or_none(content, at):
    good = cubin("soft", 32, 3)
    for data in (content, good[:at], good[:at] + content + good[at:]):
        with suppress(ValueError, LookupError, OverflowError, struct.error):
            assert all(isinstance(name, str) for name, _ in functions(data))


def test_the_instructions_of_a_kernel_are_told_from_those_of_the_next(place, tmp_path):
    both = [cubin("one", 8, 2), cubin("two", 8, 3)]
    first, second = disassemble(place[1]["nvdisasm"], "sm_90", tmp_path, both)
    assert (first.splitlines()[0], second.splitlines()[0]) == ("one:", "two:")
    assert [text.count("HMMA") for text in (first, second)] == [2, 3]


def test_without_tools_nothing_is_named(place):
    tmp_path, order = place
    kernel(tmp_path, "a", "soft")
    write(tmp_path / "work", tmp_path / "cache", order | {"cuobjdump": None, "nvdisasm": None})
    assert not (tmp_path / "work" / "resources.txt").exists()
