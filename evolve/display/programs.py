"""Programs for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from evaluators.evaluation import Timed
from evaluators.profile import Profile
from evolve.display import sandbox, wording
from evolve.display.report import Report, Table, facts
from evolve.display.verdict import describe
from evolve.prompts.profile_text import profile_text
from evolve.types import Program


def program_data(program: Program) -> dict[str, object]:
    """Everything known of a program, JSON-able."""
    return {
        "number": program.number,
        "operator": program.operator,
        "proposer": program.proposer,
        "model": program.model,
        "parents": list(program.parents),
        "inspirations": list(program.inspirations),
        "island": program.island,
        "generation": program.generation,
        "state": program.state,
        "placement": program.placement,
        "duplicate_of": program.duplicate_of,
        "score": program.score,
        "confirmed": program.confirmed,
        "note": program.note,
        "details": program.details,
        "language": program.language,
        "source_hash": program.source_hash,
        "source": program.source,
        "evaluation": program.evaluation.model_dump(mode="json") if program.evaluation else None,
        "confirmation": program.confirmation.model_dump(mode="json") if program.confirmation else None,
        "profile": program.profile.model_dump(mode="json") if program.profile else None,
    }


def program_report(program: Program, *, with_source: bool, talk: str = "") -> Report:
    """One program: where it comes from, what the judge said, and its source if asked for.

    ``talk`` is what to type to see the dialogue that it came out of.
    """
    pairs = [
        ("program", str(program.number)),
        ("made by", f"{program.proposer}, {program.operator}" + (f" ({program.model})" if program.model else "")),
        ("change", program.note),
        ("parents", _numbers(program.parents)),
        ("inspirations", _numbers(program.inspirations)),
        ("island", f"{program.island}, generation {program.generation}"),
        ("dialogue", talk),
        ("state", ", ".join(filter(None, (str(program.state), wording.placement(program.placement))))),
        ("duplicate of", str(program.duplicate_of or "")),
        ("source", program.source_hash),
    ]
    parts: list[str | Table] = [facts(pairs)]
    if program.evaluation is not None:
        parts += ["", *describe(program.evaluation)]
    if program.confirmation is not None:
        parts += ["", "confirmation run", *describe(program.confirmation)]
    if program.profile is not None:
        parts += ["", "profile", *_profile_parts(program.profile)]
    if with_source:
        parts += ["", program.source.rstrip("\n")]
    return Report(program_data(program), parts)


def profile_report(profile: Profile) -> Report:
    """Where a program's time goes."""
    return Report(profile.model_dump(mode="json"), _profile_parts(profile))


def program_table(programs: Sequence[Program], title: str = "") -> Table:
    """A row per program."""
    columns = ("number", "parents", "by", "verdict", "score", "change")
    rows = tuple(
        (
            str(program.number),
            _numbers(program.parents) or "-",
            f"{program.proposer}/{program.operator}",
            _verdict(program),
            _score(program),
            program.note or "-",
        )
        for program in programs
    )
    return Table(columns, rows, title, frozenset({"number", "score"}))


def _profile_parts(profile: Profile) -> list[str | Table]:
    warning = sandbox.single_warning(profile.sandbox)
    return [profile_text(profile), *([f"sandbox {warning}"] if warning else [])]


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _verdict(program: Program) -> str:
    if program.verdict is None:
        return str(program.state)
    level = program.verdict.environment.sandbox
    weaker = "" if level == sandbox.FULL else f", sandbox {level}"
    return f"{program.verdict.status}{', confirmed' if program.confirmed else ''}{weaker}"


def _score(program: Program) -> str:
    if program.verdict is None or program.score is None:
        return "-"
    timing = program.verdict.timing
    return wording.ratio(timing.speedup) if isinstance(timing, Timed) else f"{program.score:.10g}"
