"""What is said of Triton kernels comes from the files that a build left, read as an enemy's."""

import json

import pytest

from evaluators.builders.base import BuildRefused
from evaluators.builders.triton_report import DISASSEMBLED, write

TOOL = """#!/bin/sh
case "$(cat "$2")" in
*broken*) exit 1 ;;
esac
name=$(head -n 1 "$2")
case "$1" in
--dump-resource-usage) echo " Function $name:"; echo "  REG:$(sed -n 2p "$2") STACK:0 SHARED:0 LOCAL:8" ;;
--print-code) echo "        /*0000*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;" ;;
esac
"""


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
    (path / f"{file}.cubin").write_text(f"{name}\n{registers}\n")
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
    kernel(place[0], "a", "broken")
    with pytest.raises(BuildRefused, match="finds no kernel"):
        report(place)


def test_a_build_without_kernels_is_refused(place):
    with pytest.raises(BuildRefused, match="no kernel"):
        report(place)


def test_without_tools_nothing_is_named(place):
    tmp_path, order = place
    kernel(tmp_path, "a", "soft")
    write(tmp_path / "work", tmp_path / "cache", order | {"cuobjdump": None, "nvdisasm": None})
    assert not (tmp_path / "work" / "resources.txt").exists()
