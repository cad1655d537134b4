"""What there is to optimise: the task and its parts, as frozen values. Loading is in :mod:`evaluators.task_loading`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from evaluators.evaluation import Frozen

DType = Literal["fp64", "fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "i64", "i32", "i16", "i8", "u8", "u16", "bool"]
Role = Literal["in", "out", "inout"]
Language = Literal["cpp", "python", "triton", "cuda", "torch"]


class Arg(Frozen):
    """One parameter of the entry, in calling order. Outputs are buffers that the entry fills."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
    role: Role
    dtype: DType
    shape: tuple[str | PositiveInt, ...]
    """Each dimension is a number or an expression over the axes, for instance ``"K // 2"``. Row-major, contiguous."""
    transform: Literal["rotate", "xor", "fresh"] = "rotate"
    """How a round's content is made from the pool: rows rotated, one element a row replaced by another of the same
    array, floats moved within their power of two (data stays valid element by element); bits XORed with a key (any bit
    pattern must be legal); or generated anew each time (for structured data, and for integers whose order matters)."""


class Workload(Frozen):
    """One input shape family."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]
    axes: dict[str, PositiveInt]
    weight: NonNegativeFloat = 1.0
    """Share in the score; weights of the search workloads are normalised."""
    split: Literal["search", "heldout", "edge"] = "search"
    """``search`` is scored, ``heldout`` only at confirmation, ``edge`` only checked for right answers."""
    source: str = ""
    """Where the shape comes from, in words."""


class Baseline(Frozen):
    """A program of the task's own against which speed is measured, in its own sandboxed process like any candidate."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]
    file: str
    """Path inside the task folder."""
    language: Language
    description: str = ""


class Limits(Frozen):
    """What one candidate may use. A candidate that exceeds one fails; it never stalls the run."""

    build_s: PositiveFloat = 60.0
    import_s: PositiveFloat = 10.0
    prepare_s: PositiveFloat = 10.0
    call_s: PositiveFloat = 2.0
    """One call, and the slack of a round's deadline."""
    memory_bytes: PositiveInt = 2 << 30
    """Beyond what the judge maps for inputs and outputs."""
    source_bytes: PositiveInt = 256 << 10


class ArchiveDimension(Frozen):
    """One axis of the MAP-Elites grid: a measure cut into equal bins between ``low`` and ``high``."""

    measure: str
    low: float
    high: float
    bins: PositiveInt

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"archive dimension {self.measure!r}: low {self.low} must be below high {self.high}")
        return self


class Task(Frozen):
    """What to optimise. ``hash`` covers everything that decides a verdict: this file, reference, baselines, limits."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")]
    description: str = ""
    evaluator: str = "kernel"
    """``kernel``, or ``file.py:Name`` in the task folder, or ``package.module:Name``."""
    metric: Literal["time", "value"] = "time"
    languages: tuple[Language, ...]
    entry: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
    args: tuple[Arg, ...]
    workloads: tuple[Workload, ...]
    baselines: tuple[Baseline, ...] = ()
    allowed_precision: tuple[DType, ...] = ()
    deterministic: bool = True
    """The same input twice must give the same bits."""
    libraries: bool = False
    """On a GPU: whether programs may call vendors' libraries; else only kernels that were built with them may run."""
    threads: PositiveInt = 1
    """Cores a candidate and a baseline may use, alike."""
    python_packages: tuple[str, ...] = ()
    """Importable beside the standard library by ``python`` candidates."""
    build_flags: tuple[str, ...] = ()
    """Compiler flags every ``cpp`` build gets (candidates and baselines)."""
    flag_choices: tuple[tuple[str, ...], ...] = ()
    """Groups of alternatives a candidate may choose one of each from, in a ``// build-flags:`` line."""
    limits: Limits = Limits()
    archive: tuple[ArchiveDimension, ...] = ()
    seed_program: str
    """Path inside the task folder of the program the search starts from."""
    reference: str = "reference.py"
    """The reference's path from the task folder; tasks that differ in their element types may share a sibling's."""
    best_known: float | None = None
    """For value-scored tasks: the best published score."""
    best_known_source: str = ""
    min_gain: PositiveFloat = 1e-9
    """For value-scored tasks: what counts as better."""
    device_classes: tuple[str, ...] = ()
    """Where it ships, for instance ``cpu``; empty: wherever it runs."""

    folder: Path
    """Where it was loaded from; not part of the hash."""
    hash: str
    """SHA-256 over every file that decides a verdict."""
    inputs_hash: str
    """SHA-256 over generator, workloads and captured data."""

    @property
    def reference_path(self) -> Path:
        """Where the reference lies; not every task has one."""
        return self.folder / self.reference

    @property
    def device_oracle_path(self) -> Path:
        """Where the oracle for a GPU lies, beside the reference; few tasks have one."""
        return self.reference_path.parent / "device_oracle.py"

    @property
    def for_gpu(self) -> bool:
        """Whether its programs are written for a GPU."""
        return not {"triton", "cuda"}.isdisjoint(self.languages)

    def search_workloads(self) -> tuple[Workload, ...]:
        """The scored workloads, in file order."""
        return tuple(w for w in self.workloads if w.split == "search")
