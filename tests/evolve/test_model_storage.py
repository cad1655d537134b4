"""The storage contract of talk with language models, on every backend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.budget import Charge
from evolve.database.model_records import CallStatus, Dialogue, Ending, ModelReply
from evolve.database.records import LedgerEntry
from evolve.database.sql_storage import SqlStorage
from evolve.errors import StorageError
from tests.evolve.searching import model_request
from tests.evolve.test_storage import make, program, storage  # noqa: F401  (fixtures)

REPLY = ModelReply(
    CallStatus.ANSWERED,
    "faster code",
    reasoning="hm",
    finish="stop",
    reported_model="m-2026",
    request_id="req_1",
    quirks=("no temperature",),
    tokens_in=10,
    tokens_cached=4,
    tokens_cache_write=2,
    tokens_out=5,
    tokens_reasoning=3,
    dollars=0.25,
    wall_s=2.0,
)
FAILED = ModelReply(
    CallStatus.FAILED, failure="overloaded", scope="retry", message="Overloaded", http_status=529, dollars=0.0
)
COST = LedgerEntry("model", Charge(dollars=0.25, tokens=21), 4, wall_s=2.0)
DIALOGUE = Dialogue(4, "llm", 1, 1, (2, 3), "cpp", "diff", "p/m")


def test_a_call_reads_back_field_by_field(storage: SqlStorage) -> None:  # noqa: F811
    first = storage.begin_model_call(model_request(4))
    storage.finish_model_call(first, FAILED, LedgerEntry("model", Charge(), 4))
    second = storage.begin_model_call(model_request(4))
    storage.finish_model_call(second, REPLY, COST)
    calls = list(storage.model_calls())
    assert [(c.id, c.attempt, c.request, c.reply) for c in calls] == [
        (first, 1, model_request(4), FAILED),
        (second, 2, model_request(4), REPLY),
    ]
    assert storage.model_answer(4, "propose") == calls[1]
    assert storage.model_answer(4, "mend") is None
    assert storage.ledger()[1] == COST
    assert storage.totals().charge == Charge(dollars=0.25, tokens=21)


def test_a_call_ends_once(storage: SqlStorage) -> None:  # noqa: F811
    call = storage.begin_model_call(model_request(4))
    storage.finish_model_call(call, REPLY, COST)
    with pytest.raises(StorageError, match="not open"):
        storage.finish_model_call(call, REPLY, COST)
    assert len(storage.ledger()) == 1


def test_a_question_is_answered_once(storage: SqlStorage) -> None:  # noqa: F811
    calls = [storage.begin_model_call(model_request(4)) for _ in range(2)]
    storage.finish_model_call(calls[0], REPLY, COST)
    with pytest.raises(StorageError, match="refuses"):
        storage.finish_model_call(calls[1], REPLY, COST)
    assert len(storage.ledger()) == 1


def test_what_a_crash_cut_off_is_booked_with_its_worst_case_once(storage: SqlStorage) -> None:  # noqa: F811
    storage.begin_model_call(model_request(4, worst_dollars=0.5, worst_tokens=700))
    storage.begin_model_call(model_request(5, worst_dollars=None, worst_tokens=300))
    assert storage.totals().charge == Charge()
    assert storage.settle_lost_calls() == 2
    assert storage.settle_lost_calls() == 0
    assert storage.totals().charge == Charge(dollars=0.5, tokens=1000)
    replies = [call.reply for call in storage.model_calls()]
    assert [(r.status, r.dollars, r.tokens) for r in replies if r] == [("lost", 0.5, 700), ("lost", None, 300)]


def test_spending_by_model_and_operator(storage: SqlStorage) -> None:  # noqa: F811
    for number, (model, operator, reply) in enumerate(
        [
            ("p/a", "diff", REPLY),
            ("p/a", "diff", FAILED),
            ("p/a", "rewrite", replace(REPLY, estimated=True)),
            ("p/b", "diff", replace(REPLY, dollars=None)),
        ]
    ):
        call = storage.begin_model_call(model_request(number, model=model, operator=operator))
        storage.finish_model_call(call, reply, COST)
    storage.begin_model_call(model_request(9, model="p/b"))
    rows = {(s.model, s.operator): s for s in storage.model_spending()}
    assert list(rows) == [("p/a", "diff"), ("p/a", "rewrite"), ("p/b", "diff")]
    first = rows["p/a", "diff"]
    assert (first.requests, first.answers, first.failures, first.open) == (2, 1, 1, 0)
    assert (first.tokens_in, first.tokens_out, first.dollars, first.unpriced) == (16, 5, 0.25, 0)
    assert rows["p/a", "rewrite"].estimated == 1
    assert (rows["p/b", "diff"].unpriced, rows["p/b", "diff"].open) == (1, 1)


class TestDialogues:
    def test_an_open_dialogue_is_found_again_and_its_number_stays_taken(self, storage: SqlStorage) -> None:  # noqa: F811
        storage.add_program(program(1))
        storage.open_dialogue(DIALOGUE)
        assert storage.open_dialogues() == [DIALOGUE]
        assert storage.totals().next_number == 5

    def test_its_program_ends_it(self, storage: SqlStorage) -> None:  # noqa: F811
        storage.add_program(program(1))
        storage.open_dialogue(DIALOGUE)
        storage.add_program(program(4, model="p/m"))
        assert storage.open_dialogues() == []
        assert storage.endings() == []
        assert storage.dialogues() == [DIALOGUE]

    def test_it_ends_without_a_program_once_and_with_a_reason(self, storage: SqlStorage) -> None:  # noqa: F811
        storage.add_program(program(1))
        storage.open_dialogue(DIALOGUE)
        ending = Ending(4, "refusal", "the model declined", 7)
        storage.end_dialogue(ending)
        assert storage.open_dialogues() == []
        assert storage.endings() == [(DIALOGUE, ending)]
        with pytest.raises(StorageError, match="not open"):
            storage.end_dialogue(ending)

    def test_an_open_one_goes_on_with_another_model_and_no_other_does(self, storage: SqlStorage) -> None:  # noqa: F811
        storage.add_program(program(1))
        storage.open_dialogue(DIALOGUE)
        storage.redirect_dialogue(DIALOGUE.number, "p/other")
        assert storage.open_dialogues() == [replace(DIALOGUE, model="p/other")]
        storage.end_dialogue(Ending(DIALOGUE.number, "refusal"))
        with pytest.raises(StorageError, match="not open"):
            storage.redirect_dialogue(DIALOGUE.number, "p/m")
