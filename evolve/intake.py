"""Making a stored program out of what was proposed."""

from __future__ import annotations

from dataclasses import replace

from evaluators.source import source_hash
from evaluators.task import Task
from evaluators.task_rules import program_language
from evolve.database.codec import storable
from evolve.database.mail import Answer
from evolve.types import AddStatus, Program, ProgramState, Proposal

AGENT = "agent"
"""The proposer's name under which outside agents and people are on record."""


def seed_proposal(task: Task) -> Proposal:
    """The task's seed program."""
    language = program_language(task, task.seed_program)
    source = (task.folder / task.seed_program).read_text(encoding="utf-8")
    return Proposal(source, language, operator="seed", proposer="seed")


def answered(answer: Answer) -> Proposal:
    """What an agent handed in, with where it comes from."""
    details: dict[str, object] = {"answer": answer.id}
    if answer.lease is not None:
        details["lease"] = answer.lease
    if answer.late_s is not None:
        details["late_s"] = round(answer.late_s, 1)
    return Proposal(
        source=answer.source,
        language=answer.language,
        operator=answer.operator,
        proposer=AGENT,
        parents=answer.parents,
        inspirations=answer.inspirations,
        model=answer.agent,
        note=answer.note,
        details=details,
    )


def new_program(
    number: int, island: int, generation: int, proposal: Proposal, twin: tuple[int, ProgramState] | None
) -> Program:
    """The program that a proposal becomes; ``twin`` is the stored program of the same source, with its state."""
    source = storable(proposal.source)
    at_once = twin is not None and twin[1] is ProgramState.FINISHED
    return Program(
        number=number,
        source=source,
        source_hash=source_hash(source),
        language=proposal.language,
        operator=proposal.operator,
        proposer=proposal.proposer,
        state=ProgramState.FINISHED if at_once else ProgramState.QUEUED,
        island=island,
        generation=generation,
        parents=proposal.parents,
        inspirations=proposal.inspirations,
        model=proposal.model,
        note=proposal.note,
        details=proposal.details,
        duplicate_of=twin[0] if twin else None,
    )


def finished_twin(twin: Program, original: Program) -> Program:
    """A duplicate as it is once its original is finished: with the original's verdicts, in no cell."""
    return replace(
        twin,
        state=ProgramState.FINISHED,
        placement=AddStatus.NOT_ADDED,
        evaluation=original.evaluation,
        confirmation=original.confirmation,
        judge_failed=original.judge_failed,
        profile=original.profile,
    )
