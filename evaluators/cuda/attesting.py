"""The attestation stage on a GPU: rounds of the ordinary process, counted from outside, and of a recorded one.

A program can tell that it is recorded, for the recorder is in its process; it cannot tell that the device's counters
are read. So the one says what ran, and the other that the same ran where times were taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from evaluators.build import BuiltProgram
from evaluators.calibration import Bench, WorkloadCalibration, baseline_side
from evaluators.cascade import Case, candidate_side
from evaluators.cuda.arena import CudaArena
from evaluators.cuda.attestation import Seen, Watched, adds_up, attest_workload
from evaluators.cuda.cupti import CuptiUnavailable
from evaluators.cuda.recording import Activity, DamagedRecord, Recorder, Recording, build_recorder
from evaluators.cuda.session import CudaSession
from evaluators.cuda.watcher import BLOCKS, DISPATCHES, READ_BYTES, WRITTEN_BYTES, Watcher
from evaluators.empty import empty_source
from evaluators.errors import JudgeError
from evaluators.evaluation import Attestation, Stage, Status
from evaluators.failure import CandidateFailure
from evaluators.rounds import Side, one_round
from evaluators.scratch import fresh_folder

WATCHED_ROUNDS = 2
"""Of each order."""
IDLE_LOOKS, MOST_IDLE_GRIDS = 2, 0
"""While nothing of ours runs, the device begins no grid; else somebody else uses it."""
EAGER_ROUNDS = 3
_FUNCTION = re.compile(r"^ *Function (\S+):", re.MULTILINE)


@dataclass
class Attestor:
    """Attests programs of one task on one device; what it lacks here it says in every attestation."""

    library: Path | None
    """The recorder, built; ``None`` where there is none."""
    missing: str = ""
    tried: bool = False
    watcher: Watcher | None = None
    controlled: set[str] = field(default_factory=set)
    """Workloads on which the counters were seen to add up."""

    @classmethod
    def make(cls, scratch: Path) -> Attestor:
        """Build the recorder, where that can be done."""
        try:
            return cls(build_recorder(fresh_folder(scratch)))
        except CuptiUnavailable as error:
            return cls(None, str(error))

    def try_out(self, bench: Bench, arena: CudaArena) -> None:
        """Once: record a program of our own that does nothing. What fails with it is not a candidate's doing."""
        if self.tried or self.library is None:
            return
        self.tried = True
        program = bench.builds.build(bench.task, empty_source("torch", bench.task.entry), "torch", ())
        try:
            with self._recording() as recorder:
                arena.open_recorded(program, recorder).close()
                recorder.recording.read()
        except (CandidateFailure, DamagedRecord) as error:
            words = error.message if isinstance(error, CandidateFailure) else str(error)
            self.library, self.missing = None, f"the recorder of kernels does not work in the sandbox: {words}"

    def attest(
        self, bench: Bench, arena: CudaArena, case: Case, calibrations: Mapping[str, WorkloadCalibration]
    ) -> Attestation:
        """Look at the rounds of the workloads of these calibrations.

        Raises:
            CandidateFailure: they are not what they seem.
        """
        case.trail.enter(Stage.ATTESTATION)
        self.try_out(bench, arena)
        if self.library is None:
            return Attestation(missing=self.missing)
        chosen = list(calibrations.values())
        watched, missing = self._watch(bench, arena, case, chosen)
        # After the watched rounds: many calls outside of a recording would tell a program that it is attested.
        eager = {c.plan.workload.name: _eager(bench, arena, case, c) for c in chosen}
        recorded = self._record(bench, arena, case, chosen)
        declared = declared_kernels(case.program)
        found = [
            attest_workload(
                Seen(name, len(rounds[0]), tuple(rounds[1]), _call_us(case, name), watched.get(name, ())),
                declared,
                libraries_allowed=bench.task.libraries,
            ).model_copy(update=eager[name])
            for name, rounds in recorded.items()
        ]
        return Attestation(workloads=tuple(found), watched=not missing, missing=missing)

    def _record(
        self, bench: Bench, arena: CudaArena, case: Case, calibrations: list[WorkloadCalibration]
    ) -> dict[str, tuple[list[int], list[list[Activity]]]]:
        """Every order of every workload once, in a process of its own: the calls of a round, what each order ran."""
        found = {}
        with self._recording() as recorder:
            session = arena.open_recorded(case.program, recorder)
            session.bounded = True
            again = Case(case.program, session, case.checker, case.trail)
            try:
                for calibration in calibrations:
                    side = candidate_side(bench, again, calibration)
                    orders = [list(order) for order in calibration.plan.layout.sequences]
                    rounds = [_recorded_round(arena, side, calibration, order, recorder.recording) for order in orders]
                    found[calibration.plan.workload.name] = orders[0], rounds
            except CandidateFailure as failure:
                failure.detail = failure.detail or session.log()
                raise
            finally:
                session.close()
        return found

    def _watch(
        self, bench: Bench, arena: CudaArena, case: Case, calibrations: list[WorkloadCalibration]
    ) -> tuple[dict[str, tuple[tuple[Watched, ...], ...]], str]:
        """More rounds of the process in which times were taken, with the counters read; or why not."""
        try:
            self.watcher = self.watcher or Watcher()
            with self.watcher.reserved():
                if max(_counted(self.watcher).dispatches for _ in range(IDLE_LOOKS)) > MOST_IDLE_GRIDS:
                    return {}, "others use this device: its counters count them too"
                for calibration in calibrations:
                    wrong = self._control(bench, arena, calibration, self.watcher)
                    if wrong:
                        return {}, wrong
                return {
                    c.plan.workload.name: _watched_orders(bench, arena, case, c, self.watcher) for c in calibrations
                }, ""
        except CuptiUnavailable as error:
            case.session.stop()
            self.close()
            return {}, f"the device's counters cannot be read: {error}"
        except (CandidateFailure, JudgeError):
            self.close()
            raise

    def _control(self, bench: Bench, arena: CudaArena, calibration: WorkloadCalibration, watcher: Watcher) -> str:
        """Once for each workload: what of a baseline's round does not add up, for then nothing can be concluded."""
        name, plan = calibration.strongest, calibration.plan
        if name is None or plan.workload.name in self.controlled:
            return ""
        try:
            side = baseline_side(bench, arena, calibration, name)
            found = _watched_round(arena, side, calibration, watcher, plan.layout.sequences[0]).dispatches
        except CandidateFailure as failure:
            arena.discard(name)
            raise JudgeError(f"baseline {name} failed on {plan.workload.name}: {failure.message}") from failure
        if not adds_up(found, plan.calls):
            return f"the counters do not add up: {found} grids in a round of {plan.calls} calls of baseline {name}"
        self.controlled.add(plan.workload.name)
        return ""

    def close(self) -> None:
        """End the process that reads the counters."""
        if self.watcher is not None:
            self.watcher.close()
            self.watcher = None

    @contextmanager
    def _recording(self) -> Iterator[Recorder]:
        assert self.library is not None
        recording = Recording()
        try:
            yield Recorder(self.library, recording)
        finally:
            recording.close()


