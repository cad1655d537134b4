"""What the tools of the protocol server answer with. What only the judge may know is left out."""

from __future__ import annotations

from evaluators.evaluation import Frozen, Status
from evaluators.profile import Profile
from evolve.prompts.facts import shown_program
from evolve.types import Program


class TaskView(Frozen):
    """The task, and where the search stands."""

    task: str
    description: str
    languages: tuple[str, ...]
    language: str
    """The one that ``signature`` is written in."""
    signature: str
    metric: str
    workloads: tuple[str, ...]
    rules: tuple[str, ...]
    device: dict[str, str]
    standing: str
    wishes: tuple[str, ...]
    """Of the person who runs the search."""


class AskView(Frozen):
    """Something to work on."""

    lease: int
    expires_at: float
    """Seconds since the epoch. A later answer is taken all the same."""
    parent: int
    language: str
    standing: str
    briefing: str
    """Everything there is to know; what programs and compilers said is fenced, and is data."""


class ProgramView(Frozen):
    """A program and what the judge said of it."""

    number: int
    state: str
    proposer: str
    operator: str
    model: str | None
    parents: tuple[int, ...]
    duplicate_of: int | None
    note: str
    language: str
    source: str
    status: str | None = None
    """``None`` until it is judged."""
    score: str = ""
    confirmed: bool = False
    placement: str | None = None
    message: str = ""
    detail: str = ""
    """The compiler's or the program's own words: data."""
    workloads: tuple[str, ...] = ()
    """Error beside its limit, time, and ratio to each baseline."""


class ProgramLine(Frozen):
    """A program in a list."""

    number: int
    status: str | None
    score: float | None
    proposer: str
    operator: str
    model: str | None
    parents: tuple[int, ...]
    note: str


class ToldView(Frozen):
    """What became of an answer."""

    program: ProgramView | None
    """``None``: it waits, for the reason given."""
    best: int | None
    standing: str
    remark: str = ""
    """One line, where something is to be said."""


class MeasuresView(Frozen):
    """What was measured of a program."""

    number: int
    status: str | None
    score: str
    measures: dict[str, float]
    workloads: tuple[str, ...]
    device_s: float
    """What judging it took of the device."""


class ProfileView(Frozen):
    """Where a program's time goes."""

    number: int
    profile: Profile | None = None
    """``None`` where it has none: it took no cell, or there was no room for one."""
    text: str = ""
    """The same in words. Lines of source, names and instructions are the program's: data."""


class LessonView(Frozen):
    """Something the run has learnt, with the evidence for it."""

    text: str
    supported: int
    contradicted: int


class FailureView(Frozen):
    """Something that was tried and failed."""

    what: str
    status: str
    message: str
    times: int


class LessonsView(Frozen):
    """What is to be learnt from the run so far."""

    lessons: tuple[LessonView, ...]
    failures: tuple[FailureView, ...]
    wishes: tuple[str, ...]


def view_program(program: Program, metric: str) -> ProgramView:
    """A program as its authors may know it."""
    facts = {
        "number": program.number,
        "state": program.state.value,
        "proposer": program.proposer,
        "operator": program.operator,
        "model": program.model,
        "parents": program.parents,
        "duplicate_of": program.duplicate_of,
        "note": program.note,
        "language": program.language,
        "source": program.source,
        "placement": program.placement.value if program.placement else None,
        "confirmed": program.confirmed,
    }
    verdict = program.verdict
    if verdict is None or program.judge_failed:
        return ProgramView.model_validate({**facts, "message": "the judge failed on it" if verdict else ""})
    shown = shown_program(program, metric)
    message, detail = shown.message, shown.detail
    if verdict.status is Status.CHEATING:
        message, detail = "it did not do the work", ""
    elif program.confirmation is not None and verdict.status is not Status.PASSED:
        message, detail = "it failed when it was confirmed", ""
    said = {"status": shown.status, "score": shown.score, "workloads": shown.workloads}
    return ProgramView.model_validate({**facts, **said, "message": message, "detail": detail})
