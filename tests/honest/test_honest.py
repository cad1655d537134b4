"""Honest programs of every kind pass: a false conviction is as much a defect as a cheat that gets through."""

from pathlib import Path

import pytest

from evaluators.evaluation import Status
from tests.exploits.corpus import LANGUAGES, plain, read_head
from tests.quick_judge import DATA

PROGRAMS = sorted(path for path in Path(__file__).with_name("programs").iterdir() if path.suffix in LANGUAGES)
pytestmark = pytest.mark.corpus
TASKS = ("double", "softmax_rows", "sort_rows", "scale_bf16")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_an_honest_program_passes(path, judges):
    head, text = read_head(path.read_text())
    evaluation = judges(head.get("task", "double")).evaluate(text, LANGUAGES[path.suffix])
    assert evaluation.status is Status.PASSED, (evaluation.message, evaluation.detail)


@pytest.mark.parametrize("task", TASKS)
def test_the_plain_program_is_confirmed(task, judges):
    evaluation = judges(task).confirm(plain(task, "cpp").read_text(), "cpp")
    assert evaluation.status is Status.PASSED, (evaluation.message, evaluation.detail)


def test_an_honest_answer_of_few_bits_is_not_taken_for_poison(judges):
    """A count that happens to be small is not "never written"."""
    judge = judges("count")
    for answer in range(20):
        evaluation = judge.evaluate(f"def count(out):\n    out[:] = {answer}\n", "python")
        assert evaluation.status is Status.PASSED, evaluation.message
        assert evaluation.score == answer


def test_every_task_of_the_corpus_has_an_honest_program():
    assert {path.name for path in DATA.iterdir()} >= set(TASKS)
