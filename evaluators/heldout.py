"""Held-out workloads: checked and timed when a program is confirmed, against the contenders among the baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from evaluators.arena import Arena
from evaluators.build import BuiltProgram
from evaluators.calibration import Bench, WorkloadCalibration, calibrate
from evaluators.cascade import Block, Case, correctness, timed_rounds
from evaluators.check_set import CheckSet
from evaluators.confidence import least_rounds
from evaluators.evaluation import Stage
from evaluators.scoring import ALPHA
from evaluators.task import Workload
from evaluators.trail import Trail

ROUNDS = least_rounds(ALPHA)
OpenCase = Callable[[Arena, BuiltProgram, Trail], AbstractContextManager[Case]]
"""A new process of a program, on the inputs of an arena."""


class HeldoutRounds:
    """What a judge knows of its held-out workloads, and where it times them."""

    def __init__(
        self,
        bench: Bench,
        workloads: Sequence[Workload],
        make_arena: Callable[[Sequence[Workload]], Arena],
        *,
        keeps: bool,
    ) -> None:
        """Nothing is measured yet.

        Args:
            bench: the task and what its candidates share.
            workloads: the held-out ones.
            make_arena: buffers for some workloads.
            keeps: whether the arena is kept for the next confirmation: what lies in it may take long to make.
        """
        self.workloads = workloads
        self._bench, self._make_arena, self._keeps = bench, make_arena, keeps
        self._kept: Arena | None = None
        self._known: dict[str, WorkloadCalibration] = {}

    def measure(
        self, case: Case, checks: CheckSet, contenders: Sequence[str], open_case: OpenCase
    ) -> dict[str, WorkloadCalibration]:
        """Check and time a program on every one of them, each in a new process; its times are added to ``case``.

        Args:
            case: the program.
            checks: what it is checked on.
            contenders: the baselines it is compared with.
            open_case: starts it.
        """
        if not self.workloads:
            return {}
        bench = replace(self._bench, baselines={name: self._bench.baselines[name] for name in contenders})
        with self._arena() as arena:
            return {w.name: self._measure(bench, arena, case, w, checks, open_case) for w in self.workloads}

    def close(self) -> None:
        """Give back what is kept."""
        if self._kept is not None:
            self._kept.close()

    @contextmanager
    def _arena(self) -> Iterator[Arena]:
        if not self._keeps:
            with self._make_arena(self.workloads) as arena:
                yield arena
            return
        if self._kept is None:
            self._kept = self._make_arena(self.workloads)
        yield self._kept

    def _measure(
        self,
        bench: Bench,
        arena: Arena,
        case: Case,
        workload: Workload,
        checks: CheckSet,
        open_case: OpenCase,
    ) -> WorkloadCalibration:
        calibration = self._calibration(bench, arena, workload)
        with open_case(arena, case.program, case.trail) as again:
            correctness(bench, arena, again, [workload], checks)
            case.trail.enter(Stage.CONFIRMATION)
            if calibration.strongest is not None:
                timed_rounds(bench, arena, again, calibration, calibration.strongest, Block(ROUNDS))
            case.times.update(again.times)
            case.prepare_ms.update(again.prepare_ms)
        return calibration

    def _calibration(self, bench: Bench, arena: Arena, workload: Workload) -> WorkloadCalibration:
        known: Mapping[str, WorkloadCalibration] = self._known
        if workload.name not in known:
            made = calibrate(bench, arena, workload, bench.task.languages, rough=True)
            self._known[workload.name] = made
            return made
        if arena is self._kept:
            return known[workload.name]
        return replace(known[workload.name], content=arena.content(bench.reference, workload))
