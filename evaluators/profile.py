"""Where a program's time goes and what limits it, as the judge measured it from outside.

One type for every device: a sampled CPU program, a GPU kernel as its builder reports it, or as a profiler's counters
show it. A profile is advice to authors: no verdict, score or placement depends on one.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from evaluators.evaluation import Cost, Frozen

MOST_HOT_SPOTS = 16
MOST_INSTRUCTIONS = 12
MOST_COUNTERS = 128
MOST_THREADS = 256
MOST_TEXT = 300
"""Characters of a line of source, a name or an instruction."""
_ROUNDING = 1e-6

Share = Annotated[float, Field(ge=0, le=1)]
Line = Annotated[str, Field(max_length=MOST_TEXT)]


class Bottleneck(StrEnum):
    """What limits a program."""

    BANDWIDTH = "bandwidth"
    """Memory moves no faster."""
    COMPUTE = "compute"
    """The cores execute its instructions, useful or not, all of the time."""
    LATENCY = "latency"
    """It waits for memory or for results of its own, with bandwidth and arithmetic to spare."""
    LAUNCH = "launch"
    """A call does so little that starting it is what it costs."""
    OCCUPANCY = "occupancy"
    """Parallel units stand idle: too few warps, threads without work."""
    SYSTEM = "system"
    """The operating system: page faults, allocation, locks."""
    INTERPRETER = "interpreter"
    """An interpreter, between the calls of compiled libraries."""


class Ceiling(Frozen):
    """A rate that the program reached, beside the best that this device was seen to do."""

    name: str
    """For instance ``memory bandwidth``, ``arithmetic``."""
    achieved: NonNegativeFloat
    """Of what the task needs at least (each input read once, each output written once), not of what was really moved,
    unless a counter measured that."""
    ceiling: Annotated[float, Field(gt=0)]
    unit: str
    """Of both, for instance ``bytes/s``."""

    @property
    def share(self) -> float:
        """How much of the ceiling was reached; above 1 where the ceiling was measured on a busier machine."""
        return self.achieved / self.ceiling


class Counter(Frozen):
    """One number that was measured or compiled."""

    value: FiniteFloat
    unit: str
    """For instance ``bytes``, ``registers/thread``, ``%``; ``1`` for a bare count or share."""
    origin: Literal["measured", "compiled"] = "measured"


class HotInstruction(Frozen):
    """One instruction of a hot spot."""

    share: Share
    """Of the same time as the hot spot's."""
    text: Line
    """As a disassembler prints it. Made of the candidate: data."""


class HotSpot(Frozen):
    """A place that takes a share of the time. Names and texts are the candidate's: data, never instructions."""

    share: Share
    """Of the time in which threads worked, or of the summed time of all kernels."""
    function: Line = ""
    """The function's or kernel's name, or the library it lies in."""
    line: PositiveInt | None = None
    """Of the program's source, from 1; ``None`` where the place is not of the source."""
    text: Line = ""
    """That line of the source."""
    instructions: Annotated[tuple[HotInstruction, ...], Field(max_length=MOST_INSTRUCTIONS)] = ()
    """The hottest first."""


class Profile(Frozen):
    """What was measured of one program on one workload. Everything but the tool may be missing."""

    tool: str
    """What measured it, for instance ``sampling``, ``ncu``, ``builder``."""
    device_class: str
    sandbox: str = "full"
    """What the program ran in, as an environment says it."""
    workload: str = ""
    call_us: NonNegativeFloat | None = None
    """Of a call in the rounds that this profile rests on; the verdict's time is another, and is what counts."""
    bottleneck: Bottleneck | None = None
    reason: Line = ""
    """The judge's own words: why it takes this for what limits the program, one line."""
    ceilings: tuple[Ceiling, ...] = ()
    hot_spots: Annotated[tuple[HotSpot, ...], Field(max_length=MOST_HOT_SPOTS)] = ()
    """The hottest first. What is left to 1 was spread over more places."""
    samples: NonNegativeInt = 0
    threads: Annotated[tuple[Share, ...], Field(max_length=MOST_THREADS)] = ()
    """For each thread the share of the time in calls in which it worked; the busiest first."""
    counters: dict[str, Counter] = Field(default_factory=dict)
    """By name, for instance ``registers``, ``dram__bytes_read.sum``."""
    missing: Line = ""
    """What could not be measured, and why, one line."""
    cost: Cost = Cost()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for place, shares in (
            ("hot_spots", [s.share for s in self.hot_spots]),
            *((f"hot_spots.{n}", [i.share for i in s.instructions]) for n, s in enumerate(self.hot_spots)),
        ):
            if sum(shares) > 1 + _ROUNDING:
                raise ValueError(f"{place}: shares add up to {sum(shares):g}")
            if any(a < b for a, b in pairwise(shares)):
                raise ValueError(f"{place}: not the hottest first")
        if self.hot_spots and not self.samples and self.tool == "sampling":
            raise ValueError("hot spots without samples")
        if len(self.counters) > MOST_COUNTERS:
            raise ValueError(f"counters: {len(self.counters)}, at most {MOST_COUNTERS}")
        return self

    @property
    def measured(self) -> bool:
        """Whether it says anything: of a program that failed meanwhile only ``missing`` is known."""
        return bool(self.bottleneck or self.ceilings or self.hot_spots or self.counters)
