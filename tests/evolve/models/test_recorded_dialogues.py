"""A recorded run with language models is a fixture: its answers are read again, to the same lineage.

See ``record_dialogues.py`` for how it was recorded: by a scripted server, no language model was asked.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evolve.database.dump import load_dump
from evolve.edits.outcome import Reason, Tolerance
from tests.evolve.models.record_dialogues import FILE, MODEL, record

NOT_SHOWN = {Reason.TOO_LARGE}
"""Its answer would be larger than everything else."""


def test_it_is_replayed_to_the_same_lineage(evolve):
    result = evolve("replay", FILE)
    assert result.exit_code == 0, result.output
    assert "the same lineage: 28 programs" in result.output


def test_it_holds_every_way_to_read_an_answer_and_says_where_it_is_from():
    storage = load_dump(FILE)
    programs = list(storage.programs())
    tolerated = {how for program in programs for how in program.details.get("tolerated", ())}
    assert tolerated == set(Tolerance)
    endings = {ending.outcome for _, ending in storage.endings()}
    mended = {reason for program in programs for reason in program.details.get("reasons", ())}
    assert endings | mended >= set(Reason) - NOT_SHOWN
    assert {"known", "call_failed"} <= endings
    assert {call.request.model for call in storage.model_calls()} == {MODEL}
    assert storage.run().name == "scripted-answers"
    assert FILE.stat().st_size < 100_000
    storage.close()


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("evolve.edits.search_replace._without_blank_edges", lambda change: change),
        ("evolve.edits.search_replace.without_fences", lambda text: (text, False)),
        ("evolve.edits.whole.without_line_numbers", lambda text: (text, False)),
        ("evolve.edits.continuation._overlap", lambda head, tail: 0),
        ("evolve.edits.whole.left_out_line", lambda code, parent: None),
        ("evolve.edits.reading.check_blocks", lambda seed, source: None),
    ],
)
def test_a_reader_that_reads_an_old_answer_differently_is_noticed(evolve, monkeypatch, part, other):
    monkeypatch.setattr(part, other)
    result = evolve("replay", FILE, "--json")
    assert result.exit_code == 3, result.output
    assert json.loads(result.stdout)["difference"].startswith("program ")


def test_it_can_be_recorded_again(evolve, tmp_path: Path):
    record(tmp_path / "again.jsonl.gz")
    assert evolve("replay", tmp_path / "again.jsonl.gz").exit_code == 0
