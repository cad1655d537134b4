"""The ``kernel`` evaluator: buffers in, buffers out, scored by time against the strongest baseline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial

from evaluators.arena import Arena
from evaluators.build import BuiltProgram, lint
from evaluators.calibration import Bench, WorkloadCalibration, calibrate_all
from evaluators.cascade import Case, correctness, paced_alone, smoke
from evaluators.check_set import CheckSet
from evaluators.checker import Checker
from evaluators.device_account import in_use
from evaluators.device_lock import DeviceLock
from evaluators.duel import StartPair, failed_duel, play_blocks, run_duel
from evaluators.errors import JudgeError
from evaluators.evaluation import Duel, Environment, Evaluation, Stage, Status
from evaluators.failure import CHALLENGER, OCCUPANT, CandidateFailure, our_failure
from evaluators.heldout import HeldoutRounds
from evaluators.looks import Looks
from evaluators.pace import SeenPaces
from evaluators.plan import layout_of
from evaluators.platform import Platform
from evaluators.profile import Profile
from evaluators.profiling import no_profile, profile_case, workload_to_profile
from evaluators.report import Subject, doubt_of, failed_evaluation, passed_evaluation
from evaluators.rounds import PairedTimes
from evaluators.scoring import normalised_weights
from evaluators.surprise import Reserve
from evaluators.task import Language, Workload
from evaluators.trail import Trail

PATIENCE_S = (2.0, 10.0)
"""A new best is worth waiting for others to leave the machine: a confirmation they disturb is made again."""


class KernelJudge:
    """Judges the candidates of one time-scored task on one device."""

    def __init__(self, bench: Bench, platform: Platform, device: DeviceLock, environment: Environment) -> None:
        self.bench = bench
        self._task = bench.task
        self._platform = platform
        self._device = device
        self._environment = environment
        self._seed = (self._task.folder / self._task.seed_program).read_text(encoding="utf-8")
        self._weights = normalised_weights(self._task.search_workloads())
        self.arena = self._make_arena(self._task.search_workloads(), also=self._edge())
        self._best_score = 0.0
        self._attested: set[str] = set()
        self._seen_us = SeenPaces()
        heldout = tuple(w for w in self._task.workloads if w.split == "heldout")
        self._heldout = HeldoutRounds(bench, heldout, self._make_arena, keeps=platform.makes_ahead)
        self.calibrations: dict[str, WorkloadCalibration] = {}

    def calibrate(self) -> None:
        """Measure the baselines on the search workloads. Raises ``TaskError`` where one fails."""
        with self._device.held():
            self.bench.checks.make((*self._edge(), *self._task.search_workloads()))
            if self._platform.makes_ahead:
                self.bench.surprises.make(self._task.search_workloads())
            workloads = self._task.search_workloads()
            self.calibrations = calibrate_all(self.bench, self.arena, workloads, self._task.languages)

    def evaluate(self, source: str, language: Language) -> Evaluation:
        """The cascade: lint, build, smoke, correctness, rounds against the strongest baseline of each workload."""

        def stages(trail: Trail, program: BuiltProgram) -> Evaluation:
            with self._case(self.arena, program, trail) as case:
                smoke(self.bench, self.arena, case)
                workloads = (*self._edge(), *self._task.search_workloads())
                correctness(self.bench, self.arena, case, workloads, self.bench.checks)
                trail.enter(Stage.ROUNDS)
                speedup = self._looks().speedup(case, self._best_score)
                if speedup is not None and speedup.estimate > self._best_score:
                    self._attest(case)
                subject = self._subject(source)
                evaluation = passed_evaluation(subject, case, self.calibrations, speedup, confirmed=False)
            doubt = doubt_of(evaluation)
            if doubt:
                self._explain(trail, program, doubt)
            if evaluation.score is not None:  # of a program that nothing was found against
                self._best_score = max(self._best_score, evaluation.score)
            return evaluation

        return self._judged(source, language, stages)

    def confirm(self, source: str, language: Language, *, every_baseline: bool = False) -> Evaluation:
        """A new process, new keys, a fixed number of rounds, whole outputs, held-out workloads too.

        Args:
            source: the program.
            language: its language.
            every_baseline: pair it with every baseline on the search workloads, not only with the contenders.
        """
        drawn: list[tuple[CheckSet, Reserve | None]] = []
        workloads = (*self._edge(), *self._task.search_workloads())

        def draw() -> None:
            checks, surprises = self.bench.checks, self.bench.surprises
            self._platform.get_ready(self.bench)
            if not self._platform.makes_ahead:
                drawn.append((checks.fresh(), None))
                return
            surprises.draft(self._heldout.workloads)
            reserve = surprises.reserve(self._looks().fixed_rounds(every_baseline=every_baseline))
            drawn.append((checks.drawn((*workloads, *self._heldout.workloads)), reserve))

        def stages(trail: Trail, program: BuiltProgram) -> Evaluation:
            fresh, reserve = drawn.pop()
            with closing(self._platform.inspect(self.bench, program)) as inspection:
                with self._case(self.arena, program, trail) as case:
                    case.checker.supply(reserve)
                    smoke(self.bench, self.arena, case)
                    correctness(self.bench, self.arena, case, workloads, fresh)
                    trail.enter(Stage.CONFIRMATION)
                    speedup = self._looks().fixed(case, every_baseline=every_baseline)
                    self._attest(case)
                    inspection.memory()
                calibrations = dict(self.calibrations)
                contenders = sorted({name for c in self.calibrations.values() for name in c.contenders})
                calibrations |= self._heldout.measure(case, fresh, contenders, self._case)
                inspection.races(case)
            return passed_evaluation(self._subject(source), case, calibrations, speedup, confirmed=True)

        return self._judged(source, language, stages, PATIENCE_S, draw)

    def duel(self, challenger: tuple[str, Language], occupant: tuple[str, Language]) -> Duel:
        """Compare two programs that passed, paired and interleaved."""
        trail = Trail()
        try:
            with self.rivals(trail, challenger, occupant) as start:
                times: dict[str, PairedTimes] = {}

                def attest(winner: Case) -> None:
                    if winner.program.source_hash not in self._attested:
                        winner.fought = times
                        self._attest(winner)

                duel = run_duel(self.bench, self.arena, self.calibrations, start, trail, times, won=attest)
                return duel.model_copy(update={"cost": trail.cost()})
        except CandidateFailure as failure:
            return failed_duel(self._looked_at(failure), trail)
        except JudgeError as error:
            return failed_duel(our_failure(error), trail)

    def profile(self, source: str, language: Language) -> Profile:
        """Where the time of a program goes that passed, in a process of its own. No verdict depends on it."""
        trail = Trail()
        workload = workload_to_profile(self._task)
        device_class = self._environment.device_class
        try:
            program = self._build(trail, source, language, observed=True)
            with self._on_device(trail), self._case(self.arena, program, trail) as case:
                trail.enter(Stage.PROFILE)
                calibration = paced_alone(self.bench, self.arena, self.calibrations[workload.name], case)
                samples = self._platform.can_sample
                found = profile_case(self.bench, self.arena, case, calibration, device_class, samples=samples)
                found = self._platform.observe(found, self.bench, self.arena, case, calibration)
        except (CandidateFailure, JudgeError) as failure:
            found = no_profile(device_class, workload.name, f"it failed: {getattr(failure, 'message', failure)}")
        return found.model_copy(update={"cost": trail.cost(), "sandbox": self._environment.sandbox})

    def series(
        self, challenger: tuple[str, Language], occupant: tuple[str, Language], rounds: int
    ) -> dict[str, PairedTimes]:
        """A duel that nobody ends before its time, as raw times by workload: for studies of the rule that ends duels.

        Raises:
            CandidateFailure: one of the two failed.
        """
        times = {name: PairedTimes() for name in self._weights}
        with self.rivals(Trail(), challenger, occupant) as start:
            play_blocks(self.bench, self.arena, self.calibrations, start, times, lambda done, _: done >= rounds)
        return times

    def close(self) -> None:
        """End the baselines' runners and give the device's lock back."""
        self._heldout.close()
        self.arena.close()
        self._device.close()

    def _judged(
        self,
        source: str,
        language: Language,
        stages: Callable[[Trail, BuiltProgram], Evaluation],
        patience_s: Sequence[float] = (),
        ahead: Callable[[], None] = lambda: None,
    ) -> Evaluation:
        """Go through the stages, and again after each of these waits while others disturb the measurement.

        ``ahead`` is called before, each time, while the device may be somebody else's.
        """
        trail = Trail()
        try:
            program = self._build(trail, source, language, first=bool(patience_s))
            ahead()
            with self._on_device(trail, first=bool(patience_s)):
                evaluation = stages(trail, program)
            for wait_s in patience_s:
                if not evaluation.noisy:
                    break
                time.sleep(wait_s)
                ahead()
                with self._on_device(trail):
                    evaluation = stages(trail, program)
        except CandidateFailure as failure:
            return failed_evaluation(self._subject(source), trail, self._looked_at(failure))
        except JudgeError as error:
            return failed_evaluation(self._subject(source), trail, our_failure(error))
        return evaluation.model_copy(update={"cost": trail.cost()})

    @contextmanager
    def _on_device(self, trail: Trail, *, first: bool = True) -> Iterator[None]:
        """The device, for what is placed before what is evaluated: the next programs are compared with it."""
        with self._device.held(first=first), in_use(self._device.watch), trail.on_device():
            yield

    def _build(
        self,
        trail: Trail,
        source: str,
        language: Language,
        whose: str = CHALLENGER,
        *,
        observed: bool = False,
        first: bool = True,
    ) -> BuiltProgram:
        try:
            flags = lint(self._task, source, language, self._seed)
            trail.enter(Stage.BUILD)
            with nullcontext() if self._platform.builds_apart else self._device.held(first=first):
                build = partial(self.bench.builds.build, observed=observed, book=trail.building)
                return build(self._task, source, language, flags)
        except CandidateFailure as failure:
            failure.whose = whose
            raise

    @contextmanager
    def _case(self, arena: Arena, program: BuiltProgram, trail: Trail, whose: str = CHALLENGER) -> Iterator[Case]:
        trail.enter(Stage.IMPORT)
        try:
            session = arena.open(program)
        except CandidateFailure as failure:
            failure.whose = whose
            raise
        session.bounded = True
        try:
            bench = self.bench
            checker = Checker(bench.reference, bench.lock, arena.rng, trail.errors, bench.surprises)
            yield Case(program, session, checker, trail, seen_us=self._seen_us.of(program.source_hash))
        except CandidateFailure as failure:
            if not failure.detail:
                failure.detail = session.log()
            raise
        finally:
            session.close()

    @contextmanager
    def rivals(
        self, trail: Trail, challenger: tuple[str, Language], occupant: tuple[str, Language]
    ) -> Iterator[StartPair]:
        """Both programs built, the device held: what starts their processes."""
        other = Trail()
        program = self._build(trail, *challenger)
        opponent = self._build(other, *occupant, whose=OCCUPANT)

        @contextmanager
        def start() -> Iterator[tuple[Case, Case]]:
            with (
                self._case(self.arena, program, trail) as ours,
                self._case(self.arena, opponent, other, whose=OCCUPANT) as theirs,
            ):
                yield ours, theirs

        with self._on_device(trail):
            yield start

    def _looks(self) -> Looks:
        return Looks(self.bench, self.arena, self.calibrations, self._weights)

    def _attest(self, case: Case) -> None:
        """Have a profiler look at the program's rounds; the book is kept by its source.

        Done to what would be the best that this judge has seen, to the winner of a duel and in a confirmation: below
        that a program gains nothing by a round that is not what it seems. Where something could not be looked at, it
        is tried again when the program wins a duel.
        """
        chosen = {name: self.calibrations[name] for name in self._weights}
        case.attestation = self._platform.attest(self.bench, self.arena, case, chosen)
        if case.attestation is None or not case.attestation.missing:
            self._attested.add(case.program.source_hash)

    def _looked_at(self, failure: CandidateFailure) -> CandidateFailure:
        """The failure with what the device says of it, or ours where it is the device that failed."""
        try:
            with self._device.held(first=True):  # before others add to what the device has to tell
                self._platform.after_failure(failure)
        except JudgeError as error:
            return our_failure(error)
        return failure

    def _explain(self, trail: Trail, program: BuiltProgram, doubt: str) -> None:
        """A second process with new keys, whole outputs compared and ceilings measured again must bear the time out."""
        trail.enter(Stage.CONFIRMATION)
        again = self._platform.measure_ceilings(self._task)
        self.bench.ceilings = self.bench.ceilings.better_of(again)
        with self._case(self.arena, program, trail) as case:
            trail.enter(Stage.CONFIRMATION)
            speedup = self._looks().whole(case)
            for workload in self._task.search_workloads():
                calibration = self.calibrations[workload.name]
                floor_us = self._floor_us(workload, cold=calibration.plan.cold)
                self.calibrations[workload.name] = replace(calibration, floor_us=floor_us)
            evaluation = passed_evaluation(
                self._subject(program.source), case, self.calibrations, speedup, confirmed=False
            )
        below = [w for w in evaluation.workloads if w.call_us and w.floor_us and w.call_us.estimate < w.floor_us]
        if below:
            raise CandidateFailure(Status.CHEATING, f"{doubt}; a second process with new keys did not explain it")

    def _floor_us(self, workload: Workload, *, cold: bool) -> float:
        reference = self.bench.reference
        return self.bench.ceilings.floor_us(
            reference.traffic_bytes(workload), reference.operations(workload), cold=cold
        )

    def _make_arena(self, workloads: Iterable[Workload], also: Sequence[Workload] = ()) -> Arena:
        layouts = [self._platform.plan(self._task, w).layout for w in workloads]
        layouts += [layout_of(self._task, w, 1) for w in also]
        return self._platform.arena(self._task, layouts)

    def _edge(self) -> tuple[Workload, ...]:
        return tuple(w for w in self._task.workloads if w.split == "edge")

    def _subject(self, source: str) -> Subject:
        return Subject(self._task, self._environment, source)
