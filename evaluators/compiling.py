"""Judging GPU programs without a GPU: compiled for a real target, Triton's interpreted on small shapes, none timed."""

from __future__ import annotations

from evaluators.build import Builds, lint
from evaluators.errors import JudgeError
from evaluators.evaluation import Duel, Environment, Evaluation, Stage, Status, Untimed
from evaluators.failure import CandidateFailure, our_failure
from evaluators.interpreter import Interpreter
from evaluators.report import Subject, checked_workloads, failed_evaluation
from evaluators.source import source_hash
from evaluators.task import Language, Task
from evaluators.trail import Trail

NO_GPU = "no GPU on this machine"
NOT_RUN = "compiled for its target, not run"
INTERPRETED = "compiled for its target, right on small shapes in the interpreter, not timed"


class CompilingJudge:
    """Lints, builds and interprets. What compiles and is not found wrong passes without a score: for no archive."""

    def __init__(
        self,
        task: Task,
        builds: Builds,
        environment: Environment,
        interpreter: Interpreter | None = None,
        why: str = NO_GPU,
    ) -> None:
        self._task, self._builds, self._environment = task, builds, environment
        self._interpreter, self._why = interpreter, why
        self._seed = (task.folder / task.seed_program).read_text(encoding="utf-8")

    def calibrate(self) -> None:
        """Nothing is timed."""

    def evaluate(self, source: str, language: Language) -> Evaluation:
        """Compile it, report what its kernels use, and look whether they are right where they can be interpreted."""
        trail = Trail()
        reason = NOT_RUN
        try:
            flags = lint(self._task, source, language, self._seed)
            trail.enter(Stage.BUILD)
            with trail.building():
                program = self._builds.build(self._task, source, language, flags)
            if language == "triton" and self._interpreter is not None:
                unclear = self._interpreter.check(program, trail)
                reason = f"{NOT_RUN}: {unclear}" if unclear else INTERPRETED
        except CandidateFailure as failure:
            return failed_evaluation(Subject(self._task, self._environment, source), trail, failure)
        except JudgeError as error:
            return failed_evaluation(Subject(self._task, self._environment, source), trail, our_failure(error))
        return Evaluation(
            status=Status.PASSED,
            stage=trail.stage,
            task_hash=self._task.hash,
            source_hash=source_hash(source),
            inputs_hash=self._task.inputs_hash,
            message=f"{self._why}: {reason}",
            measures=program.measures,
            workloads=checked_workloads(self._task, trail),
            timing=Untimed(reason=f"{self._why}: {reason}"),
            environment=self._environment,
            cost=trail.cost(),
            artifacts=program.artifacts,
        )

    def confirm(self, source: str, language: Language, *, every_baseline: bool = False) -> Evaluation:
        """The same again: nothing can be confirmed here."""
        del every_baseline
        return self.evaluate(source, language)

    def duel(self, challenger: tuple[str, Language], occupant: tuple[str, Language]) -> Duel:
        """Impossible.

        Raises:
            JudgeError: always; what has no score is never placed.
        """
        raise JudgeError("there are no duels without a GPU")

    def profile(self, source: str, language: Language) -> None:
        """There is nothing to run it on."""

    def close(self) -> None:
        """Nothing is held."""
