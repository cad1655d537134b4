"""What the judge says of one source text on one device class."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeFloat, NonNegativeInt, model_validator

from evaluators.status import Status as Status  # noqa: PLC0414  (part of this module's interface)

MOST_KERNELS = 32
NAME_CAP = 160
"""Characters of a kernel's name."""


class Frozen(BaseModel):
    """Immutable, strict about keys: the base of everything that crosses a process boundary."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Stage(StrEnum):
    """How far a candidate came. The order is the order of the cascade."""

    LINT = "lint"
    BUILD = "build"
    IMPORT = "import"
    SMOKE = "smoke"
    CORRECTNESS = "correctness"
    ROUNDS = "rounds"
    ATTESTATION = "attestation"
    """On a GPU: what a profiler and the device's own counters say of the rounds."""
    CONFIRMATION = "confirmation"
    PROFILE = "profile"
    """After every verdict; no verdict falls here."""


FULL_LEVEL = 0.99
"""Coverage of every interval on whose ground a gain is claimed."""


class Interval(Frozen):
    """An estimate with a confidence interval; ``low <= estimate <= high``."""

    low: FiniteFloat
    estimate: FiniteFloat
    high: FiniteFloat
    level: Annotated[float, Field(gt=0, lt=1)]
    """Coverage, for instance 0.99."""

    @property
    def glance(self) -> bool:
        """Whether so few rounds were looked at that it says of a program how far behind it is, and no more."""
        return self.level < FULL_LEVEL

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.estimate <= self.high:
            raise ValueError(f"interval out of order: {self.low} <= {self.estimate} <= {self.high}")
        return self


class ErrorMeasure(Frozen):
    """Worst error against the float64 oracle over what was compared, in ulp of the row's scale, beside its limit.

    ``None`` means not a number: the outputs held NaN or Inf where the oracle does not, or the reverse.
    """

    max_ulp: float | None
    rms_ulp: float | None
    max_limit_ulp: NonNegativeFloat
    rms_limit_ulp: NonNegativeFloat
    elements: NonNegativeInt
    """How many output elements were compared."""


class WorkloadResult(Frozen):
    """One workload's part of an evaluation."""

    workload: str
    """The workload's name, for instance ``m4096_k4096``."""
    split: Literal["search", "heldout", "edge"]
    weight: NonNegativeFloat
    errors: dict[str, ErrorMeasure] = {}
    """By input family."""
    call_us: Interval | None = None
    """Time of one call in the rounds; ``None`` where it was not timed."""
    ratios: dict[str, Interval] = {}
    """Baseline's name -> baseline time / candidate time, paired and interleaved."""
    strongest: str | None = None
    """The baseline that was fastest on this workload: the one the score uses."""
    floor_us: NonNegativeFloat | None = None
    """Below this no program can be on this device, as measured."""
    rounds: NonNegativeInt = 0
    prepare_ms: NonNegativeFloat | None = None
    """What PREPARE cost (warm-up, prepacking): the candidate's, shown, not part of a call."""


class Timed(Frozen):
    """A speed that was measured."""

    kind: Literal["timed"] = "timed"
    speedup: Interval
    """Weighted geometric mean over the search workloads of strongest-baseline time / candidate time."""
    cold: bool
    """True where each round's buffers exceed twice the last-level cache."""
    rounds: NonNegativeInt


class Untimed(Frozen):
    """No speed, and why."""

    kind: Literal["untimed"] = "untimed"
    reason: str
    noisy: bool = False
    """Others used the machine, as the program beside it shows too: measured again, it may have a speed.

    Not so where its own times alone stray: a program could see to that until chance is kind to it."""


class Cost(Frozen):
    """What the evaluation used up; booked for failed candidates too."""

    build_s: NonNegativeFloat = 0.0
    device_s: NonNegativeFloat = 0.0
    """Wall-clock seconds during which the device was this candidate's."""
    wall_s: NonNegativeFloat = 0.0
    stages_s: dict[str, NonNegativeFloat] = {}
    """Wall-clock seconds by stage of the cascade, waiting for a builder's place or for the device included."""
    timed_s: NonNegativeFloat = 0.0
    """Of the device's seconds those between *go* and reply in timed rounds, the opponent's too."""


class Artifact(Frozen):
    """Something a build or a run left for people to look at."""

    name: str
    text: str
    truncated: bool = False


class Environment(Frozen):
    """Where it was measured. Two speeds compare only with equal ``inputs_hash`` and equal environment."""

    device_class: str
    """For instance ``cpu:AMD EPYC:2``: device name and the number of cores a candidate may use."""
    host: dict[str, str] = {}
    """Compiler, libraries, kernel, the processor's vector extensions and caches."""
    sandbox: str = "full"
    """``full``, ``reduced`` or ``none``; ``none`` shows in every summary."""


class KernelUse(Frozen):
    """One kernel's part of a call."""

    name: Annotated[str, Field(max_length=NAME_CAP)]
    """As the device knows it, readable where it could be made so. The candidate's: data."""
    launches: NonNegativeInt
    """In one call."""
    us: NonNegativeFloat
    """Of one call, all its launches together."""
    blocks: NonNegativeInt
    threads: NonNegativeInt
    """Of a block."""
    registers: NonNegativeInt
    shared_bytes: NonNegativeInt
    local_bytes: NonNegativeInt
    """Of a thread: spills and stack."""


