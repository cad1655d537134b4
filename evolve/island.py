"""An island: one population with its archive and its counters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from evolve.archive import Archive, Elite
from evolve.database.records import IslandRecord


@dataclass
class Island:
    """A population that evolves on its own, but for migration."""

    record: IslandRecord
    archive: Archive = field(default_factory=Archive)

    @property
    def number(self) -> int:
        """0, 1, 2, … along the ring."""
        return self.record.number

    def counted(self, added: Elite | None) -> IslandRecord:
        """The counters after one more program finished here; ``added`` where it took a cell."""
        best = self.archive.best()
        better = added is not None and (best is None or added.score > best.score)
        stagnant = 0 if better else self.record.stagnant + 1
        return replace(self.record, finished=self.record.finished + 1, stagnant=stagnant)

    def restarted(self) -> IslandRecord:
        """The counters after a reset."""
        return replace(self.record, stagnant=0, resets=self.record.resets + 1)
