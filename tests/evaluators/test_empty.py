"""What is taken off every call: never more than the channel costs, whoever is called and whatever else runs."""

from types import SimpleNamespace

import numpy as np
import pytest

from evaluators.empty import ROUNDS, empty_call_us, empty_calls_us
from evaluators.layout import Layout
from evaluators.plan import RoundPlan
from evaluators.session import RoundTime
from evaluators.task import Workload

TRUE_US = 10.0
PLAN = RoundPlan(
    Workload(name="w", axes={"N": 1}), SimpleNamespace(slots=64, sequences=()), calls=32, cold=True, turns=4
)


class Machine:
    """An arena whose empty program meets a machine that is busy most of the time."""

    def __init__(self, rng, busy):
        self.task = SimpleNamespace(entry="f", limits=SimpleNamespace(prepare_s=1.0, call_s=1.0))
        self.rng = np.random.default_rng(0)
        self._noise, self._busy = rng, busy

    def build(self, task, source, language, flags):
        assert "return" not in source
        return language

    def open(self, program):
        return self

    def prepare(self, layout, deadline_s):
        self.prepared = layout

    def close(self):
        pass

    def in_turns(self, slots, deadline_s, lengths):
        turns = [TRUE_US + (100 * self._noise.random() if self._noise.random() < self._busy else 0) for _ in lengths]
        yield from [None] * (len(lengths) - 1)
        total = sum(round(1000 * turn * length) for turn, length in zip(turns, lengths, strict=True))
        nothing = (np.empty(0), np.empty(0))
        yield RoundTime(total, tuple(slots), nothing, nothing, 0.0, tuple(turns))


@pytest.mark.parametrize("busy", [0.0, 0.5, 0.8])
def test_a_busy_machine_takes_no_more_off_a_call_than_a_quiet_one(busy):
    """Each of the rounds is disturbed somewhere; some turn is not."""
    machine = Machine(np.random.default_rng(1), busy)
    assert ROUNDS * PLAN.turns >= 20
    assert empty_call_us(machine, PLAN, machine, "cpp") == TRUE_US


def test_what_is_called_through_python_pays_for_that_itself():
    machine = Machine(np.random.default_rng(1), 0.9)
    taken_off = empty_calls_us(machine, PLAN, machine, ["cpp", "python"])
    assert taken_off["python"] == taken_off["cpp"]


class Device(Machine):
    """A round there costs what one launch does, however many calls were recorded, once its inputs are written."""

    filled = ()

    def build(self, task, source, language, flags):
        assert "spare.add_" in source
        return language

    def fill(self, session, content, slots):
        assert content == "content"
        self.filled = tuple(slots)

    def in_turns(self, slots, deadline_s, lengths):
        assert tuple(slots) in self.prepared.sequences
        assert self.filled == tuple(slots)
        self.filled = ()
        nothing = (np.empty(0), np.empty(0))
        yield RoundTime(round(1000 * TRUE_US), tuple(slots), nothing, nothing, 0.0)


def test_every_call_of_a_round_that_is_one_launch_bears_an_equal_part_of_an_empty_one():
    """Of one kernel, not as many as there are calls: what a kernel costs on a device is the program's own."""
    layout = Layout("w", (), (), 1, 1, 9, sequences=((3, 1, 4, 0), (2, 7, 1, 8)))
    plan = RoundPlan(PLAN.workload, layout, calls=4, cold=True)
    device = Device(np.random.default_rng(1), 0.0)
    taken_off = empty_calls_us(device, plan, device, ["triton", "cuda"], "content")
    assert taken_off == {"triton": TRUE_US / 4, "cuda": TRUE_US / 4}
