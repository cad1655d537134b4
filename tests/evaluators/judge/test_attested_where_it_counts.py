"""Attestation costs seconds of a device: it is for programs whose times somebody would believe."""

import pytest

from evaluators.evaluation import Attestation, Status
from evaluators.platform import CpuPlatform
from tests.evaluators.judge.conftest import DOUBLE_CPP

UNREACHED = 1e9


@pytest.fixture
def seen(monkeypatch):
    sources = []

    def attest(self, bench, arena, case, calibrations):
        sources.append(case.program.source)
        return Attestation()

    monkeypatch.setattr(CpuPlatform, "attest", attest)
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
