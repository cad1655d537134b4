"""Judging value-scored tasks: a task's own evaluator function, run for one candidate after another."""

from __future__ import annotations

import importlib
import importlib.util
import math
import numbers
import queue
from collections.abc import Callable, Mapping
from types import ModuleType

from evaluators.build import Builds
from evaluators.context import Context
from evaluators.device_account import Watch, in_use, unwatched
from evaluators.errors import JudgeError, TaskError
from evaluators.evaluation import Duel, Environment, Evaluation, Stage, Status, Untimed
from evaluators.failure import CandidateFailure, our_failure
from evaluators.lane import Lane
from evaluators.report import Subject, failed_evaluation
from evaluators.task import Language, Task

EvaluatorFunction = Callable[[Context], Mapping[str, float]]
BY_VALUE = Untimed(reason="scored by value")


class ValueJudge:
    """Judges the candidates of one value-scored task; several at once, one in each lane."""

    def __init__(
        self, task: Task, builds: Builds, lanes: list[Lane], environment: Environment, watch: Watch = unwatched
    ) -> None:
        """``watch`` is told whose time it is."""
        self._task = task
        self._function = load_evaluator(task)
        self._builds = builds
        self._environment = environment
        self._lanes: queue.SimpleQueue[Lane] = queue.SimpleQueue()
        self._all = lanes
        self._watch = watch
        self._seed = (task.folder / task.seed_program).read_text(encoding="utf-8")
        for lane in lanes:
            self._lanes.put(lane)

    def calibrate(self) -> None:
        """Nothing is timed."""

    def evaluate(self, source: str, language: Language) -> Evaluation:
        """Run the task's evaluator on one source text."""
        return self._run(source, language, Stage.CORRECTNESS)

    def confirm(self, source: str, language: Language, *, every_baseline: bool = False) -> Evaluation:
        """Run it again in a new process with new randomness."""
        del every_baseline
        return self._run(source, language, Stage.CONFIRMATION)

    def duel(self, challenger: tuple[str, Language], occupant: tuple[str, Language]) -> Duel:
        """Value-scored tasks compare scores.

        Raises:
            JudgeError: always; the search must not ask.
        """
        raise JudgeError(f"task {self._task.name} is scored by value: there are no duels")

    def profile(self, source: str, language: Language) -> None:
        """Where its time goes is no concern of a task that is scored by value."""

    def close(self) -> None:
        """Give the lanes' buffers back."""
        for lane in self._all:
            lane.close()

    def _run(self, source: str, language: Language, stage: Stage) -> Evaluation:
        lane = self._lanes.get()
        context = Context(self._task, self._seed, self._builds, lane, (source, language))
        subject = Subject(self._task, self._environment, source)
        try:
            with in_use(self._watch), context.trail.on_device():
                measures = self._measures(context)
            return self._passed(subject, context, measures, stage)
        except CandidateFailure as failure:
            if not failure.detail:
                failure.detail = context.log()
            return failed_evaluation(subject, context.trail, failure)
        except JudgeError as error:
            return failed_evaluation(subject, context.trail, our_failure(error))
        finally:
            context.close()
            self._lanes.put(lane)

    def _measures(self, context: Context) -> dict[str, float]:
        """What the task's evaluator returns, checked.

        Raises:
            CandidateFailure: the candidate is no good.
            TaskError: the evaluator does not return measures.
            JudgeError: it raised something else.
        """
        place = f"{self._task.folder}: evaluator {self._task.evaluator}"
        try:
            returned = self._function(context)
        except (CandidateFailure, JudgeError):
            raise
        except Exception as error:  # a task's own code, tripped perhaps by this candidate alone: the run goes on
            raise JudgeError(f"{place} raised {type(error).__name__}: {' '.join(str(error).split())}") from error
        if not isinstance(returned, Mapping) or "score" not in returned:
            raise TaskError(f"{place} must return a dict of measures with a 'score', not {returned!r:.100}")
        measures: dict[str, float] = {}
        for name, value in returned.items():
            number = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if not number or not math.isfinite(value):
                raise TaskError(f"{place} returned {name} = {value!r:.60}, which is no finite number")
            measures[str(name)] = float(value)
        return measures

    def _passed(self, subject: Subject, context: Context, measures: dict[str, float], stage: Stage) -> Evaluation:
        return Evaluation.model_validate(
            {
                **subject.fields(),
                "status": Status.PASSED,
                "stage": stage,
                "score": measures.pop("score"),
                "measures": measures,
                "timing": BY_VALUE,
                "confirmed": stage is Stage.CONFIRMATION,
                "cost": context.trail.cost(),
                "artifacts": tuple(context.artifacts),
            }
        )


def load_evaluator(task: Task) -> EvaluatorFunction:
    """The function that ``task.evaluator`` names: ``file.py:name`` in the task folder or ``package.module:name``.

    Raises:
        TaskError: there is no such module or function, or it does not import.
    """
    where, _, name = task.evaluator.partition(":")
    place = f"{task.folder / 'task.toml'}: evaluator {task.evaluator!r}"
    if not name:
        raise TaskError(f"{place}: write kernel, file.py:name or package.module:name")
    module = _module_from_file(task, where, place) if where.endswith(".py") else _module(where, place)
    function = getattr(module, name, None)
    if not callable(function):
        raise TaskError(f"{place}: no function {name} in {where}")
    return function  # type: ignore[no-any-return]


def _module(name: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise TaskError(f"{place}: {error}") from None


def _module_from_file(task: Task, file: str, place: str) -> ModuleType:
    path = task.folder / file
    spec = importlib.util.spec_from_file_location(f"task_{task.name}_evaluator", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise TaskError(f"{place}: no file {path}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise TaskError(f"{place}: {type(error).__name__}: {error}") from error
    return module
