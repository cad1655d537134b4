"""The endurance run's own measure: what rises is found, and what only wobbles is not."""

import numpy as np
import pytest

from benchmarks.trend import student, trend


def test_student():
    assert student(0.95, 17) == pytest.approx(2.110, abs=0.01)
    assert student(0.95, 8) == pytest.approx(2.306, abs=0.01)
    assert student(0.99, 10) == pytest.approx(3.169, abs=0.02)


def test_a_straight_line_is_known_exactly():
    found = trend([100 + i for i in range(11)])
    assert found.estimate == pytest.approx(10 / 105)
    assert found.high - found.low == pytest.approx(0, abs=1e-9)
    assert found.verdict(0.05) == "beyond"


def test_noise_is_no_trend_at_the_stated_level():
    rng = np.random.default_rng(1)
    missed = sum(not (t := trend(1 + 0.02 * rng.standard_normal(19))).low <= 0 <= t.high for _ in range(400))
    assert missed / 400 == pytest.approx(0.05, abs=0.03)


def test_what_cannot_be_known_is_undecided():
    assert trend([1.0, 1.5, 0.7, 1.2]).verdict(0.05) == "undecided"
    assert trend([1.0, 1.001, 0.999, 1.0]).verdict(0.05) == "within"
