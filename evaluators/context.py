"""What an evaluator of one's own gets: the only way to touch a candidate.

An evaluator is trusted code in the judge's process. It is a function ``evaluate(context)`` that returns a dict of
measures with a ``score``, or raises what :meth:`Context.fail` makes. Whatever the candidate does wrong on the way (it
does not build, crashes, hangs, answers out of turn) ends the evaluation by itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import numpy as np

from evaluators.build import Builds, BuiltProgram, lint
from evaluators.dtypes import Array
from evaluators.evaluation import Artifact, Stage, Status
from evaluators.failure import CandidateFailure
from evaluators.lane import Lane
from evaluators.plan import layout_of
from evaluators.session import Session
from evaluators.task import Language, Task, Workload
from evaluators.trail import Trail

ARTIFACT_CAP = 64 << 10


class ContextSession:
    """A candidate's live, sandboxed process."""

    def __init__(self, task: Task, session: Session, trail: Trail) -> None:
        self._task = task
        self._session = session
        self._trail = trail

    def prepare(self, workload: Workload) -> None:
        """Hand over a workload's shapes; must precede :meth:`call`."""
        self._session.prepare_running(layout_of(self._task, workload, 1), self._task.limits.prepare_s)

    def call(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One call on these inputs; returns copies of the outputs.

        Args:
            inputs: an array for every ``in`` and ``inout`` argument, of the task's shape and dtype.
        """
        self._trail.enter(Stage.CORRECTNESS)
        arguments = self._session.arguments(0)
        self._session.guard.poison()
        for name, values in inputs.items():
            arguments[name][...] = values
        return self._session.call(0, self._task.limits.call_s)


class Context:
    """One evaluation as its evaluator sees it."""

    def __init__(self, task: Task, seed: str, builds: Builds, lane: Lane, program: tuple[str, Language]) -> None:
        self.task = task
        self.source, self.language = program
        self.rng = np.random.default_rng(secrets.randbits(128))
        """Secret randomness for this evaluation alone; nothing of it reaches the candidate but what is passed on."""
        self.trail = Trail()
        self.artifacts: list[Artifact] = []
        self._seed = seed
        self._builds = builds
        self._lane = lane
        self._sessions: list[Session] = []

    def build(self, source: str) -> BuiltProgram:
        """Build a source text (usually :attr:`source`) in a sandboxed builder."""
        flags = lint(self.task, source, self.language, self._seed)
        self.trail.enter(Stage.BUILD)
        with self.trail.building():
            return self._builds.build(self.task, source, self.language, flags)

    def session(self, program: BuiltProgram) -> ContextSession:
        """A fresh process that has imported the program; it ends with the evaluation."""
        self.trail.enter(Stage.IMPORT)
        session = self._lane.open(self.task, program)
        self._sessions.append(session)
        self.trail.enter(Stage.SMOKE)
        return ContextSession(self.task, session, self.trail)

    def artifact(self, name: str, text: str) -> None:
        """Keep a text beside the evaluation, for people to look at."""
        cut = text[:ARTIFACT_CAP]
        self.artifacts.append(Artifact(name=name, text=cut, truncated=len(cut) < len(text)))

    def fail(self, status: Status, message: str) -> CandidateFailure:
        """What to raise when the candidate's answer is no good."""
        return CandidateFailure(status, message)

    def log(self) -> str:
        """The end of what the candidate printed."""
        return "".join(s.log() for s in self._sessions)

    def close(self) -> None:
        """End every process of this evaluation."""
        for session in self._sessions:
            session.close()
