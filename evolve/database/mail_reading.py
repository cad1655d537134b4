"""The reading side of mail: leases, answers and orders."""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, select

from evolve.database.columns import MOST
from evolve.database.mail import Answer, Lease, MailCount
from evolve.database.queries import ANSWERS, LEASES, MAIL_COUNT, STEERING
from evolve.database.reading import SqlReader
from evolve.database.schema import answers, leases
from evolve.database.steering import Steer, Steering, SteerRecord


class MailReader(SqlReader):
    """See :class:`~evolve.database.storage.Storage` for what every method promises."""

    def steering(self) -> Steering:
        """See :class:`~evolve.database.storage.Storage`."""
        return Steering.of(SteerRecord(**{**row, "kind": Steer(row["kind"])}) for row in self._rows(STEERING))

    def mail_count(self) -> MailCount:
        """See :class:`~evolve.database.storage.Storage`."""
        row = {"run": self._run_id}
        return MailCount(*self._read(lambda: self._prepared.execute(self._reading, MAIL_COUNT, row).one()))

    def waiting_answers(self) -> list[Answer]:
        """See :class:`~evolve.database.storage.Storage`."""
        return self._answers(answers.c.program.is_(None))

    def answer(self, number: int) -> Answer:
        """One answer.

        Raises:
            KeyError: there is none of that number.
        """
        found = self._answers(answers.c.id == number) if 0 < number <= MOST else ()
        if not found:
            raise KeyError(f"no answer {number} in this run")
        return found[0]

    def lease(self, number: int) -> Lease:
        """One lease.

        Raises:
            KeyError: there is none of that number.
        """
        found = self._rows(LEASES.where(leases.c.id == number)) if 0 < number <= MOST else ()
        if not found:
            raise KeyError(f"no lease {number} in this run")
        return Lease.of(found[0])

    def open_leases(self, now: float) -> list[Lease]:
        """See :class:`~evolve.database.storage.Storage`."""
        answered = select(answers.c.id).where(answers.c.lease == leases.c.id).exists()
        return [Lease.of(row) for row in self._rows(LEASES.where(leases.c.expires_at > now, ~answered))]

    def count_leases(self) -> int:
        """How many leases were ever given."""
        counted = select(func.count().label("number")).select_from(leases).where(leases.c.run_id == self._run_id)
        return int(self._rows(counted)[0]["number"])

    def _answers(self, condition: ColumnElement[bool]) -> list[Answer]:
        return [Answer.of(row) for row in self._rows(ANSWERS.where(condition))]
