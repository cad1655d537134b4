"""The writing side of talk with language models: requests before they leave, replies with their bookings, dialogues."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from evolve.budget import Charge
from evolve.database.codec import storable
from evolve.database.model_codec import dialogue_row, reply_row, request_row
from evolve.database.model_records import CallStatus, Dialogue, Ending, ModelReply, ModelRequest
from evolve.database.model_statements import ADD_DIALOGUE, ADD_MODEL_CALL, END_MODEL_CALL, LAST_ATTEMPT
from evolve.database.records import Event, LedgerEntry
from evolve.database.schema import dialogues, model_calls
from evolve.database.writing import SqlWriter
from evolve.errors import StorageError

MODEL = "model"
"""The kind of a model call's booking in the ledger."""


class ModelWriter(SqlWriter):
    """See :class:`~evolve.database.storage.Storage` for what every method promises."""

    def begin_model_call(self, request: ModelRequest) -> int:
        """See :class:`~evolve.database.storage.Storage`."""
        question = {"run": self._run_id, "program": request.program, "step": request.step}
        with self._write() as connection:
            before = self._prepared.execute(connection, LAST_ATTEMPT, question).scalar_one()
            row = {
                **request_row(request),
                "run_id": self._run_id,
                "attempt": 1 + (before or 0),
                "system_hash": self._add_text(connection, request.system),
                "messages_hash": self._add_text(connection, request.messages),
                "created_at": self._clock(),
            }
            return int(self._prepared.execute(connection, ADD_MODEL_CALL, row).scalar_one())

    def finish_model_call(self, call: int, reply: ModelReply, ledger: LedgerEntry) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            row = {
                **reply_row(reply),
                "completion_hash": None if reply.completion is None else self._add_text(connection, reply.completion),
                "reasoning_hash": self._add_text(connection, reply.reasoning) if reply.reasoning else None,
                "ended_at": self._clock(),
            }
            values = {"run": self._run_id, "this": call, **{f"new_{name}": value for name, value in row.items()}}
            if self._prepared.execute(connection, END_MODEL_CALL, values).rowcount != 1:
                raise StorageError(f"model call {call}: is not open, so it cannot end")
            self._add_ledger(connection, ledger)

    def settle_lost_calls(self) -> int:
        """See :class:`~evolve.database.storage.Storage`."""
        here = (model_calls.c.run_id == self._run_id, model_calls.c.status == CallStatus.OPEN.value)
        with self._write() as connection:
            lost = connection.execute(
                select(*model_calls.c["id", "program", "worst_dollars", "worst_tokens"]).where(*here)
            ).all()
            for call in lost:
                # Nobody knows how its tokens divide, so that all count as going in.
                ended = {
                    "status": CallStatus.LOST.value,
                    "dollars": call.worst_dollars,
                    "tokens_in": call.worst_tokens,
                    "estimated": True,
                    "ended_at": self._clock(),
                }
                connection.execute(update(model_calls).where(model_calls.c.id == call.id).values(ended))
                charge = Charge(dollars=call.worst_dollars or 0.0, tokens=call.worst_tokens)
                self._add_ledger(connection, LedgerEntry(MODEL, charge, call.program))
            if lost:
                text = f"{len(lost)} requests to models were cut off; they count with their worst case"
                self._add_events(connection, [Event(MODEL, text)])
        return len(lost)

    def open_dialogue(self, dialogue: Dialogue) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        row = {**dialogue_row(dialogue), "run_id": self._run_id, "created_at": self._clock()}
        with self._write() as connection:
            self._prepared.execute(connection, ADD_DIALOGUE, row)

    def redirect_dialogue(self, number: int, model: str) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        with self._write() as connection:
            self._change_open(connection, number, "go on with another model", model=model)

    def end_dialogue(self, ending: Ending) -> None:
        """See :class:`~evolve.database.storage.Storage`."""
        row = {
            "outcome": ending.outcome,
            "message": storable(ending.message),
            "learnt": ending.learnt,
            "ended_at": self._clock(),
        }
        with self._write() as connection:
            self._change_open(connection, ending.number, "end", **row)

    def _change_open(self, connection: Connection, number: int, what: str, **values: object) -> None:
        here = (dialogues.c.run_id == self._run_id, dialogues.c.number == number, dialogues.c.outcome.is_(None))
        if connection.execute(update(dialogues).where(*here).values(values)).rowcount != 1:
            raise StorageError(f"dialogue {number}: is not open, so it cannot {what}")
