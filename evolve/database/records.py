"""What goes into the database and comes out, besides programs: frozen values, no SQL."""

from __future__ import annotations

from dataclasses import dataclass, field

from evaluators.evaluation import Duel, DuelOutcome
from evolve.budget import Charge
from evolve.settings import RunSettings
from evolve.types import AddStatus, RunStatus

GLOBAL = -1
"""The island number under which the archive over all islands is stored."""


@dataclass(frozen=True)
class NewRun:
    """A run about to be created."""

    name: str
    task_name: str
    task_hash: str
    settings: RunSettings
    config: str = ""
    """The resolved configuration as TOML, without secrets."""
    task: str = ""
    """The task as JSON, without its folder: what a replay needs to know of it."""


STALE_S = 30.0
"""A running run whose heartbeat is older has lost its process, or hangs."""


@dataclass(frozen=True)
class RunRecord:
    """A run as stored."""

    id: int
    name: str
    task_name: str
    task_hash: str
    settings: RunSettings
    config: str
    task: str
    """The task as JSON, as it was when the run began; without its folder."""
    status: RunStatus
    reason: str
    created_at: float
    """Seconds since the epoch, like every ``_at``."""
    heartbeat_at: float
    """When the writing process last said that it lives; about once a second while ``running``."""
    active_s: float
    """Wall-clock time spent running, summed over resumes."""
    best: int | None
    """Number of the confirmed best program."""
    migration_round: int
    """How many rounds of migration are done."""
    promised: int = 0
    """Programs on their way in the process that writes the run, as it last said: they have a place under the cap."""

    def alive(self, now: float) -> bool:
        """Whether a search goes on: ``running``, and its process said so less than ``STALE_S`` ago."""
        return self.status is RunStatus.RUNNING and now - self.heartbeat_at < STALE_S


@dataclass(frozen=True)
class IslandRecord:
    """An island's counters."""

    number: int
    finished: int = 0
    """Programs finished on it."""
    stagnant: int = 0
    """Of those, since its best last improved."""
    resets: int = 0


@dataclass(frozen=True)
class CellRecord:
    """One elite: which program holds which cell. ``island`` may be :data:`GLOBAL`."""

    island: int
    cell: int
    program: int


@dataclass(frozen=True)
class DuelRecord:
    """One paired comparison that was paid for."""

    challenger: int
    occupant: int
    duel: Duel

    @property
    def margin(self) -> float | None:
        """How many times as fast the challenger was; ``None`` where the duel did not tell them apart."""
        decided = self.duel.outcome in {DuelOutcome.CHALLENGER, DuelOutcome.OCCUPANT}
        return self.duel.ratio.estimate if decided and self.duel.ratio is not None else None


@dataclass(frozen=True)
class MigrationRecord:
    """An elite that moved to the next island of the ring, and what its placement there did."""

    round: int
    source: int
    target: int
    program: int
    placement: AddStatus


@dataclass(frozen=True)
class LedgerEntry:
    """One booking. ``kind``: evaluation, confirmation, duel, infra, abandoned, model."""

    kind: str
    charge: Charge
    program: int | None = None
    build_s: float = 0.0
    wall_s: float = 0.0


@dataclass(frozen=True)
class Event:
    """One line of a run's history."""

    kind: str
    text: str = ""
    program: int | None = None
    at: float = 0.0


@dataclass(frozen=True)
class Finish:
    """Everything that placing one program changes, committed at once."""

    number: int
    placement: AddStatus
    order: int
    """1, 2, 3, … in the order in which programs finish."""
    cells: tuple[CellRecord, ...] = ()
    """Cells it took."""
    island: IslandRecord | None = None
    best: bool = False
    """It is the run's new best."""
    duplicates: tuple[tuple[int, int], ...] = ()
    """(number, order) of queued duplicates that waited for this program and finish with it."""
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Migrations:
    """One round of migration, committed at once."""

    round: int
    moves: tuple[MigrationRecord, ...]
    cells: tuple[CellRecord, ...]


@dataclass(frozen=True)
class Reset:
    """An island starting over from one elite, committed at once."""

    island: IslandRecord
    cell: CellRecord
    text: str


@dataclass(frozen=True)
class Totals:
    """Sums over a run, made by the database when a run is opened."""

    charge: Charge
    next_number: int
    finished: int
    duplicates: int
    variants: int = 0
    """Programs stored that are variants of others, tuned inside."""
    verdicts: dict[str, int] = field(default_factory=dict)
    since_best: int = 0
    """Passed, new programs that finished after the best did."""
    largest_device_s: float = 0.0
    """The dearest single evaluation so far."""
