"""What the search itself can be told: frozen values, checked once, stored with the run."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt

from evaluators.evaluation import Frozen
from evaluators.task import Task

GPU_LANES, FEW_CORES_LANES, LEAST_CORES = 8, 4, 8
"""On a GPU: where compilers have cores of their own, and where there are fewer cores than that takes."""
Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Names = Annotated[tuple[str, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]
"""In TOML a list."""


class Caps(Frozen):
    """What a run may use up. ``None`` means no cap; a number must be finite and non-negative.

    A cap is checked before a launch, counting what is in flight with its worst case; parallelism never raises one.
    """

    candidates: NonNegativeInt | None = None
    """Programs proposed, duplicates included."""
    seconds: Finite | None = None
    """Active wall-clock time, summed over resumes. What is in flight at the deadline stays queued."""
    device_seconds: Finite | None = None
    """Time during which a device was a candidate's; 3600 is one GPU-hour."""
    dollars: Finite | None = None
    tokens: NonNegativeInt | None = None
    patience: PositiveInt | None = None
    """Passed, new programs since the last new best."""
    target: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """Stop once a confirmed program has this score."""


class SearchSettings(Frozen):
    """How the search goes about it."""

    seed: NonNegativeInt = 0
    """Of every random stream. With ``lanes = 1``, ``queue = 0`` and ``proposals = 1`` (one worker) a run with the same
    seed and the same verdicts has the same lineage."""
    lanes: PositiveInt | None = None
    """Evaluations in flight; unset: 1, and for tasks of a GPU 8, or 4 where there are fewer than 8 cores: their
    programs are built while others are timed."""
    queue: NonNegativeInt = 1
    """Programs that wait in front of the judge so that it never idles."""
    proposals: PositiveInt | None = None
    """Proposals in flight; unset: 1, and 8 where language models propose, which take their time."""
    islands: PositiveInt = 2
    migration_every: PositiveInt = 20
    """Finished programs between two rounds of ring migration."""
    stagnation: PositiveInt = 60
    """Finished programs of an island without a better island best, after which it starts over."""
    explore: Share = 0.3
    """Share of parents drawn uniformly over the cells; the others are drawn by rank."""
    inspirations: NonNegativeInt = 3
    """Other elites shown beside the parent, from as many different cells as there are."""
    tune_inside: NonNegativeInt = 4
    """Variants of a new structure with tunables that are tried before its best one is compared with others; 0: none."""
    tune_inside_from: Names = ("llm", "agent")
    """The proposers whose programs are such structures."""
    profiles: bool | None = None
    """Have the judge profile what takes a cell; unset: unless the tuner alone proposes, which reads none."""
    give_up_after: PositiveInt = 200
    """Proposals in a row without a new program, after which the proposers count as exhausted."""
    evaluation_timeout_s: PositiveFloat | None = None
    """Without a verdict for so long the judge counts as hung and is started anew; ``None``: from the task's limits."""

    def lanes_of(self, task: Task) -> int:
        """Evaluations in flight of this task."""
        if self.lanes is not None or not task.for_gpu:
            return self.lanes or 1
        return GPU_LANES if len(os.sched_getaffinity(0)) >= LEAST_CORES else FEW_CORES_LANES


class RunSettings(Frozen):
    """Everything a run of the search needs to know besides its task; stored in the database as JSON."""

    search: SearchSettings = SearchSettings()
    caps: Caps = Caps()
