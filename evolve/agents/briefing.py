"""What an agent gets to see with a lease: the facts a model's prompt is made of, from the database."""

from __future__ import annotations

import json
from dataclasses import dataclass

from evaluators.evaluation import Status, Timed
from evaluators.task import Task
from evolve.database.mail import Lease
from evolve.database.reader import StorageReader
from evolve.display.summary import strongest_baselines, versus_strongest
from evolve.prompts.context import FailureNote, PromptContext
from evolve.prompts.facts import architecture_of, device_facts, shown_program, task_facts
from evolve.prompts.rendering import PromptBook
from evolve.types import Program

FAILURES = 8
"""Failed programs that are shown at most."""


@dataclass(frozen=True)
class Briefing:
    """Everything an agent needs to know for one lease."""

    lease: Lease
    context: PromptContext
    standing: str
    """Where the search stands: its best program, and how far that is from the strongest baseline."""
    text: str
    """All of it in words; what programs and compilers said is fenced."""


def brief(storage: StorageReader, task: Task, lease: Lease) -> Briefing:
    """Make a lease's briefing."""
    context = _context(storage, task, lease)
    prompt = PromptBook().render(context)
    best = storage.run().best
    stands = standing(storage.program(best) if best else None, task)
    text = "\n\n".join((prompt.system, f"# Where the search stands\n\n{stands}", prompt.user))
    return Briefing(lease, context, stands, text)


def standing(best: Program | None, task: Task) -> str:
    """The best program and its distance from the strongest baseline, or from the best published score."""
    if best is None or best.verdict is None or best.verdict.score is None:
        return "No program has been confirmed yet."
    timing = best.verdict.timing
    if isinstance(timing, Timed):
        merit = versus_strongest(timing.speedup, strongest_baselines(best.verdict))
    else:
        merit = f"score {best.verdict.score:.10g}"
        if task.best_known is not None:
            merit += f"; the best published is {task.best_known:.10g} ({task.best_known_source})"
    return f"The best confirmed program is {best.number}: {merit}."


def _context(storage: StorageReader, task: Task, lease: Lease) -> PromptContext:
    parent = storage.program(lease.parent)
    environment = parent.verdict.environment if parent.verdict else None
    return PromptContext(
        operator="agent",
        task=task_facts(task, parent.language),
        parent=shown_program(parent, task.metric),
        device=device_facts(environment) if environment else (),
        architecture=architecture_of(environment) if environment else "",
        inspirations=tuple(shown_program(storage.program(n), task.metric) for n in lease.inspirations),
        failures=tuple(failures(storage, lease.parent)),
        hints=storage.steering().wishes,
    )


def failures(storage: StorageReader, parent: int) -> list[FailureNote]:
    """What failed before: children of ``parent`` first, then what failed last; the same failure only once."""
    rows = [row for row in storage.table() if row["status"] not in {None, Status.PASSED.value}]
    rows.sort(key=lambda row: (parent in json.loads(row["parents"]), row["number"]), reverse=True)
    found: dict[tuple[str, str], FailureNote] = {}
    for row in rows:
        key = (row["status"], row["message"])
        if key in found:
            note = found[key]
            found[key] = FailureNote(note.what, note.status, note.message, note.detail, note.times + 1)
        elif len(found) < FAILURES:
            program = storage.program(row["number"])
            if not program.judge_failed and program.verdict is not None:
                found[key] = _note(program, program.verdict.detail)
    return list(found.values())


def _note(program: Program, detail: str) -> FailureNote:
    verdict = program.verdict
    status, message = (verdict.status.value, verdict.message) if verdict else ("", "")
    return FailureNote(f"program {program.number}: {program.note}".rstrip(": "), status, message, detail)
