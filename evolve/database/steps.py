"""The order in which things happened in a run: all that a replay cannot work out again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from evaluators.evaluation import Frozen
from evolve.settings import RunSettings


class Opening(Frozen):
    """With what a process took the run up."""

    settings: RunSettings
    proposers: dict[str, float]
    """Each proposer's weight, by name, in their order."""
    orders: int
    """How many orders that people gave the run are in the settings and weights."""
    config: str
    """The resolved configuration as TOML; empty where there was none."""


@dataclass(frozen=True)
class Shown:
    """What the search chose for a proposer to see."""

    island: int
    parent: int
    inspirations: tuple[int, ...]

    def __str__(self) -> str:
        return " ".join(str(number) for number in (self.island, self.parent, *self.inspirations))

    @classmethod
    def parse(cls, text: str) -> Shown:
        """Read back what ``str`` wrote.

        Raises:
            ValueError: it is something else.
        """
        island, parent, *inspirations = (int(number) for number in text.split())
        return cls(island, parent, tuple(inspirations))


class StepKind(StrEnum):
    """What happened. Each kind names what :class:`Step`'s ``program`` and ``other`` are."""

    OPEN = "open"
    """A process took the run up. ``text`` is an :class:`Opening` as JSON."""
    ASK = "ask"
    """A proposal was asked for under number ``program``; ``other`` is the structure that it is to be a variant of.
    ``text`` is what was :class:`Shown`."""
    TURN = "turn"
    """The proposer named ``text`` was asked for ``program``."""
    END = "end"
    """It had its answer."""
    WITHDRAW = "withdraw"
    """Nobody could be asked for ``program``."""
    PASS = "pass"
    """Nothing was proposed under number ``program``."""
    TELL = "tell"
    """A proposal became ``program``."""
    JUDGE = "judge"
    """``program`` was evaluated."""
    DUEL = "duel"
    """``program`` challenged ``other``, and the judge answered."""
    NO_DUEL = "no_duel"
    """``program`` challenged ``other``, and the judge failed on it until we gave up."""
    CONFIRM = "confirm"
    """``program`` got its second verdict."""
    PROFILE = "profile"
    """``program``, which is to take a cell, was profiled."""
    TAKE = "take"
    """What became ``program`` was handed in by an agent; ``other`` is its island, if the search did not choose it."""
    OBEY = "obey"
    """The first ``other`` orders that people gave the run were in force from here on."""
    CUT = "cut"
    """A cap kept ``program``, a structure, from being tuned any further."""
    UNTENDED = "untended"
    """A cap kept migration or a reset, which was due, from happening before the next placement."""
    FINISH = "finish"
    """``program`` was placed."""
    LEARN = "learn"
    """The proposer of ``program`` was told what became of it."""
    MIGRATE = "migrate"
    """The next round of migration took place."""
    RESET = "reset"
    """An island, numbered ``other``, started over from ``program``."""
    REFUSE = "refuse"
    """A cap broke off the placement of ``program``, or migration where there is none."""


@dataclass(frozen=True)
class Step:
    """One thing that happened."""

    kind: StepKind
    program: int | None = None
    other: int | None = None
    text: str = ""
