"""How the attestation stage goes about its rounds: what is held up, what was not timed before, and what was built."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluators.build import BuiltProgram
from evaluators.cuda import attesting
from evaluators.cuda.attestation import Watched
from evaluators.cuda.attesting import TIMED_ROUNDS, Attestor, declared_kernels
from evaluators.cuda.cupti import CuptiUnavailable
from evaluators.cuda.recording import Activity
from evaluators.errors import JudgeError
from evaluators.evaluation import Artifact, Status
from evaluators.failure import CandidateFailure
from evaluators.rounds import PairedTimes

CALL_US = 20.0
OVERFLOWED = CuptiUnavailable("the counters' buffer overflowed")
CALIBRATION = SimpleNamespace(plan=SimpleNamespace(workload=SimpleNamespace(name="w")))


def steady(monkeypatch, *rounds, idle=(True, True)):
    """A watched round of a program whose rounds go like this, on a device that is looked at after each stall."""
    coming = iter(rounds)

    def watched_round(*arguments):
        took_us, seen = next(coming)
        if took_us is None:
            raise seen
        return took_us, seen

    looks = iter(idle)
    monkeypatch.setattr(attesting, "_watched_round", watched_round)
    monkeypatch.setattr(attesting, "_counted", lambda _: Watched(0 if next(looks) else 5, 0, 0, 0))
    monkeypatch.setattr(attesting, "IDLE_LOOKS", 1)
    return attesting._steady_round(None, None, CALIBRATION, None, (), CALL_US)


def test_what_a_call_took_is_kept_with_what_was_counted(monkeypatch):
    assert steady(monkeypatch, (21.0, Watched(64, 0, 0, 0))).call_us == 21.0


def test_a_program_that_stalls_until_the_counters_overflow_is_convicted(monkeypatch):
    with pytest.raises(CandidateFailure, match="where they are timed") as caught:
        steady(monkeypatch, (1e5, OVERFLOWED), (1e5, OVERFLOWED))
    assert caught.value.status is Status.CHEATING


@pytest.mark.parametrize("idle", [(False,), (True, False)])
def test_one_that_others_may_have_held_up_is_not_convicted(monkeypatch, idle):
    with pytest.raises(CuptiUnavailable, match="others use this device"):
        steady(monkeypatch, (1e5, OVERFLOWED), (1e5, OVERFLOWED), idle=idle)


def test_counters_that_cannot_be_read_after_a_stall_leave_no_verdict(monkeypatch):
    def unreadable(_):
        raise CuptiUnavailable("gone")

    monkeypatch.setattr(attesting, "_counted", unreadable)
    with pytest.raises(JudgeError, match="held up: gone"):
        attesting._look_for_others(None)


def test_that_counters_add_up_is_shown_for_each_number_of_calls(monkeypatch):
    """Of eight calls any number of grids adds up, and says nothing of a round of 64."""
    monkeypatch.setattr(attesting, "baseline_side", lambda *_: None)
    monkeypatch.setattr(attesting, "_watched_round", lambda *_: (1.0, Watched(100, 0, 0, 0)))

    def control(calls):
        plan = SimpleNamespace(workload=CALIBRATION.plan.workload, calls=calls, layout=SimpleNamespace(sequences=[()]))
        return attestor._control(None, None, SimpleNamespace(strongest="eager", plan=plan), None)

    attestor = Attestor(None)
    assert control(8) == ""
    assert "do not add up" in control(64)


def test_one_that_was_held_up_once_is_watched_again(monkeypatch):
    assert steady(monkeypatch, (1e5, OVERFLOWED), (21.0, Watched(64, 0, 0, 0))).dispatches == 64


def test_counters_that_overflow_without_a_stall_are_no_fault_of_the_program(monkeypatch):
    with pytest.raises(CuptiUnavailable):
        steady(monkeypatch, (21.0, OVERFLOWED))


@pytest.mark.parametrize("then", [(21.0, OVERFLOWED), (None, CuptiUnavailable("not now: start"))])
def test_a_stall_does_not_end_in_a_round_that_nobody_watched(monkeypatch, then):
    with pytest.raises(JudgeError, match="held up"):
        steady(monkeypatch, (1e5, OVERFLOWED), then)


def call_us(monkeypatch, times):
    filled = []
    coming = iter([30.0, 21.0, 22.0])
    monkeypatch.setattr(attesting, "candidate_side", lambda *_: SimpleNamespace(session=None))
    monkeypatch.setattr(attesting, "warm_up", lambda *_: 0.0)
    monkeypatch.setattr(attesting, "draw_slots", lambda *_: [0, 1])
    monkeypatch.setattr(attesting, "one_round", lambda *_: next(coming))
    arena = SimpleNamespace(rng=None, fill=lambda session, content, slots: filled.append(slots))
    calibration = SimpleNamespace(plan=CALIBRATION.plan, content=None)
    return attesting._call_us(None, arena, SimpleNamespace(times=times), calibration), len(filled)


def test_a_process_that_was_not_timed_is_timed_before_it_is_watched(monkeypatch):
    assert call_us(monkeypatch, {}) == (22.0, TIMED_ROUNDS)


def test_a_process_that_was_timed_is_held_to_its_times(monkeypatch):
    times = {"w": {"eager": PairedTimes(ours=[19.0, 20.0, 40.0])}}
    assert call_us(monkeypatch, times) == (20.0, 0)


@pytest.fixture
def looked_at(monkeypatch):
    """Attests a program that is judged in brief rounds; returns what is said, and which rounds were used for what."""
    used = []
    layout = SimpleNamespace(sequences=[(0,)])
    plan = SimpleNamespace(workload=CALIBRATION.plan.workload, calls=1, layout=layout)
    planned, brief = (SimpleNamespace(plan=plan, kind=kind) for kind in ("planned", "brief"))
    kernel = Activity("kernel", "soft", 7, 1, 0, 20_000, 0, (1, 1, 1), (64, 1, 1), 32, 0, 0)
    for name, value in {
        "_as_timed": lambda *_: brief,
        "_call_us": lambda *_: CALL_US,
        "_eager": lambda *_: {},
        "candidate_side": lambda *_: None,
        "_counted": lambda _: Watched(0, 0, 0, 0),
    }.items():
        monkeypatch.setattr(attesting, name, value)
    attestor = Attestor(Path("recorder.so"), tried=True, watcher=SimpleNamespace(reserved=nullcontext))
    monkeypatch.setattr(attestor, "_control", lambda b, a, chosen, w: used.append(("control", chosen.kind)) or "")
    monkeypatch.setattr(attestor, "_record", lambda *_: {"w": ([0], [[kernel]])})

    def attest(watched_us):
        def orders(arena, side, chosen, watcher, call_us):
            used.append(("watched", chosen.kind))
            return ((Watched(1, 0, 0, 0, call_us=watched_us),),)

        monkeypatch.setattr(attesting, "_watched_orders", orders)
        bench = SimpleNamespace(task=SimpleNamespace(libraries=True))
        trail = SimpleNamespace(enter=lambda stage: None)
        return attestor.attest(bench, None, SimpleNamespace(trail=trail, program=program()), {"w": planned}), used

    return attest


def test_the_counters_are_tried_on_planned_rounds_and_the_program_in_those_by_which_it_was_judged(looked_at):
    found, used = looked_at(21.0)
    assert used == [("control", "planned"), ("watched", "brief")]
    assert (found.watched, found.missing) == (True, "")


def test_a_program_that_is_slower_while_it_is_counted_passes_as_one_that_was_not_watched(looked_at):
    found, _ = looked_at(60.0)
    assert not found.watched
    assert found.missing == "w: its calls take 60 us where they are counted, 20 us where they are timed"
    assert found.workloads[0].watched_us == 60.0


def program(*texts):
    artifacts = tuple(Artifact(name=name, text=text) for name, text in texts)
    return BuiltProgram("", "triton", "0" * 64, artifacts=artifacts)


def test_what_was_built_is_what_the_code_names():
    listed = "Function soft: 32 registers\n Function _Z4tailPf:\n  REG:32 STACK:0\n"
    assert declared_kernels(program(("resources.txt", listed))) == {"soft", "_Z4tailPf"}


def test_a_program_whose_code_could_not_be_read_has_built_nothing():
    assert declared_kernels(program(("resources.txt", ""))) == frozenset()


def test_without_a_tool_that_reads_code_nobody_knows():
    assert declared_kernels(program(("kernels.ptx", "Function soft: "))) is None
