"""Judging GPU programs on a machine without a GPU: they are compiled for a real target, and nothing more is claimed."""

from __future__ import annotations

from evaluators.build import Builds, lint
from evaluators.errors import JudgeError
from evaluators.evaluation import Duel, Environment, Evaluation, Stage, Status, Untimed
from evaluators.failure import CandidateFailure, our_failure
from evaluators.report import Subject, failed_evaluation
from evaluators.source import source_hash
from evaluators.task import Language, Task
from evaluators.trail import Trail

NO_GPU = Untimed(reason="no GPU on this machine: compiled for its target, not run")


class CompilingJudge:
    """Lints and builds. A program that compiles passes without a score: it can enter no archive."""

    def __init__(self, task: Task, builds: Builds, environment: Environment) -> None:
        self._task, self._builds, self._environment = task, builds, environment
        self._seed = (task.folder / task.seed_program).read_text(encoding="utf-8")

    def calibrate(self) -> None:
        """Nothing is timed."""

    def evaluate(self, source: str, language: Language) -> Evaluation:
        """Compile it and report what its kernels use."""
        trail = Trail()
        try:
            flags = lint(self._task, source, language, self._seed)
            trail.enter(Stage.BUILD)
            with trail.building():
                program = self._builds.build(self._task, source, language, flags)
        except CandidateFailure as failure:
            return failed_evaluation(Subject(self._task, self._environment, source), trail, failure)
        except JudgeError as error:
            return failed_evaluation(Subject(self._task, self._environment, source), trail, our_failure(error))
        return Evaluation(
            status=Status.PASSED,
            stage=Stage.BUILD,
            task_hash=self._task.hash,
            source_hash=source_hash(source),
            inputs_hash=self._task.inputs_hash,
            message=NO_GPU.reason,
            measures=program.measures,
            timing=NO_GPU,
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
