"""The reading side of talk with language models: calls, dialogues, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import bindparam

from evolve.database.model_codec import dialogue_of, ending_of, model_call_of
from evolve.database.model_queries import (
    DIALOGUE_CALLS,
    DIALOGUE_DOLLARS,
    DIALOGUES,
    DOLLARS_OF_ONE,
    MODEL_ANSWER,
    MODEL_CALLS,
    MODEL_SPENDING,
    OPEN_DIALOGUES,
)
from evolve.database.model_records import PROGRAM, Dialogue, Ending, ModelCall, ModelSpending
from evolve.database.reading import BATCH, SqlReader
from evolve.database.schema import model_calls


class ModelReader(SqlReader):
    """See :class:`~evolve.database.storage.Storage` for what every method promises."""

    def model_calls(self) -> Iterator[ModelCall]:
        """See :class:`~evolve.database.storage.Storage`."""
        after = 0
        while rows := self._rows(MODEL_CALLS.where(model_calls.c.id > bindparam("after")).limit(BATCH), after=after):
            yield from map(model_call_of, rows)
            after = rows[-1]["id"]

    def dialogue_calls(self, number: int) -> Sequence[ModelCall]:
        """See :class:`~evolve.database.storage.Storage`."""
        return [model_call_of(row) for row in self._rows(DIALOGUE_CALLS, program=number)]

    def model_answer(self, program: int, step: str) -> ModelCall | None:
        """See :class:`~evolve.database.storage.Storage`."""
        rows = self._rows(MODEL_ANSWER, program=program, step=step)
        return model_call_of(rows[0]) if rows else None

    def model_spending(self) -> Sequence[ModelSpending]:
        """See :class:`~evolve.database.storage.Storage`."""
        return [ModelSpending(**row) for row in self._rows(MODEL_SPENDING)]

    def dialogues(self) -> Sequence[Dialogue]:
        """See :class:`~evolve.database.storage.Storage`."""
        return [dialogue_of(row) for row in self._rows(DIALOGUES)]

    def open_dialogues(self) -> Sequence[Dialogue]:
        """See :class:`~evolve.database.storage.Storage`."""
        return [dialogue_of(row) for row in self._rows(OPEN_DIALOGUES)]

    def endings(self) -> Sequence[tuple[Dialogue, Ending]]:
        """See :class:`~evolve.database.storage.Storage`."""
        rows = [row for row in self._rows(DIALOGUES) if row["outcome"] not in {None, PROGRAM}]
        rows.sort(key=lambda row: (row["ended_at"], row["number"]))
        return [(dialogue_of(row), ending_of(row)) for row in rows]

    def dialogue_dollars(self, number: int | None = None) -> dict[int, float]:
        """See :class:`~evolve.database.storage.Storage`."""
        if number is None:
            return {row["program"]: float(row["dollars"]) for row in self._rows(DIALOGUE_DOLLARS)}
        this = {"run": self._run_id, "this": number}
        found = self._read(lambda: self._prepared.execute(self._reading, DOLLARS_OF_ONE, this).all())
        return {program: float(dollars) for program, dollars in found}
