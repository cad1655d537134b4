"""Attestation costs seconds of a device: it is for programs whose times somebody would believe."""

import pytest

from evaluators import kernel
from evaluators.evaluation import Attestation, Duel, DuelOutcome, Interval, Status
from evaluators.platform import CpuPlatform
from evaluators.profile import Profile
from evaluators.rounds import PairedTimes
from tests.evaluators.judge.conftest import DOUBLE_CPP

UNREACHED = 1e9


class Sources(list):
    """Of what was attested."""


@pytest.fixture
def seen(monkeypatch):
    sources, fought, missing = Sources(), [], []
    sources.fought, sources.missing = fought, missing

    def attest(self, bench, arena, case, calibrations):
        sources.append(case.program.source)
        fought.append(set(case.fought))
        return Attestation(missing=missing[0] if missing else "")

    monkeypatch.setattr(CpuPlatform, "attest", attest)
    monkeypatch.setattr(kernel, "PATIENCE_S", ())  # once, however busy the machine
    return sources


@pytest.mark.parametrize(("best", "attested"), [(0.0, True), (UNREACHED, False)])
def test_what_would_be_the_best_is_attested_and_what_is_slower_is_not(double_judge, monkeypatch, seen, best, attested):
    monkeypatch.setattr(double_judge, "_best_score", best)
    evaluation = double_judge.evaluate(DOUBLE_CPP, "cpp")
    assert evaluation.status is Status.PASSED, evaluation.message
    assert (evaluation.attestation is not None) == attested
    assert seen == [DOUBLE_CPP] * attested


def test_what_is_confirmed_is_attested_however_slow_it_is(double_judge, monkeypatch, seen):
    monkeypatch.setattr(double_judge, "_best_score", UNREACHED)
    assert double_judge.confirm(DOUBLE_CPP, "cpp").attestation is not None
    assert seen == [DOUBLE_CPP]


@pytest.mark.parametrize(("missing", "again"), [("", False), ("others use this device", True)])
def test_the_winner_of_a_duel_is_attested_once_unless_something_could_not_be_seen(
    double_judge, monkeypatch, seen, missing, again
):
    monkeypatch.setattr(double_judge, "_attested", set())
    monkeypatch.setattr(kernel, "run_duel", won)
    seen.missing.append(missing)
    for _ in range(2):
        assert double_judge.duel((DOUBLE_CPP, "cpp"), (DOUBLE_CPP, "cpp")).outcome is DuelOutcome.CHALLENGER
    assert seen == [DOUBLE_CPP] * (1 + again)
    assert seen.fought == [{"w"}] * (1 + again)


def won(bench, arena, calibrations, start, trail, times, *, won):
    times["w"] = PairedTimes()
    with start() as (challenger, _):
        won(challenger)
    return Duel(outcome=DuelOutcome.CHALLENGER, ratio=Interval(low=1.1, estimate=1.2, high=1.3, level=0.95), rounds=5)


def test_a_profile_is_made_in_the_rounds_that_suit_the_programs_pace(double_judge, monkeypatch):
    used = []
    profile = Profile(tool="rounds", device_class="d", workload="large")
    monkeypatch.setattr(kernel, "paced_alone", lambda bench, arena, calibration, case: "brief")
    monkeypatch.setattr(kernel, "profile_case", lambda b, a, c, calibration, d, samples: used.append(calibration))
    observe = lambda self, found, bench, arena, case, calibration: used.append(calibration) or profile  # noqa: E731
    monkeypatch.setattr(CpuPlatform, "observe", observe)
    double_judge.profile(DOUBLE_CPP, "cpp")
    assert used == ["brief", "brief"]


class Inspected(list):
    """What was done to an inspection."""

    def memory(self):
        self.append("memory")

    def races(self, case):
        self.append("races")

    def close(self):
        self.append("closed")


@pytest.mark.parametrize(
    ("source", "status", "done"),
    [
        (DOUBLE_CPP, Status.PASSED, ["memory", "races", "closed"]),
        (DOUBLE_CPP.replace("2", "3"), Status.WRONG_VALUES, ["closed"]),
    ],
)
def test_tools_that_are_on_their_way_are_ended_however_a_confirmation_ends(
    double_judge, monkeypatch, seen, source, status, done
):
    inspected = Inspected()
    monkeypatch.setattr(CpuPlatform, "inspect", lambda self, bench, program: inspected)
    assert double_judge.confirm(source, "cpp").status is status
    assert inspected == done
