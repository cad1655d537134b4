"""Whether what a runner left in its buffers is right: the judge's outputs against the judge's oracle."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from evaluators.check_set import CheckCase
from evaluators.compare import Comparison, compare_outputs
from evaluators.dtypes import Array
from evaluators.evaluation import ErrorMeasure, Status
from evaluators.failure import CandidateFailure
from evaluators.reference import Reference
from evaluators.session import Session
from evaluators.surprise import ProcessSurprises, Surprise, Surprises
from evaluators.task import DType, Workload
from evaluators.tolerance import ToleranceLock

SAMPLED_ROWS = 32
"""Output rows compared in one call of a timed round, drawn after the runner has stopped."""
BLOCK_ELEMENTS, BLOCKS_AT_ONCE = 1 << 21, 4
"""Outputs that are compared whole are compared in blocks of so many elements, so many at once."""
SMALL_ROWS = 64
"""Outputs of at most this many rows are always compared whole."""


class Checker:
    """Compares outputs with the oracle and keeps the worst error by workload and family."""

    def __init__(
        self,
        reference: Reference,
        lock: ToleranceLock,
        rng: np.random.Generator,
        errors: dict[str, dict[str, ErrorMeasure]] | None = None,
        surprises: Surprises | None = None,
    ) -> None:
        self.surprises = None if surprises is None else ProcessSurprises(surprises, rng)
        """What else than ordinary inputs this process gets in its rounds."""
        self._reference = reference
        self._lock = lock
        self._rng = rng
        self._dtypes: dict[str, DType] = {a.name: a.dtype for a in reference.task.args if a.role != "in"}
        self.ordinary_family = reference.families[0]
        self.errors: dict[str, dict[str, ErrorMeasure]] = {} if errors is None else errors
        """Workload -> family -> worst error so far."""

    def check_surprise(self, session: Session, workload: Workload, surprise: Surprise) -> None:
        """Whether the calls that got it are right, and the same bit for bit where the task demands it."""
        for slot in surprise.slots:
            self.check_case(session, slot, workload, surprise.case)
        if self._reference.task.deterministic and len({tuple(session.digests(s).items()) for s in surprise.slots}) > 1:
            raise CandidateFailure(
                Status.NONDETERMINISTIC,
                f"{workload.name}, {surprise.case.family}: two calls with the same input differ in a timed round",
            )

    def check(
        self,
        session: Session,
        slot: int,
        workload: Workload,
        family: str,
        *,
        inputs: Mapping[str, Array] | None = None,
        whole: bool = False,
        rows: Array | None = None,
    ) -> None:
        """Compare one slot's outputs; raise the candidate's failure if they are wrong.

        Args:
            session: a stopped runner.
            slot: which call.
            workload: for its limits.
            family: for its limits.
            inputs: what ``in`` and ``inout`` arguments held before the call; default: what they hold now.
            whole: compare every row, not a sample.
            rows: compare these too, where a sample is compared.
        """
        arguments = session.arguments(slot)
        given = inputs if inputs is not None else arguments
        sample = None if whole else self._rows(arguments)
        rows = sample if sample is None or rows is None else np.union1d(sample, rows)
        if whole and self._in_blocks(session, slot, workload, family, given):
            return
        oracle = self._reference.oracle(given, rows)
        scale = self._reference.scale(given, rows, oracle)
        self.check_case(session, slot, workload, CheckCase(family, given, rows, oracle, scale))

    def check_case(self, session: Session, slot: int, workload: Workload, case: CheckCase) -> None:
        """Compare one slot's outputs with an oracle that is known already; raise the failure if they are wrong."""
        arguments, rows = session.arguments(slot), case.rows
        outputs = {name: arguments[name] if rows is None else arguments[name][rows] for name in self._dtypes}
        limits = self._lock.of(workload.name, case.family)
        comparison = compare_outputs(outputs, case.oracle, case.scale, limits, self._dtypes, rows=rows)
        self._conclude(session, slot, workload, case.family, comparison)

    def _in_blocks(
        self, session: Session, slot: int, workload: Workload, family: str, given: Mapping[str, Array]
    ) -> bool:
        """Compare every row of large outputs, a block of rows at a time and several at once; whether they are large."""
        arguments = session.arguments(slot)
        counts = {arguments[name].shape[:1] for name in self._dtypes}
        elements = sum(arguments[name].size for name in self._dtypes)
        if elements <= BLOCK_ELEMENTS or len(counts) != 1 or counts == {()}:
            return False
        ((count,),) = counts
        limits = self._lock.of(workload.name, family)
        pending: deque[Future[Comparison]] = deque()
        with ThreadPoolExecutor(BLOCKS_AT_ONCE) as pool:
            for rows in np.array_split(np.arange(count), min(-(-elements // BLOCK_ELEMENTS), count)):
                outputs = {name: arguments[name][rows] for name in self._dtypes}
                oracle = self._reference.oracle(given, rows)
                scale = self._reference.scale(given, rows, oracle)
                pending.append(pool.submit(compare_outputs, outputs, oracle, scale, limits, self._dtypes, rows=rows))
                if len(pending) > BLOCKS_AT_ONCE:
                    self._conclude(session, slot, workload, family, pending.popleft().result())
            while pending:
                self._conclude(session, slot, workload, family, pending.popleft().result())
        return True

    def _conclude(self, session: Session, slot: int, workload: Workload, family: str, comparison: Comparison) -> None:
        """Keep the errors; raise the failure where there is one."""
        self._record(workload.name, family, comparison.errors)
        if comparison.passed:
            return
        unwritten = session.guard.unwritten(slot)
        if unwritten is not None:
            raise CandidateFailure(
                Status.WRONG_VALUES, f"{workload.name}, {family}: output {unwritten} was never written"
            )
        raise CandidateFailure(comparison.status, f"{workload.name}, {family}: {comparison.message}")

    def _rows(self, arguments: Mapping[str, Array]) -> Array | None:
        counts = {len(arguments[name]) for name in self._dtypes if arguments[name].ndim > 0}
        if len(counts) != 1:
            return None
        (count,) = counts
        if count <= SMALL_ROWS:
            return None
        return np.unique(self._rng.integers(0, count, SAMPLED_ROWS))

    def _record(self, workload: str, family: str, measure: ErrorMeasure) -> None:
        families = self.errors.setdefault(workload, {})
        known = families.get(family)
        families[family] = measure if known is None else worse(known, measure)


def worse(a: ErrorMeasure, b: ErrorMeasure) -> ErrorMeasure:
    """The larger error of two, the elements of both."""
    return ErrorMeasure(
        max_ulp=_larger(a.max_ulp, b.max_ulp),
        rms_ulp=_larger(a.rms_ulp, b.rms_ulp),
        max_limit_ulp=min(a.max_limit_ulp, b.max_limit_ulp),
        rms_limit_ulp=min(a.rms_limit_ulp, b.rms_limit_ulp),
        elements=a.elements + b.elements,
    )


def _larger(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else max(a, b)
