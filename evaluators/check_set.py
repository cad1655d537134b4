"""Secret inputs that every candidate of a judge is checked on, with what the oracle says of them.

Generating 25 MB for each of a dozen input families takes longer than judging a candidate on them, so a judge does it
once. No candidate can learn anything of them: each has a process of its own, and nothing outlives it. A confirmation
draws new ones, and timed rounds have fresh content anyway.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np

from evaluators.dtypes import Array
from evaluators.reference import Reference
from evaluators.task import Workload

WHOLE_ELEMENTS = 1 << 22
"""Workloads with at most this many input elements are compared whole, in every family; larger ones whole in the
ordinary family and by :data:`CHECKED_ROWS` secret rows in the others."""
CHECKED_ROWS = 128
MAKERS = 2
"""Threads that generate inputs and ask the oracle, at least; NumPy lets go of the interpreter for most of it."""
FRESH_FAMILIES = 2
"""How many families besides the ordinary one a confirmation draws for each workload. The program has passed all of them
before, on the kept set; a confirmation is about inputs that nothing has been checked on."""


Made = TypeVar("Made")
Draft = tuple[dict[str, Array], Array | None]
"""An input, and which rows of what is right for it will be wanted."""


@dataclass(frozen=True)
class Makers:
    """Who makes inputs."""

    threads: int = MAKERS
    cores: frozenset[int] | None = None
    """Where they run; ``None``: where whoever asks runs."""

    def pool(self) -> ThreadPoolExecutor:
        """Threads for one piece of work."""
        if self.cores is None:
            return ThreadPoolExecutor(self.threads)
        return ThreadPoolExecutor(self.threads, initializer=os.sched_setaffinity, initargs=(0, self.cores))


@dataclass(frozen=True)
class CheckCase:
    """One input, and what is right for it."""

    family: str
    inputs: Mapping[str, Array]
    rows: Array | None
    """The output rows that are compared; ``None``: all."""
    oracle: Mapping[str, Array]
    scale: Mapping[str, Array]


class CheckSet:
    """Inputs of every family for the workloads that are asked for, made when first asked.

    Kept in files and the same at every call, or (``keep=False``) forgotten and new at every call.
    """

    def __init__(
        self,
        reference: Reference,
        folder: Path,
        rng: np.random.Generator,
        *,
        keep: bool = True,
        whole_ordinary: bool = True,
        makers: Makers | None = None,
    ) -> None:
        self._reference = reference
        self._makers = makers or Makers()
        self._keeps = keep
        self._whole_ordinary = whole_ordinary
        self._folder = folder
        self._rng = rng
        self._cases: dict[tuple[str, str], CheckCase] = {}
        self._chosen: dict[str, list[str]] = {}
        self._drafts: dict[tuple[str, str], Draft] = {}
        self._spawning = Lock()
        self._making = Lock()

    def case(self, workload: Workload, family: str) -> CheckCase:
        """The inputs of one family. Arrays are not to be written."""
        return self.cases(workload, [family])[0]

    def cases(self, workload: Workload, families: Sequence[str]) -> list[CheckCase]:
        """The inputs of some families, made side by side where they are not there yet."""
        made = self._made([(workload, family) for family in families])
        return [made.get((workload.name, f)) or self._cases[workload.name, f] for f in families]

    def make(self, workloads: Iterable[Workload]) -> None:
        """Make every family of these workloads now."""
        self._made([(workload, family) for workload in workloads for family in self._reference.families])

    def _made(self, wanted: Sequence[tuple[Workload, str]]) -> dict[tuple[str, str], CheckCase]:
        """Those of the wanted cases that were not there."""
        if all((workload.name, family) in self._cases for workload, family in wanted):
            return {}  # without waiting for whoever drafts others
        with self._making:
            missing = [(workload, family) for workload, family in wanted if (workload.name, family) not in self._cases]
            cases = self._side_by_side(self._make, missing)
            made = {(workload.name, family): case for (workload, family), case in zip(missing, cases, strict=True)}
            if self._keeps:
                self._cases.update(made)
            return made

    def draft(self, wanted: Iterable[tuple[Workload, str]]) -> None:
        """Generate what is missing of these, workload and family, and leave what is right for it to whoever asks.

        An oracle may compute on the device; generating needs none, so that it may be somebody else's.
        """
        with self._making:
            known = {*self._cases, *self._drafts}
            missing = [(workload, family) for workload, family in wanted if (workload.name, family) not in known]
            drafts = self._side_by_side(self._draft_ahead, missing)
            self._drafts |= {(w.name, family): draft for (w, family), draft in zip(missing, drafts, strict=True)}

    def another(self) -> CheckSet:
        """Another set that is kept, with inputs of its own."""
        folder = self._folder / "another"
        folder.mkdir(exist_ok=True)
        (rng,) = self._spawned(1)
        return CheckSet(self._reference, folder, rng, whole_ordinary=self._whole_ordinary, makers=self._makers)

    def fresh(self) -> CheckSet:
        """Another set that forgets at once: inputs of its own, of some families each."""
        return CheckSet(
            self._reference,
            self._folder,
            self._spawned(1)[0],
            keep=False,
            whole_ordinary=self._whole_ordinary,
            makers=self._makers,
        )

    def drawn(self, workloads: Sequence[Workload]) -> CheckSet:
        """As :meth:`fresh`, with inputs for these workloads drafted now, each to be asked for once."""
        made = self.fresh()
        made._chosen = {w.name: made.families(w) for w in workloads}
        made.draft((w, family) for w in workloads for family in made._chosen[w.name])
        return made

    def families(self, workload: Workload) -> list[str]:
        """The families to check a workload on: all of them, or the ordinary one and some others drawn at random."""
        if workload.name in self._chosen:
            return self._chosen[workload.name]
        ordinary, *others = self._reference.families
        if self._keeps or len(others) <= FRESH_FAMILIES:
            return [ordinary, *others]
        return [ordinary, *(str(f) for f in self._rng.choice(others, FRESH_FAMILIES, replace=False))]

    def some_of(self, count: int) -> list[str]:
        """So many families, of all of them, drawn at random; all where there are no more."""
        return [str(family) for family in self._rng.permutation(self._reference.families)[:count]]

    def _side_by_side(
        self, make: Callable[[Workload, str, np.random.Generator], Made], wanted: Sequence[tuple[Workload, str]]
    ) -> list[Made]:
        if not wanted:
            return []
        workloads, families = zip(*wanted, strict=True)
        with self._makers.pool() as pool:
            return list(pool.map(make, workloads, families, self._spawned(len(wanted))))

    def _spawned(self, count: int) -> list[np.random.Generator]:
        with self._spawning:  # sets for confirmations are drawn by several lanes
            return self._rng.spawn(count)

    def _draft(self, workload: Workload, family: str, rng: np.random.Generator) -> Draft:
        inputs = self._reference.generate(workload, family, rng)
        return inputs, self._rows(inputs, workload, rng, ordinary=family == self._reference.families[0])

    def _draft_ahead(self, workload: Workload, family: str, rng: np.random.Generator) -> Draft:
        inputs, rows = self._draft(workload, family, rng)
        return self._kept(workload, family, inputs), rows

    def _make(self, workload: Workload, family: str, rng: np.random.Generator) -> CheckCase:
        drafted = self._drafts.pop((workload.name, family), None)
        inputs, rows = drafted or self._draft(workload, family, rng)
        oracle = self._reference.oracle(inputs, rows)
        scale = self._reference.scale(inputs, rows, oracle)
        if drafted is None:
            inputs = self._kept(workload, family, inputs)
        return CheckCase(family, inputs, rows, oracle, scale)

    def _rows(
        self, inputs: Mapping[str, Array], workload: Workload, rng: np.random.Generator, *, ordinary: bool
    ) -> Array | None:
        if (ordinary and self._whole_ordinary) or sum(a.size for a in inputs.values()) <= WHOLE_ELEMENTS:
            return None
        shapes = self._reference.output_shapes(workload).values()
        if len({shape[:1] for shape in shapes}) != 1 or () in shapes:
            return None
        return self._reference.sample_rows(workload, CHECKED_ROWS, rng)

    def _kept(self, workload: Workload, family: str, inputs: dict[str, Array]) -> dict[str, Array]:
        """The inputs as they are kept, in a set that keeps any."""
        if not self._keeps:
            return inputs
        return {name: self._keep(f"{workload.name}-{family}-{name}", array) for name, array in inputs.items()}

    def _keep(self, name: str, array: Array) -> Array:
        """The array as a read-only view of a file: the page cache may drop what is not in use."""
        if array.size == 0:
            return array
        path = self._folder / f"{name}.raw"  # np.load parses Python, which several threads of 3.11 cannot at once
        array.tofile(path)
        return np.memmap(path, array.dtype, "r", shape=array.shape)
