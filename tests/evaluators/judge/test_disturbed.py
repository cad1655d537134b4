"""A confirmation that others disturb is made again; one whose interval is wide by its own doing is not."""

from __future__ import annotations

import pytest

from evaluators import kernel, report
from evaluators.evaluation import Status, Timed, Untimed
from tests.evaluators.judge.conftest import DOUBLE_CPP


@pytest.fixture
def crowds(monkeypatch):
    """What the kernel's account says of each measurement, in turn; afterwards nobody disturbs."""
    said: list[float] = []
    monkeypatch.setattr(report, "crowded", lambda series: said.pop(0) if said else None)
    monkeypatch.setattr(kernel, "PATIENCE_S", (0.0, 0.0))
    return said


def test_a_disturbed_confirmation_is_made_again(double_judge, crowds):
    crowds += [0.7, 0.6]
    confirmed = double_judge.confirm(DOUBLE_CPP, "cpp")
    assert confirmed.status is Status.PASSED
    assert crowds == []
    assert isinstance(confirmed.timing, Timed) or "wide" in confirmed.timing.reason


def test_it_gives_up_in_the_end_and_says_why(double_judge, crowds):
    crowds += [0.7] * 10
    confirmed = double_judge.confirm(DOUBLE_CPP, "cpp")
    assert isinstance(confirmed.timing, Untimed)
    assert "others use this machine" in confirmed.timing.reason
    assert len(crowds) == 7, "one try and two more"


@pytest.mark.parametrize(("unsteady", "times"), [(False, 1), (True, 3)])
def test_a_wide_interval_is_a_reason_only_where_the_opponent_strays_too(
    double_judge, crowds, monkeypatch, unsteady, times
):
    monkeypatch.setattr(report, "NOISY_HALF_WIDTH", 0.0)
    monkeypatch.setattr(report, "stray", lambda series, half_width: unsteady)
    calls = []
    monkeypatch.setattr(report, "crowded", lambda series: calls.append(1))
    confirmed = double_judge.confirm(DOUBLE_CPP, "cpp")
    assert isinstance(confirmed.timing, Untimed)
    assert "wide" in confirmed.timing.reason
    assert confirmed.noisy is unsteady, "the search goes by the same"
    assert len(calls) == times