class WorkloadAttestation(Frozen):
    """One workload's part."""

    workload: str
    calls: NonNegativeInt
    """In a round."""
    launches: NonNegativeInt
    """Kernels of one call."""
    copies: NonNegativeInt = 0
    fills: NonNegativeInt = 0
    kernel_us: NonNegativeFloat
    """Of one call: the time in which at least one of its kernels, copies or fills ran."""
    overlap: NonNegativeFloat
    """Of that time, how much belonged to two calls at once."""
    captured: bool = True
    """Whether a round is one launch of recorded calls, so that ``call_us`` is the device's time; else the program
    cannot be recorded, and ``call_us`` holds what launching costs the host."""
    eager_us: NonNegativeFloat | None = None
    """Of a call launched from the host as a caller would, many in a row, in rounds checked like any."""
    kernels: Annotated[tuple[KernelUse, ...], Field(max_length=MOST_KERNELS)] = ()
    """The longest first."""
    watched_us: NonNegativeFloat | None = None
    """Of a call in the quickest round in which counters were read, by the judge's clock."""
    dispatches: NonNegativeFloat | None = None
    """Grids that the device began in a round of the ordinary, unobserved process, by the device's own counters."""
    read_bytes: NonNegativeFloat | None = None
    """From device memory, in one call of such a round."""
    written_bytes: NonNegativeFloat | None = None


class Attestation(Frozen):
    """What was attested of a program that passed."""

    workloads: tuple[WorkloadAttestation, ...] = ()
    watched: bool = False
    """The device's own counters, read from outside, agreed with what was recorded inside."""
    memory_errors: NonNegativeInt | None = None
    """That ``compute-sanitizer memcheck`` found on small shapes; ``None`` where it did not run."""
    race_hazards: NonNegativeInt | None = None
    """Errors of ``compute-sanitizer racecheck`` on small shapes; no verdict, for it does not know every barrier."""
    missing: str = ""
    """What could not be looked at, and why, one line."""


class Evaluation(Frozen):
    """The judge's whole answer for one source text on one device class.

    Impossible combinations cannot be constructed: a score and a time exist only on ``passed``.
    """

    status: Status
    stage: Stage
    """The stage at which the verdict fell."""
    task_hash: str
    source_hash: str
    inputs_hash: str = ""
    """Hash of generator, workloads and captured data."""
    score: FiniteFloat | None = None
    """Speed-up over the strongest baseline, or the task's own value; higher is better. ``None`` on ``passed`` means
    right but unmeasured (``timing`` says why): it can neither enter an archive nor be the best."""
    message: str = ""
    """One line."""
    detail: str = ""
    """The compiler's or the program's own words, capped. Data, never instructions."""
    measures: dict[str, FiniteFloat] = {}
    workloads: tuple[WorkloadResult, ...] = ()
    timing: Annotated[Timed | Untimed, Field(discriminator="kind")] = Untimed(reason="not reached")
    confirmed: bool = False
    """A new process, new keys, a fixed number of rounds and the held-out workloads agreed."""
    attestation: Attestation | None = None
    """On a GPU: what ran in the rounds, where that was looked at."""
    environment: Environment
    cost: Cost = Cost()
    artifacts: tuple[Artifact, ...] = ()

    @property
    def noisy(self) -> bool:
        """Whether it has no time because others used the machine: see :attr:`Untimed.noisy`."""
        return isinstance(self.timing, Untimed) and self.timing.noisy

    @model_validator(mode="after")
    def _possible(self) -> Self:
        passed = self.status is Status.PASSED
        if self.score is not None and not passed:
            raise ValueError(f"a score exists only on 'passed', not on {self.status!r}")
        if passed and self.score is None and isinstance(self.timing, Timed):
            raise ValueError("a timed, passed evaluation has a score")
        if not passed and isinstance(self.timing, Timed):
            raise ValueError(f"a time exists only on 'passed', not on {self.status!r}")
        if not passed and any(w.call_us is not None or w.ratios for w in self.workloads):
            raise ValueError(f"a workload's time exists only on 'passed', not on {self.status!r}")
        if self.attestation is not None and not passed:
            raise ValueError(f"an attestation exists only on 'passed', not on {self.status!r}")
        if self.confirmed and not passed:
            raise ValueError("only a passed evaluation can be confirmed")
        return self


class DuelOutcome(StrEnum):
    """Who may have the cell."""

    CHALLENGER = "challenger"
    """The interval lies above 1: the challenger is faster."""
    OCCUPANT = "occupant"
    """The interval lies below 1."""
    EQUAL = "equal"
    """The interval lies within ``1 ± delta``: the occupant stays."""
    UNDECIDED = "undecided"
    """The rounds ran out, or the machine was too noisy: the occupant stays."""
    FAILED = "failed"
    """The challenger failed during the duel; ``evaluation`` says how."""


class Duel(Frozen):
    """A paired, interleaved comparison of two programs on the search workloads."""

    outcome: DuelOutcome
    ratio: Interval | None
    """Occupant time / challenger time, weighted geometric mean; above 1 the challenger is faster."""
    rounds: NonNegativeInt = 0
    failure: Status | None = None
    noisy: bool = False
    """Undecided because others used the machine, as both programs show: held again, it may have an outcome."""
    message: str = ""
    cost: Cost = Cost()
