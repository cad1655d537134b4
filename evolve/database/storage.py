"""The storage contract. One class of tests (``tests/evolve/test_storage.py``) holds every backend to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from evaluators.evaluation import Evaluation
from evaluators.profile import Profile
from evaluators.task import Language
from evolve.database.mail import Answer, Lease, MailCount
from evolve.database.model_records import Dialogue, Ending, ModelCall, ModelReply, ModelRequest, ModelSpending
from evolve.database.records import (
    CellRecord,
    DuelRecord,
    Event,
    Finish,
    IslandRecord,
    LedgerEntry,
    Migrations,
    Reset,
    RunRecord,
    Totals,
)
from evolve.database.steering import Steering
from evolve.database.steps import Step
from evolve.types import Program, ProgramState, RunStatus


class Storage(Protocol):
    """One run in a database. No policy: it stores what it is told and refuses what the contract forbids.

    * Every method that writes is one transaction: after it returns everything is stored, after it raises nothing is.
    * A program's state only moves forward: ``queued`` → ``judged`` → ``finished``. A duplicate has no evaluation of
      its own and goes from ``queued`` to ``finished`` with its original, or is stored ``finished`` at once. A write
      that does not fit the stored state raises :class:`~evolve.errors.StorageError`, so a finished program never
      changes, and an evaluation is never stored twice.
    * The bookings handed over with a result are stored in the result's transaction: no cost without its cause.
    * ``order`` numbers finished programs 1, 2, 3, … without gaps; ``number`` may have gaps.
    * Reading returns equal values for what was stored, every field, in any process.
    * A text (source, artifact, environment) is stored once per run, however often it occurs.
    """

    def run(self) -> RunRecord:
        """The run as stored now."""
        ...

    def set_status(self, status: RunStatus, reason: str, active_s: float) -> None:
        """Record a change of status, with an event, and beat the heart."""
        ...

    def set_settings(self, settings: str, config: str) -> None:
        """Replace the stored settings (JSON) and configuration (TOML): a run resumed with other caps."""
        ...

    def heartbeat(self, active_s: float, promised: int = 0) -> None:
        """Say that the writing process lives, how long the run was active, and how many programs are on their way."""
        ...

    def promise(self, candidates: int, fits: Callable[[int], bool] = lambda places: True) -> None:
        """Say how many programs are on their way, where ``fits`` says so of the number of :meth:`places` agents hold.

        One transaction, as giving out a lease is; so of two who want the last place under a cap one sees the other.
        """
        ...

    def add_program(
        self, program: Program, order: int | None = None, answer: int | None = None, promised: int | None = None
    ) -> None:
        """Store a ``queued`` program, or with ``order`` a duplicate that is ``finished`` because its original is.

        ``answer`` is the answer of an agent that becomes this program; ``promised`` how many are on their way still.

        Raises:
            StorageError: the number is taken; the same source and language is stored already and ``duplicate_of`` is
                ``None``; the state is another; or the answer became a program before.
        """
        ...

    def add_evaluation(
        self, number: int, evaluation: Evaluation, ledger: LedgerEntry, *, judge_failed: bool = False
    ) -> None:
        """``queued`` → ``judged``."""
        ...

    def add_confirmation(
        self, number: int, evaluation: Evaluation, ledger: LedgerEntry, *, judge_failed: bool = False
    ) -> None:
        """Store the second verdict of a ``judged`` program; at most one."""
        ...

    def add_profile(self, number: int, profile: Profile, ledger: LedgerEntry) -> None:
        """Store the profile of a ``judged`` program; at most one."""
        ...

    def add_duel(self, duel: DuelRecord, ledger: LedgerEntry) -> None:
        """Store a duel whose challenger is not finished, or is an elite on the move."""
        ...

    def add_attempt(self, number: int, ledger: LedgerEntry, text: str) -> None:
        """The judge failed on an unfinished program: count the attempt, with an event."""
        ...

    def finish(self, finish: Finish) -> None:
        """``judged`` → ``finished``, with everything its placement changes."""
        ...

    def migrate(self, migrations: Migrations) -> None:
        """Store one round of migration; rounds are numbered 1, 2, 3 and so on."""
        ...

    def reset(self, reset: Reset) -> None:
        """Empty an island's archive and put one elite in it."""
        ...

    def begin_model_call(self, request: ModelRequest) -> int:
        """Store a request that is about to leave; returns its call's id. Attempts at one question are numbered."""
        ...

    def finish_model_call(self, call: int, reply: ModelReply, ledger: LedgerEntry) -> None:
        """Store how an open call ended, with its booking.

        Raises:
            StorageError: it is not open, or the same question (program and step) was answered before.
        """
        ...

    def settle_lost_calls(self) -> int:
        """Calls that a crash left open become ``lost`` and are booked with their worst case; returns how many."""
        ...

    def open_dialogue(self, dialogue: Dialogue) -> None:
        """Store what a proposal in talk with a model starts from. Storing its program ends it."""
        ...

    def redirect_dialogue(self, number: int, model: str) -> None:
        """An open dialogue goes on with another model.

        Raises:
            StorageError: it is not open.
        """
        ...

    def end_dialogue(self, ending: Ending) -> None:
        """End an open dialogue that becomes no program."""
        ...

    def add_ledger(self, entry: LedgerEntry) -> None:
        """Book a cost that has no result, for instance of an abandoned evaluation."""
        ...

    def note(self, step: Step) -> None:
        """Put down what happens, in the order in which it does: stored in the transaction of the next write.

        So what a crash takes with it has left no trace elsewhere.
        """
        ...

    def add_event(self, event: Event) -> None:
        """Append to the run's history."""
        ...

    def program(self, number: int) -> Program:
        """One program with everything known of it.

        Raises:
            KeyError: there is none of that number.
        """
        ...

    def programs(self, *, state: ProgramState | None = None, proposer: str | None = None) -> Iterator[Program]:
        """Programs by number, or where ``state`` is ``finished`` in the order in which they finished. Streams."""
        ...

    def sources(self) -> Iterator[tuple[int, str, Language]]:
        """Number, source and language of every program that is no duplicate, by number. Streams."""
        ...

    def unfinished(self) -> list[Program]:
        """What a crash left: first what is ``judged``, in that order, then what is ``queued``, by number."""
        ...

    def variants(self, number: int) -> list[Program]:
        """The variants of a structure that were stored, by number."""
        ...

    def find(self, source_hash: str, language: Language) -> tuple[int, ProgramState] | None:
        """The program that was (or is to be) judged with this source, and its state."""
        ...

    def attempts(self, number: int) -> int:
        """How many times the judge failed on this program."""
        ...

    def duels(self, challenger: int) -> list[DuelRecord]:
        """The stored duels of one challenger, oldest first."""
        ...

    def margins(self) -> Mapping[int, Mapping[int, float]]:
        """Duels that were decided: by challenger and occupant, how many times as fast the challenger was."""
        ...

    def family_margins(self, number: int) -> Mapping[int, float]:
        """The same of a program and its variants, by occupant; of several the largest."""
        ...

    def islands(self) -> list[IslandRecord]:
        """Every island's counters, by number."""
        ...

    def cells(self) -> list[CellRecord]:
        """Every elite of every island and of the archive over all islands."""
        ...

    def totals(self) -> Totals:
        """Sums over the run. Costs a pass over the ledger: for opening, not for the loop."""
        ...

    def sandboxes(self) -> dict[str, int]:
        """By level of the sandbox, how many programs were judged at it at least once."""
        ...

    def outcomes(self) -> list[Mapping[str, Any]]:
        """What came of every finished program, in that order: duplicates and what the judge failed on left out."""
        ...

    def dialogue_dollars(self, number: int | None = None) -> dict[int, float]:
        """What models cost, by the number of the program; of one number, or of all that cost anything."""
        ...

    def ledger(self) -> Sequence[LedgerEntry]:
        """Every booking, oldest first."""
        ...

    def events(self) -> Sequence[Event]:
        """The run's history, oldest first."""
        ...

    def steps(self) -> Sequence[Step]:
        """Everything that was noted, in order."""
        ...

    def model_calls(self) -> Iterator[ModelCall]:
        """Every model call, oldest first. Streams."""
        ...

    def dialogue_calls(self, number: int) -> Sequence[ModelCall]:
        """Every model call of one dialogue, oldest first."""
        ...

    def model_answer(self, program: int, step: str) -> ModelCall | None:
        """The answered call to one question."""
        ...

    def model_spending(self) -> Sequence[ModelSpending]:
        """What models cost, by model and operator."""
        ...

    def dialogues(self) -> Sequence[Dialogue]:
        """Every dialogue, by number."""
        ...

    def open_dialogues(self) -> Sequence[Dialogue]:
        """Dialogues that a crash or a stop broke off, by number."""
        ...

    def endings(self) -> Sequence[tuple[Dialogue, Ending]]:
        """Dialogues that became no program, in the order in which they ended, and why."""
        ...

    def migrations(self) -> Sequence[Migrations]:
        """Every round of migration."""
        ...

    def steering(self) -> Steering:
        """What people told the run while it went on, all orders added up: hints, bans, paused islands."""
        ...

    def mail_count(self) -> MailCount:
        """How many answers and orders were ever sent; cheap, to be asked often."""
        ...

    def waiting_answers(self) -> list[Answer]:
        """Answers that are no program yet, oldest first."""
        ...

    def open_leases(self, now: float) -> list[Lease]:
        """Leases that have neither been answered nor expired at ``now``, oldest first."""
        ...

    def places(self, now: float) -> int:
        """How many places agents hold at ``now``: leases that are open, or were when they were answered."""
        ...

    def close(self) -> None:
        """Give connections back. Further calls are undefined."""
        ...
