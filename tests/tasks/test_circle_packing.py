from __future__ import annotations

from fractions import Fraction
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evaluators.evaluation import Status
from evaluators.task_loading import find_task, load_task

TASK = load_task(find_task("circle_packing"))


class Failed(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def module(name: str) -> ModuleType:
    made = ModuleType(name)
    exec((TASK.folder / name).read_text(), made.__dict__)
    return made


@pytest.fixture(scope="module")
def evaluator():
    return module("evaluator.py")


def score(evaluator, circles):
    """What the evaluator says of a candidate that answers with these circles."""
    session = SimpleNamespace(prepare=lambda workload: None, call=lambda inputs: {"circles": circles})
    context = SimpleNamespace(
        task=TASK, source="", build=lambda source: source, session=lambda program: session, fail=Failed
    )
    return evaluator.evaluate(context)


def packing(*circles: tuple[float, float, float]) -> np.ndarray:
    """These circles and points in the corner for the rest of the 26."""
    rest = [(0.0, 0.0, 0.0)] * (26 - len(circles))
    return np.array([*circles, *rest], dtype=np.float64)


FOUR = [(x, y, 0.25) for x in (0.25, 0.75) for y in (0.25, 0.75)]


def test_circles_that_touch_exactly_are_feasible(evaluator):
    assert score(evaluator, packing(*FOUR))["score"] == 1.0


@pytest.mark.parametrize(
    ("circle", "words"),
    [
        ((0.25, 0.25, np.nextafter(0.25, 1)), "circle 0 leaves the square by 5.55e-17"),
        ((0.75, 0.25, np.nextafter(0.25, 1)), "circle 0 leaves the square by 5.55e-17"),
        ((0.25, np.nextafter(0.25, 0), 0.25), "circle 0 leaves the square by"),
        ((np.nextafter(0.25, 1), 0.25, 0.25), "circles 0 and 2 overlap"),
        ((0.5, 0.5, -1e-300), "circle 0 has the negative radius -1e-300"),
    ],
)
def test_the_smallest_violation_is_refused_and_said(evaluator, circle, words):
    circles = packing(circle, *FOUR[1:])
    with pytest.raises(Failed, match=words) as caught:
        score(evaluator, circles)
    assert caught.value.status is Status.WRONG_VALUES


def test_the_message_says_how_to_be_safe(evaluator):
    circles = packing(*FOUR)
    circles[0, 2] = np.nextafter(0.25, 1)
    with pytest.raises(Failed, match="shrink every radius by 1e-12"):
        score(evaluator, circles)
    circles[:, 2] = np.maximum(circles[:, 2] - 1e-12, 0)
    assert score(evaluator, circles)["score"] == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(evaluator, value):
    circles = packing(*FOUR)
    circles[25, 2] = value
    with pytest.raises(Failed) as caught:
        score(evaluator, circles)
    assert caught.value.status is Status.NOT_FINITE


def test_two_circles_in_one_place_overlap_however_small(evaluator):
    with pytest.raises(Failed, match="circles 0 and 1 overlap"):
        score(evaluator, packing((0.5, 0.5, 5e-324), (0.5, 0.5, 0.0)))


NEAR_QUARTERS = st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, 1.0, np.nextafter(0.25, 0), np.nextafter(0.25, 1)])


@settings(deadline=None)
@given(hnp.arrays(np.float64, (5, 3), elements=NEAR_QUARTERS | st.floats(-0.1, 1.1)))
def test_agrees_with_rational_arithmetic(evaluator, circles):
    exact = [[Fraction(v) for v in row] for row in circles.tolist()]
    inside = all(r >= 0 and r <= x <= 1 - r and r <= y <= 1 - r for x, y, r in exact)
    apart = all(
        (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 >= (a[2] + b[2]) ** 2
        for i, a in enumerate(exact)
        for b in exact[:i]
    )  # fmt: skip
    assert (evaluator.first_mistake(circles) == "") == (inside and apart)


def test_the_seed_is_feasible_below_the_published_best_and_the_same_every_time(evaluator):
    answers = []
    for _ in range(2):
        circles = np.full((26, 3), np.nan)
        module("seed.py").pack(circles, 26)
        answers.append(circles.copy())
    np.testing.assert_array_equal(answers[0], answers[1])
    result = score(evaluator, answers[0])
    assert 2.3 < result["score"] < TASK.best_known


def test_measures_tell_packings_apart_and_lie_in_the_grid(evaluator):
    grid = [(0.1 + 0.2 * i, 0.1 + 0.2 * j, 0.1 - 1e-9) for i in range(5) for j in range(5)]
    regular = score(evaluator, packing(*grid))
    uneven = score(evaluator, packing(*FOUR))
    assert regular["radius_spread"] < uneven["radius_spread"]
    assert regular["at_walls"] == 16 + 1
    assert regular["contacts"] == 40
    for dimension in TASK.archive:
        assert dimension.low <= regular[dimension.measure] <= dimension.high


@pytest.mark.parametrize("radius", [5e-324, 1e-323, 1e-200])
def test_radii_that_vanish_have_measures_all_the_same(evaluator, radius):
    found = score(evaluator, packing((0.5, 0.5, radius)))
    assert all(np.isfinite(value) for value in found.values()), found


def test_numbers_whose_sum_is_no_float_are_refused_like_others(evaluator):
    with pytest.raises(Failed, match="leaves the square by more than 9e"):
        score(evaluator, packing((1.7e308, 1.7e308, 1.7e308)))


@given(hnp.arrays(np.float64, (26, 3), elements=st.floats(width=64), fill=st.just(0.0)))
@settings(max_examples=200, deadline=None)
def test_no_answer_makes_the_evaluator_itself_fail(circles):
    try:
        found = score(module("evaluator.py"), circles)
    except Failed:
        return
    assert all(np.isfinite(value) for value in found.values()), found
