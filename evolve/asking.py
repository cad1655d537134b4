"""A run as its database has it, and the questions that its proposers get: the ``ask`` half of the search's core."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from functools import partial

from evaluators.source import source_hash
from evaluators.task import Task
from evolve.bans import Bans
from evolve.booking import Booking
from evolve.broken_off import BrokenOff
from evolve.budget import NOTHING, Budget, Charge, Clock, Reservation, Spent
from evolve.database.codec import storable
from evolve.database.steps import Opening, Shown, Step, StepKind
from evolve.database.storage import Storage
from evolve.equivalents import Equivalents
from evolve.errors import BudgetRefusedError, EvolveError
from evolve.experience import Experience
from evolve.population import Population
from evolve.program_cache import ProgramCache
from evolve.run_directory import RunDirectory
from evolve.settings import RunSettings
from evolve.streams import Stream, stream
from evolve.tally import Tally
from evolve.types import Program, ProposeContext, RunStatus, StopReason


class Asking:
    """What is in memory of a run, all of it rebuilt from its database; and what is asked for and not told yet."""

    def __init__(
        self,
        directory: RunDirectory,
        storage: Storage,
        task: Task,
        settings: RunSettings,
        clock: Clock = time.monotonic,
    ) -> None:
        """Rebuild a run from its storage. :meth:`evolve.run.Run.create` and ``open`` are the usual ways in."""
        self.directory = directory
        self.storage = storage
        self.task = task
        self.settings = settings
        self.contender: Program | None = None
        """The program under confirmation as the new best."""
        self.bans = Bans()
        self.status = RunStatus.INTERRUPTED
        self.orders = storage.mail_count().orders
        """How many orders were given before: the settings and configuration it was opened with hold them."""
        record = storage.run()
        storage.settle_lost_calls()
        totals = storage.totals()
        self.next_number = totals.next_number
        self.variants = totals.variants
        """How many variants tuned inside are stored."""
        self.migration_round = record.migration_round
        self.tally = Tally(totals)
        self._asked: dict[int, Reservation] = {}
        self._twins: defaultdict[int, list[Program]] = defaultdict(list)
        self._programs = ProgramCache(storage)
        self._equivalents = Equivalents(storage)
        self._experience: Experience | None = None
        self.broken_off = BrokenOff(storage)
        self.population = Population.stored(task, storage, self._programs.get)
        best = self.best()
        spent = Spent(totals.charge, record.active_s, totals.since_best, best.score if best else None)
        self.budget = Budget(settings.caps, spent, clock)
        self.booking = Booking(storage, self.budget, totals.largest_device_s)
        if best is not None:
            self.directory.write_best(best.source, best.language)

    def note_opening(self, proposers: Mapping[str, float]) -> None:
        """Put down that this process takes the run up, with these proposers' weights."""
        config = self.storage.run().config
        opening = Opening(settings=self.settings, proposers=dict(proposers), orders=self.orders, config=config)
        self.storage.note(Step(StepKind.OPEN, text=opening.model_dump_json()))
        self.storage.promise(0)  # What a process that died had on its way is not on its way any more.

    def ask(self, extra: Charge = NOTHING) -> ProposeContext:
        """Choose island, parent and inspirations for the next program.

        Counts against the cap on candidates until :meth:`tell`, and so does ``extra``, the worst case of what the
        proposer itself may spend.

        Raises:
            EvolveError: the seed program has not been placed yet; see :meth:`may_ask`.
            BudgetRefusedError: a cap is met, or the last place was given to an agent this instant.
        """
        if self.population.best is None:
            raise EvolveError("the seed program has to be judged and placed before anything is asked")
        begun = self.broken_off.first
        number = self._reserve_number(Charge(candidates=1) + extra, begun.number if begun else None)
        if isinstance(number, StopReason):
            raise BudgetRefusedError(number)
        if begun is not None:
            self.broken_off.take()
            return self._context(number, begun.island, begun.parent, begun.inspirations, resumes=begun.proposer)
        choice = self.population.choose(number, self.settings.search, turn=self._turn(number))
        others = tuple(elite.number for elite in choice.inspirations)
        return self._context(number, choice.island, choice.parent.number, others)

    def ask_variant(self, structure: Program, variants: tuple[int, ...]) -> ProposeContext | StopReason:
        """Ask for the next variant of a judged structure, of which these are judged already, or say what forbids it."""
        number = self.stop_reason() or self._reserve_number(Charge(candidates=1))
        if isinstance(number, StopReason):
            return number
        return self._context(number, structure.island, structure.number, variants, variant_of=structure.number)

    def may_ask(self, extra: Charge = NOTHING) -> bool:
        """Whether :meth:`ask` would go through now, as far as is known."""
        return self.population.best is not None and self.stop_reason(extra) is None

    def stop_reason(self, extra: Charge = NOTHING) -> StopReason | None:
        """The cap that forbids another proposal while nothing is in flight; ``None`` while the search may go on."""
        return self.budget.reached() or self.budget.refusal(Charge(candidates=1) + extra)

    def count_places(self) -> int:
        """How many places under the cap on candidates agents hold; nobody else is given them from here on."""
        if self.budget.caps.candidates is not None:
            self.budget.aside = self.storage.places(time.time())
        return self.budget.aside

    def spent_cap(self, extra: Charge = NOTHING) -> StopReason | None:
        """The cap that leaves no room for another proposal, whatever becomes of what is in flight or with agents."""
        return self.budget.reached() or self.budget.hopeless(Charge(candidates=1) + extra)

    def withdraw(self, context: ProposeContext) -> None:
        """Nobody could be asked: give the reservation back, and go on with what was broken off another time."""
        self.storage.note(Step(StepKind.WITHDRAW, context.number))
        self.budget.settle(self._asked.pop(context.number))
        self.broken_off.put_back(context.number)

    def program(self, number: int) -> Program:
        """One program with everything known of it.

        Raises:
            KeyError: there is none of that number.
        """
        return self._programs.get(number)

    def best(self) -> Program | None:
        """The best confirmed program."""
        elite = self.population.best
        return self.program(elite.number) if elite else None

    def _turn(self, number: int) -> int:
        """Whose turn it is under a number: variants tuned inside stay on their island and take nobody's."""
        return number - self.variants

    def _refusal(self, charge: Charge, *, placed: bool = False) -> StopReason | None:
        """The cap that forbids one more program, or say that it is on its way: agents see the one or the other."""
        refusal = self.budget.refusal(charge, placed=placed)
        if refusal is not None or self.budget.caps.candidates is None:
            return refusal

        def fits(places: int) -> bool:
            nonlocal refusal
            self.budget.aside = places
            refusal = self.budget.refusal(charge, placed=placed)
            return refusal is None

        self.storage.promise(self.budget.promised.candidates + 1, fits)
        return refusal

    def _reserve_number(self, charge: Charge, number: int | None = None) -> int | StopReason:
        """Reserve for a proposal under this number, or the next one."""
        reservation = self._refusal(charge) or self.budget.reserve(charge)
        if isinstance(reservation, StopReason):
            return reservation
        number = number or self.next_number
        self.next_number = max(self.next_number, number + 1)
        self._asked[number] = reservation
        return number

    def _context(
        self,
        number: int,
        island: int,
        parent: int,
        inspirations: tuple[int, ...],
        *,
        variant_of: int | None = None,
        resumes: str = "",
    ) -> ProposeContext:
        self.storage.note(Step(StepKind.ASK, number, variant_of, str(Shown(island, parent, inspirations))))
        shown = self.program(parent)
        return ProposeContext(
            task=self.task,
            number=number,
            island=island,
            parent=shown,
            inspirations=tuple(self.program(other) for other in inspirations),
            rng=stream(self.settings.search.seed, Stream.PROPOSE, number),
            known=lambda source: self.storage.find(source_hash(storable(source)), shown.language) is not None,
            claim=partial(self._equivalents.claim, number),
            resumes=resumes,
            variant_of=variant_of,
        )
