"""The attestation stage on a GPU: rounds of the ordinary process, counted from outside, and of a recorded one.

A program can tell that it is recorded, for the recorder is in its process; it cannot tell that the device's counters
are read. So the one says what ran, and the other that the same ran where times were taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from evaluators.build import BuiltProgram
from evaluators.calibration import Bench, WorkloadCalibration, baseline_side
from evaluators.cascade import Case, candidate_side, paced_alone, warm_up
from evaluators.cuda.arena import CudaArena
from evaluators.cuda.attestation import Seen, Watched, adds_up, attest_workload, not_as_timed, stalls
from evaluators.cuda.cupti import CuptiUnavailable
from evaluators.cuda.recording import Activity, DamagedRecord, FullRecord, Recorder, Recording, build_recorder
from evaluators.cuda.session import CudaSession
from evaluators.cuda.watcher import BLOCKS, DISPATCHES, READ_BYTES, WRITTEN_BYTES, Watcher
from evaluators.empty import empty_source
from evaluators.errors import JudgeError
from evaluators.evaluation import Attestation, Stage, Status
from evaluators.failure import CandidateFailure
from evaluators.rounds import Side, draw_slots, one_round
from evaluators.scratch import fresh_folder

WATCHED_ROUNDS, WATCHED_TRIES = 2, 2
"""Of each order; and of each of these rounds, where the counters overflow because the program was held up."""
TIMED_ROUNDS = 3
"""Of a process that has not been timed, before it is watched."""
IDLE_LOOKS, MOST_IDLE_GRIDS = 2, 0
"""While nothing of ours runs, the device begins no grid; else somebody else uses it."""
OTHERS = "others use this device: its counters count them too"
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
    controlled: set[tuple[str, int]] = field(default_factory=set)
    """Workloads and calls of a round on which the counters were seen to add up."""

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
        except (CandidateFailure, DamagedRecord, JudgeError) as error:
            words = error.message if isinstance(error, CandidateFailure) else str(error)
            self.library, self.missing = None, f"the recorder of kernels does not work in the sandbox: {words}"

    def attest(
        self, bench: Bench, arena: CudaArena, case: Case, calibrations: Mapping[str, WorkloadCalibration]
    ) -> Attestation:
        """Look at the rounds of the workloads of these calibrations: at those in which the program was timed.

        Raises:
            CandidateFailure: they are not what they seem.
        """
        case.trail.enter(Stage.ATTESTATION)
        self.try_out(bench, arena)
        if self.library is None:
            return Attestation(missing=self.missing)
        chosen = [_as_timed(bench, arena, case, c) for c in calibrations.values()]
        call_us = {c.plan.workload.name: _call_us(bench, arena, case, c) for c in chosen}
        watched, missing = self._watch(bench, arena, case, (list(calibrations.values()), chosen), call_us)
        # After the watched rounds: many calls outside of a recording would tell a program that it is attested.
        eager = {c.plan.workload.name: _eager(bench, arena, case, c) for c in chosen}
        recorded = self._record(bench, arena, case, chosen)
        declared = declared_kernels(case.program)
        seen = [
            Seen(name, len(order), tuple(rounds), call_us[name], watched.get(name, ()))
            for name, (order, rounds) in recorded.items()
        ]
        allowed = bench.task.libraries
        found = [attest_workload(one, declared, libraries_allowed=allowed) for one in seen]
        whole = tuple(one.model_copy(update=eager[one.workload]) for one in found)
        missing = missing or next(filter(None, map(not_as_timed, seen)), "")
        return Attestation(workloads=whole, watched=not missing, missing=missing)

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
        self,
        bench: Bench,
        arena: CudaArena,
        case: Case,
        calibrations: tuple[list[WorkloadCalibration], list[WorkloadCalibration]],
        call_us: Mapping[str, float],
    ) -> tuple[dict[str, tuple[tuple[Watched, ...], ...]], str]:
        """More rounds of the process in which times were taken, with the counters read; or why not.

        By the first of the calibrations a baseline shows whether counters add up; by the others the program is watched.
        """
        planned, timed = calibrations
        try:
            self.watcher = self.watcher or Watcher()
            with self.watcher.reserved():
                if not _idle(self.watcher):
                    return {}, OTHERS
                for calibration in planned:
                    wrong = self._control(bench, arena, calibration, self.watcher)
                    if wrong:
                        return {}, wrong
                found = {}
                for calibration in timed:
                    name = calibration.plan.workload.name
                    side = candidate_side(bench, case, calibration)
                    found[name] = _watched_orders(arena, side, calibration, self.watcher, call_us[name])
                return found, ""
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
        if name is None or (plan.workload.name, plan.calls) in self.controlled:
            return ""
        try:
            side = baseline_side(bench, arena, calibration, name)
            _, seen = _watched_round(arena, side, calibration, watcher, plan.layout.sequences[0])
        except CandidateFailure as failure:
            arena.discard(name)
            raise JudgeError(f"baseline {name} failed on {plan.workload.name}: {failure.message}") from failure
        if isinstance(seen, CuptiUnavailable):
            raise seen
        found = seen.dispatches
        if not adds_up(found, plan.calls):
            return f"the counters do not add up: {found} grids in a round of {plan.calls} calls of baseline {name}"
        self.controlled.add((plan.workload.name, plan.calls))
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
    """Names of the kernels that were built, read from their code; ``None`` where nothing here can read it."""
    text = next((artifact.text for artifact in program.artifacts if artifact.name == "resources.txt"), None)
    return None if text is None else frozenset(_FUNCTION.findall(text))


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
    except FullRecord as full:
        raise CandidateFailure(Status.RUNTIME_ERROR, f"{calibration.plan.workload.name}: {full}") from None


def _watched_orders(
    arena: CudaArena, side: Side, calibration: WorkloadCalibration, watcher: Watcher, call_us: float
) -> tuple[tuple[Watched, ...], ...]:
    return tuple(
        tuple(_steady_round(arena, side, calibration, watcher, order, call_us) for _ in range(WATCHED_ROUNDS))
        for order in calibration.plan.layout.sequences
    )


def _steady_round(
    arena: CudaArena,
    side: Side,
    calibration: WorkloadCalibration,
    watcher: Watcher,
    order: Sequence[int],
    call_us: float,
) -> Watched:
    """A watched round; of a program that is held up again and again until the counters overflow there is none.

    Raises:
        CuptiUnavailable: the counters cannot be read, and not because of the program.
        CandidateFailure: the program is held up in every round that is watched, and nobody else uses the device.
        JudgeError: it was held up once, and then the counters could not be read.
    """
    took_us = 0.0
    for attempt in range(WATCHED_TRIES):
        try:
            took_us, seen = _watched_round(arena, side, calibration, watcher, order)
        except CuptiUnavailable as why:
            took_us, seen = 0.0, why
        if isinstance(seen, Watched):
            return replace(seen, call_us=took_us)
        if not stalls(took_us, call_us):
            if attempt:
                raise JudgeError(f"the counters cannot be read after a round that was held up: {seen}")
            raise seen
        _look_for_others(watcher)
    words = f"its calls take {took_us:.4g} us where they are counted, {call_us:.4g} us where they are timed"
    raise CandidateFailure(Status.CHEATING, f"{calibration.plan.workload.name}: {words}")


def _watched_round(
    arena: CudaArena, side: Side, calibration: WorkloadCalibration, watcher: Watcher, order: Sequence[int]
) -> tuple[float, Watched | CuptiUnavailable]:
    """An ordinary round, checked as any: what a call took, and what was counted meanwhile, or why nothing was."""
    session = side.session
    assert isinstance(session, CudaSession)
    seen: list[Watched | CuptiUnavailable] = []

    @contextmanager
    def counted() -> Iterator[None]:
        watcher.start()
        yield
        try:
            seen.append(_watched(watcher))
        except CuptiUnavailable as why:
            seen.append(why)

    arena.fill(session, calibration.content, list(order))  # type: ignore[arg-type]
    session.around = counted
    try:
        took_us = one_round(side, calibration.plan, list(order), arena.rng)
    finally:
        session.around = nullcontext
    return took_us, seen[0]


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


def _as_timed(bench: Bench, arena: CudaArena, case: Case, calibration: WorkloadCalibration) -> WorkloadCalibration:
    """The rounds in which a program was timed: brief ones only where it was in no others, whatever it seems now."""
    name = calibration.plan.workload.name
    times = [*case.times.get(name, {}).values(), *([case.fought[name]] if name in case.fought else ())]
    if not times or any(series.planned for series in times):
        return calibration
    return paced_alone(bench, arena, calibration, case)


def _idle(watcher: Watcher) -> bool:
    """Whether nobody uses the device while no program of ours does."""
    return max(_counted(watcher).dispatches for _ in range(IDLE_LOOKS)) <= MOST_IDLE_GRIDS


def _look_for_others(watcher: Watcher) -> None:
    """After a round that was held up: raises ``CuptiUnavailable`` where others may have done it."""
    try:
        idle = _idle(watcher)
    except CuptiUnavailable as why:
        raise JudgeError(f"the counters cannot be read after a round that was held up: {why}") from None
    if not idle:
        raise CuptiUnavailable(OTHERS)


def _counted(watcher: Watcher) -> Watched:
    watcher.start()
    return _watched(watcher)


def _watched(watcher: Watcher) -> Watched:
    counted = watcher.stop()
    totals, series = counted.totals, counted.series
    return Watched(round(totals[DISPATCHES]), round(totals[BLOCKS]), totals[READ_BYTES], totals[WRITTEN_BYTES], series)


def _call_us(bench: Bench, arena: CudaArena, case: Case, calibration: WorkloadCalibration) -> float:
    """What a call of this process takes: as it was timed, or else, as after a duel, in some rounds of its own."""
    known = [
        us for by_baseline in case.times.get(calibration.plan.workload.name, {}).values() for us in by_baseline.ours
    ]
    if known:
        return median(known)
    side = candidate_side(bench, case, calibration)
    warm_up(side, calibration, arena)
    times = []
    for _ in range(TIMED_ROUNDS):
        slots = draw_slots(calibration.plan, arena.rng)
        arena.fill(side.session, calibration.content, slots)  # type: ignore[arg-type]
        times.append(one_round(side, calibration.plan, slots, arena.rng))
    return median(times)
