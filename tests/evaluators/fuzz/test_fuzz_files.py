"""Task files, locks, sources and build reports of any content: something usable, or one line about what is wrong."""

from __future__ import annotations

import json
import math
import shutil
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from evaluators.build import _texts as left_texts
from evaluators.build import lint, read_report
from evaluators.errors import TaskError
from evaluators.evaluation import Artifact, Environment, Evaluation, Status
from evaluators.failure import CandidateFailure
from evaluators.report import Subject, failed_evaluation
from evaluators.source import build_flags, check_blocks, normal_form, source_hash
from evaluators.task import Task
from evaluators.task_loading import load_task
from evaluators.tolerance import ToleranceLock, load_lock
from evaluators.trail import Trail
from evaluators.wire import pack, read

DATA = Path(__file__).parents[2] / "data"
ANY = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
WORDS = st.text(max_size=12) | st.sampled_from(["", "kernel", "../x"])
SCALARS = st.one_of(st.integers(-(2**70), 2**70), st.floats(), st.booleans(), WORDS)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=6), v, max_size=3))


def toml(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value) if isinstance(value, str | bool) else repr(value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    copy = tmp_path_factory.mktemp("task") / "double"
    shutil.copytree(DATA / "double", copy)
    return copy


def loaded(folder: Path, text: str) -> Task | None:
    """The task, or ``None`` after a mistake that is told in one line."""
    path = folder / "task.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        return load_task(folder)
    except TaskError as error:
        assert "\n" not in str(error)
        assert str(path) in str(error)
        return None


@given(key=st.sampled_from(sorted(Task.model_fields)), value=VALUES)
@ANY
def test_any_value_of_any_key_of_a_task_is_used_or_refused_in_one_line(folder, key, value):
    lines = (DATA / "double" / "task.toml").read_text().replace("[limits]", "limits = {").split("limits = {")[0]
    kept = "\n".join(row for row in lines.splitlines() if not row.startswith(f"{key} ="))
    loaded(folder, f"{key} = {toml(value)}\n{kept}")


@given(st.text(max_size=300))
@ANY
def test_any_text_for_a_task_is_refused_in_one_line(folder, text):
    assert loaded(folder, text) is None


@given(cut=st.integers(0, 900), text=st.text(max_size=20))
@ANY
def test_a_task_file_with_something_in_the_middle_is_used_or_refused_in_one_line(folder, cut, text):
    whole = (DATA / "double" / "task.toml").read_text()
    loaded(folder, whole[:cut] + text + whole[cut:])


@given(cut=st.integers(0, 1500), text=st.text(max_size=20), drop=st.integers(0, 30))
@ANY
def test_a_damaged_lock_is_refused_in_one_line_or_still_one(folder, cut, text, drop):
    (folder / "task.toml").write_text((DATA / "double" / "task.toml").read_text())
    whole = (DATA / "double" / "tolerance.lock").read_text()
    (folder / "tolerance.lock").write_bytes((whole[:cut] + text + whole[cut + drop :]).encode("utf-8", "surrogatepass"))
    try:
        lock = load_lock(load_task(folder))
    except TaskError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(lock, ToleranceLock)


SEED = "int a;\n// EVOLVE-BLOCK-START\nint b;\n// EVOLVE-BLOCK-END\nint c;\n"
PIECES = st.sampled_from(
    (
        *("int a;", "int c;", "// EVOLVE-BLOCK-START", "// EVOLVE-BLOCK-END", "// build-flags:", "-O3", "-fplugin=x"),
        *("\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u202e", " ", "\t", "\0", "\ud800", "\x1b[2J"),
        *("*/", "/*", "\\"),
    )
)
MADE = st.lists(PIECES, max_size=30).map("".join)
SOURCES = st.one_of(
    st.text(max_size=80),
    MADE,
    MADE.map(lambda text: SEED.replace("int b;", text)),
    MADE.map(lambda text: SEED.replace("int b;", f"// build-flags: {text}")),
)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=200)


