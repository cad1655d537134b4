"""What a builder leaves is taken as data: no links, no devices, no surprises in the report."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.build import (
    ARTIFACT_CAP,
    FOLDER_FILES,
    read_report,
    remove_tree,
    take_artifact,
    take_file,
)
from evaluators.builders.cpp import instruction_mix
from evaluators.evaluation import Status
from evaluators.failure import CandidateFailure


def test_a_regular_file_is_copied_read_only(tmp_path):
    (tmp_path / "a.so").write_bytes(b"code")
    take_file(tmp_path / "a.so", tmp_path / "b.so")
    assert (tmp_path / "b.so").read_bytes() == b"code"
    assert (tmp_path / "b.so").stat().st_mode & 0o222 == 0


@pytest.mark.parametrize("kind", ["missing", "symlink", "hardlink", "fifo", "folder", "huge"])
def test_anything_else_is_a_build_error(tmp_path, kind):
    secret, path = tmp_path / "secret", tmp_path / "a.so"
    secret.write_text("key")
    match kind:
        case "symlink":
            path.symlink_to(secret)
        case "hardlink":
            os.link(secret, path)
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "huge":
            path.touch()
            os.truncate(path, ARTIFACT_CAP + 1)
    with pytest.raises(CandidateFailure) as caught:
        take_file(path, tmp_path / "b.so")
    assert caught.value.status is Status.BUILD_ERROR
    assert not (tmp_path / "b.so").exists()


def test_a_folder_is_copied_without_its_links(tmp_path):
    source = tmp_path / "cache"
    (source / "a").mkdir(parents=True)
    (source / "a" / "kernel.cubin").write_bytes(b"code")
    (source / "b").symlink_to("/etc")
    take_artifact(source, tmp_path / "taken")
    assert [p.relative_to(tmp_path / "taken").as_posix() for p in (tmp_path / "taken").rglob("*")] == [
        "a",
        "a/kernel.cubin",
    ]


@pytest.mark.parametrize("kind", ["deep", "many", "link to a file"])
def test_a_folder_made_to_hurt_is_a_build_error_and_leaves_nothing(tmp_path, kind):
    source = tmp_path / "cache"
    source.mkdir()
    match kind:
        case "deep":
            where = os.open(source, os.O_RDONLY)
            for _ in range(1500):  # deeper than Python's recursion goes
                os.mkdir("d", dir_fd=where)
                below = os.open("d", os.O_RDONLY, dir_fd=where)
                os.close(where)
                where = below
            os.close(where)
        case "many":
            for number in range(FOLDER_FILES):
                (source / str(number)).touch()
        case "link to a file":
            (source / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(CandidateFailure) as caught:
        take_artifact(source, tmp_path / "taken")
    assert caught.value.status is Status.BUILD_ERROR
    remove_tree(source)
    assert not list(tmp_path.iterdir())


@given(st.binary(max_size=200))
def test_any_report_gives_finite_numbers(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("r") / "report.json"
    path.write_bytes(content)
    assert all(abs(v) < 1e15 for v in read_report(path).values())


def test_only_the_report_s_numbers_are_taken(tmp_path):
    path = tmp_path / "report.json"
    path.write_text('{"a": 1, "b": "x", "c": true, "d": NaN, "e": Infinity, "f": [1], "g": 1e300, "h": 0.5}')
    assert read_report(path) == {"a": 1.0, "h": 0.5}
    path.write_text("[" * 100_000)
    assert read_report(path) == {}
    path.write_text(json.dumps([1, 2]))
    assert read_report(path) == {}
    path.unlink()
    path.symlink_to("/etc/hostname")
    assert read_report(path) == {}


def test_vector_instructions_are_counted_apart_from_scalar_ones_and_stubs():
    listing = """
0000000000001000 <_init>:
    1000:       vaddps %ymm0,%ymm1,%ymm2
0000000000001100 <kernel>:
    1100:       vfmadd231ps (%rax),%ymm1,%ymm2
    1105:       addps  %xmm0,%xmm1
    1108:       addss  %xmm0,%xmm1
    110c:       vcvtsi2ss %eax,%xmm0,%xmm0
    1110:       mov    %rax,%rbx
    1113:       ret
""".splitlines()
    assert instruction_mix(listing) == {"packed": 2, "other": 4}
