"""What an agent gets to see with a lease: the facts a model's prompt is made of, from the database."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evaluators.evaluation import Timed
from evaluators.task import Language, Task
from evolve.database.mail import Lease
from evolve.database.reader import StorageReader
from evolve.display.summary import strongest_baselines, versus_strongest
from evolve.experience import Experience
from evolve.prompt_facts import RunFacts
from evolve.prompts.context import PromptContext
from evolve.prompts.rendering import PromptBook
from evolve.proposers.llm_parts import Subject
from evolve.types import Program, ProposeContext


@dataclass(frozen=True)
class Briefing:
    """Everything an agent needs to know for one lease."""

    lease: Lease
    context: PromptContext
    standing: str
    """Where the search stands: its best program, and how far that is from the strongest baseline."""
    text: str
    """All of it in words; what programs and compilers said is fenced."""


def brief(storage: StorageReader, task: Task, lease: Lease, book: PromptBook) -> Briefing:
    """Make a lease's briefing from the templates of ``book``."""
    parent = storage.program(lease.parent)
    context = facts_of(storage, task, parent, inspirations=lease.inspirations)
    prompt = book.render(context)
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


def facts_of(
    storage: StorageReader,
    task: Task,
    parent: Program,
    language: Language | None = None,
    inspirations: tuple[int, ...] = (),
) -> PromptContext:
    """The same facts that a model's prompt on ``parent`` would be made of."""
    facts = RunFacts(task, Experience.stored(task, storage), storage.program, lambda: storage.steering().wishes)
    shown = tuple(storage.program(number) for number in inspirations)
    asked = ProposeContext(task, 0, parent.island, parent, shown, np.random.default_rng(0))
    return replace(facts.facts(asked, Subject(parent, language or parent.language)), operator="agent")