@example("// build-flags: \ud800")
@example(SEED.replace("int b;", "// build-flags: -O3 \u2028-fplugin=x"))
@given(SOURCES)
@ANY
def test_any_source_is_taken_or_refused_in_one_printable_line(source):
    task = load_task(DATA / "double")
    try:
        flags = lint(task, source, "cpp", SEED)
    except CandidateFailure as failure:
        assert failure.status is Status.REJECTED
        evaluation = failed(task, source, failure)
        assert len(evaluation.message.splitlines()) == 1
        assert evaluation.message.isprintable()
    else:
        assert set(flags) <= {*task.build_flags, "-funroll-loops"}
    assert len(source_hash(source)) == 64


@given(SOURCES)
@ANY
def test_what_lies_outside_of_the_regions_cannot_change(source):
    if check_blocks(SEED, source) is None:
        before, rest = normal_form(source).split("// EVOLVE-BLOCK-START", 1)
        assert before.split() == ["int", "a;"]
        assert rest.rsplit("// EVOLVE-BLOCK-END", 1)[1].split() == ["int", "c;"]


@given(SOURCES)
@ANY
def test_flags_are_picked_from_the_choices_or_refused(source):
    choices = [["-O3", "-O2"], ["", "-funroll-loops -g"]]
    try:
        assert set(build_flags(source, choices)) <= {"-O3", "-O2", "-funroll-loops", "-g"}
    except ValueError as error:
        assert str(error)


@example(message="\ud800", detail="\x1b[2J\ud800")
@given(message=TEXTS, detail=TEXTS)
@ANY
def test_whatever_a_candidate_says_reaches_the_database_as_text(message, detail):
    task = load_task(DATA / "double")
    failure = CandidateFailure(Status.RUNTIME_ERROR, message, detail=detail)
    evaluation = failed(task, "x", failure)
    assert Evaluation.model_validate_json(evaluation.model_dump_json().encode("utf-8")) == evaluation


def failed(task: Task, source: str, failure: CandidateFailure) -> Evaluation:
    """The evaluation of a failure."""
    subject = Subject(task, Environment(device_class="cpu:x:1"), source)
    return failed_evaluation(subject, Trail(), failure)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=8), v, max_size=5),
    max_leaves=20,
)


@given(JSON)
@ANY
def test_any_report_gives_numbers_that_are_finite(tmp_path, content):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(content))
    report = read_report(path)
    assert all(isinstance(k, str) and math.isfinite(v) for k, v in report.items())
    if isinstance(content, dict):
        numbers = {k for k, v in content.items() if isinstance(v, int | float) and not isinstance(v, bool)}
        assert set(report) <= numbers


@given(content=st.dictionaries(st.sampled_from(["program.s", "elsewhere"]), st.binary(max_size=300)), log=TEXTS)
@ANY
def test_whatever_a_build_leaves_to_be_read_is_text(tmp_path, content, log):
    for name in ("program.s", "elsewhere"):
        (tmp_path / name).unlink(missing_ok=True)
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    collected = log.encode("utf-8", "surrogatepass").decode(errors="replace")  # as a child's log is collected
    artifacts = left_texts(tmp_path, ("program.s",), collected)
    assert {a.name for a in artifacts} <= {"build.log", "program.s"}
    for artifact in artifacts:
        assert Artifact.model_validate_json(artifact.model_dump_json().encode()) == artifact


@given(st.lists(st.dictionaries(TEXTS, JSON, max_size=3), max_size=4))
@ANY
def test_messages_between_search_and_judge_arrive_whole_and_in_order(messages):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sent = b"".join(map(pack, messages))
        feeding = threading.Thread(target=lambda: [ours.sendall(sent[i : i + 7]) for i in range(0, len(sent), 7)])
        feeding.start()
        for message in messages:
            assert json.dumps(read(theirs)) == json.dumps(message)
        feeding.join()
        ours.close()
        assert read(theirs) is None