def declared_kernels(program: BuiltProgram) -> frozenset[str] | None:
    """Names of the kernels that the builder left; ``None`` where it did not say."""
    if program.artifact is not None and program.artifact.is_dir():
        return frozenset(path.stem for path in program.artifact.rglob("*.cubin"))
    text = next((artifact.text for artifact in program.artifacts if artifact.name == "resources.txt"), "")
    return frozenset(_FUNCTION.findall(text)) or None


def _recorded_round(
    arena: CudaArena, side: Side, calibration: WorkloadCalibration, order: list[int], recording: Recording
) -> list[Activity]:
    arena.fill(side.session, calibration.content, order)  # type: ignore[arg-type]
    recording.clear()
    one_round(side, calibration.plan, order, arena.rng)
    try:
        return recording.read()
    except DamagedRecord as damage:
        words = f"{calibration.plan.workload.name}: the record of its kernels is damaged: {damage}"
        raise CandidateFailure(Status.CHEATING, words) from None


def _watched_orders(
    bench: Bench, arena: CudaArena, case: Case, calibration: WorkloadCalibration, watcher: Watcher
) -> tuple[tuple[Watched, ...], ...]:
    """Every order of a workload, several times."""
    side = candidate_side(bench, case, calibration)
    return tuple(
        tuple(_watched_round(arena, side, calibration, watcher, order) for _ in range(WATCHED_ROUNDS))
        for order in calibration.plan.layout.sequences
    )


def _watched_round(
    arena: CudaArena, side: Side, calibration: WorkloadCalibration, watcher: Watcher, order: Sequence[int]
) -> Watched:
    """An ordinary round, checked as any, that is counted and not timed."""
    session = side.session
    assert isinstance(session, CudaSession)
    seen: list[Watched] = []

    @contextmanager
    def counted() -> Iterator[None]:
        watcher.start()
        yield
        seen.append(_watched(watcher))

    arena.fill(session, calibration.content, list(order))  # type: ignore[arg-type]
    session.around = counted
    try:
        one_round(side, calibration.plan, list(order), arena.rng)
    finally:
        session.around = nullcontext
    return seen[0]


def _eager(bench: Bench, arena: CudaArena, case: Case, calibration: WorkloadCalibration) -> dict[str, float | bool]:
    """What a call takes that is launched from the host, and whether rounds are recorded, of an ordinary process."""
    side = candidate_side(bench, case, calibration)
    assert isinstance(side.session, CudaSession)
    plan, times = calibration.plan, []
    for _ in range(EAGER_ROUNDS):
        slots = [int(slot) for slot in arena.rng.permutation(plan.layout.slots)[: plan.calls]]
        arena.fill(side.session, calibration.content, slots)  # type: ignore[arg-type]
        times.append(one_round(side, plan, slots, arena.rng))
    return {"eager_us": median(times), "captured": side.session.captured}


def _counted(watcher: Watcher) -> Watched:
    watcher.start()
    return _watched(watcher)


def _watched(watcher: Watcher) -> Watched:
    counted = watcher.stop()
    totals, series = counted.totals, counted.series
    return Watched(round(totals[DISPATCHES]), round(totals[BLOCKS]), totals[READ_BYTES], totals[WRITTEN_BYTES], series)


def _call_us(case: Case, workload: str) -> float | None:
    times = [us for by_baseline in case.times.get(workload, {}).values() for us in by_baseline.ours]
    return median(times) if times else None
