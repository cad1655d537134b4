"""Tuning inside: a new structure's tunable values are searched a little before it is compared as a structure.

A model or agent names values by guess. Compared as it stands, a good structure with a poor block size would lose to a
worse one that was tuned for hours. So it is judged, a few variants of it are judged, and the best of that family enters
the contests; the others are finished without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from evolve.budget import Reservation
from evolve.database.steps import Step, StepKind
from evolve.judging import Judging
from evolve.observer import Observer
from evolve.policies.tuning import best_first, may_be_tuned
from evolve.proposers.tuner import Tuner, TunerSettings
from evolve.run import Run
from evolve.types import Program, ProgramState, Proposal, ProposeContext, StopReason


@dataclass
class Family:
    """A structure and its variants, or any other program, alone. Changes as the search gets on with it."""

    structure: Program
    variants: list[Program] = field(default_factory=list)
    closed: bool = False
    """No further variant is wanted."""

    @property
    def queued(self) -> Program | None:
        """The member that is still to be judged; there is never more than one."""
        return next((p for p in self._members if p.state is ProgramState.QUEUED), None)

    @property
    def left(self) -> list[Program]:
        """Members that are judged and not finished: the next to be placed first."""
        return best_first(p for p in self._members if p.state is ProgramState.JUDGED)

    @property
    def decided(self) -> bool:
        """A member was placed, and its verdict stands: nobody else of the family is compared with others."""
        return any(p.state is ProgramState.FINISHED and p.score is not None for p in self._members)

    @property
    def judged_variants(self) -> tuple[int, ...]:
        """What is known of other values."""
        return tuple(p.number for p in self.variants if p.state is ProgramState.JUDGED)

    def has(self, number: int | None) -> bool:
        """Whether a program is one of the family."""
        return any(p.number == number for p in self._members)

    def update(self, program: Program) -> None:
        """A member is new, or has got further."""
        if program.number == self.structure.number:
            self.structure = program
        else:
            self.variants = [p for p in self.variants if p.number != program.number] + [program]
            self.variants.sort(key=lambda p: p.number)
        self.closed = self.closed or any(p.state is ProgramState.FINISHED for p in self._members)

    @property
    def _members(self) -> tuple[Program, ...]:
        return (self.structure, *(p for p in self.variants if p.duplicate_of is None))


class Tuning:
    """Has families judged: the structure, then variants one after another, each chosen by what the others came to."""

    def __init__(self, run: Run, judging: Judging, observer: Observer) -> None:
        """``observer`` hears of every variant that is queued."""
        self._run = run
        self._judging = judging
        self._observer = observer
        # What it knows of a structure is in the context alone: a resumed run goes on as it would have.
        self._tuner = Tuner(run.task.flag_choices, TunerSettings(mutate=0.0, crossover=0.0))

    async def judge(self, family: Family, reservation: Reservation) -> None:
        """Have everything in a family judged; ``reservation`` is for the first question.

        Variants end with the number that the settings name, where there are no other values left, and where a cap
        allows no more.

        Raises:
            BudgetRefusedError: a cap broke an evaluation off; the family can be judged on from where it is.
            JudgeError: the judge cannot go on.
        """
        reserved: Reservation | StopReason = reservation
        while isinstance(reserved, Reservation):
            program = family.queued or await self._next_variant(family)
            if program is None:
                self._run.budget.settle(reserved)
                return
            family.update(await self._judging.evaluate(program, reserved))
            if not self.wants_variant(family):
                return
            reserved = self._judging.reserve()
        self._cut(family)

    def wants_variant(self, family: Family) -> bool:
        """Whether the policy would have another variant of this family."""
        search = self._run.settings.search
        return (
            not family.closed
            and len(family.variants) < search.tune_inside
            and family.structure.state is ProgramState.JUDGED
            and may_be_tuned(family.structure, search, self._run.task.flag_choices)
        )

    async def _next_variant(self, family: Family) -> Program | None:
        """Propose and store another variant; ``None`` where there is to be none."""
        while self.wants_variant(family):
            context = self._run.ask_variant(family.structure, family.judged_variants)
            if isinstance(context, StopReason):
                self._cut(family)
                return None
            program = self._run.tell(context, await self.propose(context))
            if program is None:
                family.closed = True
                return None
            family.update(program)
            if program.duplicate_of is None:
                self._observer.on_queued(program)
                return program
        return None

    async def propose(self, context: ProposeContext) -> Proposal | None:
        """Other values for the structure; ``None`` where there are no others."""
        return await self._tuner.propose(context)

    def _cut(self, family: Family) -> None:
        self._run.storage.note(Step(StepKind.CUT, family.structure.number))
        family.closed = True


def unfinished_families(run: Run, programs: Iterable[Program]) -> list[Family]:
    """Put together again what a crash left, in the order given; duplicates are no members."""
    families: dict[int, Family] = {}
    for program in programs:
        number = program.variant_of or program.number
        if number not in families:
            structure = program if program.variant_of is None else run.program(number)
            families[number] = Family(structure)
            for variant in run.storage.variants(number):
                families[number].update(variant)
            families[number].update(structure)
    return list(families.values())
