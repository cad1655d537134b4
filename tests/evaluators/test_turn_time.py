"""What a program works counts, whenever it does so and on however many cores; what stopping takes does not."""

import pytest

from evaluators.turn_time import STOPPING_NS, turn_ns

CLOCK = 1_000_000


@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize("busy", [0.1, 1.0])
def test_an_honest_turn_takes_what_the_clock_says(cores, busy):
    """Also where its idle threads spin, and each is stopped a little after the reply."""
    assert turn_ns(CLOCK, round(busy * cores * CLOCK), 0, cores) == CLOCK
    assert turn_ns(CLOCK, cores * (CLOCK + STOPPING_NS), cores * STOPPING_NS, cores) == CLOCK


@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize("busy", [1, 0])
def test_work_after_the_last_reply_counts_whole_whatever_was_left_idle_before(cores, busy):
    """A task of two threads left a core's worth of a turn for it, and halved the rest."""
    late = 6_000_000
    took = turn_ns(CLOCK, busy * CLOCK, late, cores)
    assert took == CLOCK + late - STOPPING_NS * cores


@pytest.mark.parametrize("cores", [1, 2])
def test_work_without_having_been_let_go_on_counts(cores):
    assert turn_ns(CLOCK, cores * 5 * CLOCK, 0, cores) == 5 * CLOCK - STOPPING_NS


def test_a_process_that_is_gone_does_not_make_a_turn_shorter():
    """Its account reads 0 then: less than before."""
    assert turn_ns(CLOCK, -7 * CLOCK, 0, 1) == CLOCK
    assert turn_ns(CLOCK, CLOCK, -7 * CLOCK, 1) == CLOCK
