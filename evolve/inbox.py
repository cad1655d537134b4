"""What agents and people outside send to a search while it runs: looked for several times a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from evolve.database.mail import Answer, MailCount
from evolve.database.steering import Steer, SteerRecord
from evolve.database.steps import Step, StepKind
from evolve.intake import AGENT
from evolve.observer import Observer
from evolve.proposing import Proposers
from evolve.run import Run
from evolve.types import Program, StopReason

LOOK_S = 0.25
"""How often the database is asked for news."""


@dataclass(frozen=True)
class Idle:
    """When a search ends that has nothing left to do but to wait for agents. A cap that is met ends it all the same."""

    wait: bool = False
    """Not before it is stopped."""
    leases: bool = True
    """Not while an agent works on a lease."""
    linger_s: float = 0.0
    """Not before it has been idle for so long."""


class Inbox:
    """The mail of one search. Nothing of it is lost with the process: an answer stays until it is a program."""

    def __init__(
        self,
        run: Run,
        proposers: Proposers,
        observer: Observer,
        idle: Idle,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is read yet; ``clock`` gives monotonic seconds."""
        self._run = run
        self._proposers = proposers
        self._observer = observer
        self._idle = idle
        self._clock = clock
        self._count = self._seen = MailCount()
        self._obeyed = run.orders
        self._answers: list[Answer] = []
        self._places = self._places_seen = 0
        self._look_at = clock()
        self.leases = 0
        """How many agents were given work and have not answered."""
        self._idle_since: float | None = None

    @property
    def waits(self) -> bool:
        """Whether the search waits for agents until it is stopped."""
        return self._idle.wait

    def until_look_s(self) -> float:
        """Seconds until news are looked for again."""
        return max(0.0, self._look_at - self._clock())

    def news(self) -> bool:
        """Whether something came that is not read yet, or a lease began or ended; looks only every :data:`LOOK_S`."""
        if self.until_look_s() == 0.0:
            self._look()
        return (self._count, self._places) != (self._seen, self._places_seen)

    def read(self) -> bool:
        """Read what came and obey what is ordered; whether there was an order."""
        if not self.news():
            return False
        before, self._seen, self._places_seen = self._seen, self._count, self._places
        if self._seen.answers != before.answers:
            known = {answer.id for answer in self._answers}
            self._answers.extend(a for a in self._run.storage.waiting_answers() if a.id not in known)
        if self._seen.orders == before.orders:
            return False
        self._obey()
        return True

    def take(self) -> list[Program]:
        """Make programs of the answers, oldest first; those for which a cap leaves no room go on waiting."""
        if self._run.population.best is None:
            return []  # The seed comes first.
        results = [(answer, self._run.take(answer)) for answer in self._answers]
        self._answers = [answer for answer, became in results if isinstance(became, StopReason)]
        return [became for _, became in results if isinstance(became, Program)]

    def unread(self) -> bool:
        """Whether something came up to this instant: what came last must not be left lying."""
        self._look()
        return self.news()

    def busy(self) -> None:
        """There is something to do."""
        self._idle_since = None

    def worth_waiting(self) -> bool:
        """Whether a search with nothing to do should wait for agents."""
        now = self._clock()
        if self._idle_since is None:
            self._idle_since = now
        if self._run.budget.reached() is not None:
            return False
        if self._idle.leases and self._run.storage.open_leases(time.time()):
            return True
        if self._answers or self._run.stop_reason() is not None:
            return False
        return self._idle.wait or now - self._idle_since < self._idle.linger_s

    def _look(self) -> None:
        self._look_at = self._clock() + LOOK_S
        self._count = self._run.storage.mail_count()
        self._places = self._run.count_places()
        self.leases = len(self._run.storage.open_leases(time.time()))

    def _obey(self) -> None:
        steering = self._run.storage.steering()
        self._run.storage.note(Step(StepKind.OBEY, other=len(steering.records)))
        self._run.obey(steering)
        for record in steering.records[self._obeyed :]:
            if record.kind is Steer.WEIGHT:
                self._reweigh(record)
            self._observer.on_note("steer", f"{record.id}: {record.kind}: {record.text}")
        self._obeyed = len(steering.records)

    def _reweigh(self, record: SteerRecord) -> None:
        name, _, value = record.argument.partition("=")
        if name == AGENT:
            self._idle = replace(self._idle, wait=float(value) > 0)
        elif not self._proposers.set_weight(name, float(value)):
            self._observer.on_note("steer", f"{name} takes no part in this process; it does after evolve resume")
