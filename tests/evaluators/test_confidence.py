import math

import numpy as np
import pytest

from evaluators.confidence import least_rounds, log_evidence, median_bounds, order_statistic, ratio_interval


@pytest.mark.parametrize("n", [1, 7, 20, 41])
def test_the_evidence_against_a_fair_coin_averages_one(n):
    """The martingale's mean is 1: what Ville's inequality needs."""
    mean = sum(math.comb(n, k) * 0.5**n * math.exp(log_evidence(k, n)) for k in range(n + 1))
    assert mean == pytest.approx(1.0, rel=1e-9)


def test_ten_rounds_are_the_first_that_can_decide_at_one_percent():
    assert least_rounds(0.01) == 10
    assert order_statistic(9, 0.01) is None
    assert ratio_interval([0.1] * 9, 0.01) is None
    assert ratio_interval([0.1] * 10, 0.01) is not None


def test_looking_after_every_round_keeps_the_stated_error():
    """Heavy-tailed noise, looked at after each of rounds 10 to 60: excluded at most as often as stated."""
    rng = np.random.default_rng(1)
    trials, excluded = 1500, 0
    for _ in range(trials):
        values = (rng.standard_t(2, size=60) * 0.01).tolist()
        for n in range(10, 61):
            low, _, high = median_bounds(values[:n], 0.05)
            if low > 0 or high < 0:
                excluded += 1
                break
    assert excluded / trials <= 0.05


def test_a_true_gain_is_found():
    rng = np.random.default_rng(2)
    interval = ratio_interval((math.log(1.05) + rng.normal(0, 0.01, 40)).tolist(), 0.01)
    assert interval is not None
    assert 1.03 < interval.low <= interval.estimate <= interval.high < 1.07


def test_one_wild_round_does_not_move_the_interval():
    quiet = [0.01 * i for i in range(-10, 11)]
    wild = [*quiet[:-1], 50.0]
    assert median_bounds(wild, 0.01) == median_bounds(quiet, 0.01)
