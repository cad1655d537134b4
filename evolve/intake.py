"""Making a stored program out of what was proposed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from evaluators.task import Language, Task
from evolve.run_directory import EXTENSIONS
from evolve.types import AddStatus, Program, ProgramState, Proposal


def storable(source: str) -> str:
    """A text that every database can hold: what is no Unicode, and NUL, is replaced."""
    return source.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


def seed_proposal(task: Task) -> Proposal:
    """The task's seed program, in the first of the task's languages that its file's name fits."""
    suffix = Path(task.seed_program).suffix
    language: Language = next((name for name in task.languages if EXTENSIONS[name] == suffix), task.languages[0])
    source = (task.folder / task.seed_program).read_text(encoding="utf-8")
    return Proposal(source, language, operator="seed", proposer="seed")


def finished_twin(twin: Program, original: Program) -> Program:
    """A duplicate as it is once its original is finished: with the original's verdicts, in no cell."""
    return replace(
        twin,
        state=ProgramState.FINISHED,
        placement=AddStatus.NOT_ADDED,
        evaluation=original.evaluation,
        confirmation=original.confirmation,
        judge_failed=original.judge_failed,
    )
