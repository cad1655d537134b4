"""Which programs are tuned before they are compared as structures, and which of a family is compared first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evaluators.evaluation import Status
from evolve.proposers.tunables import find_tunables
from evolve.settings import SearchSettings
from evolve.types import Program


def may_be_tuned(program: Program, search: SearchSettings, flag_choices: Sequence[Sequence[str]]) -> bool:
    """Whether a judged program is a structure of its own with tunables, and other values may do it good.

    One that ran out of memory, shared memory included, may fit with other values; any other failure is the structure's.
    Where noise alone kept it from a score its variants may have one.
    """
    verdict = program.verdict
    return (
        search.tune_inside > 0
        and program.proposer in search.tune_inside_from
        and program.variant_of is None
        and not program.judge_failed
        and verdict is not None
        and (verdict.score is not None or verdict.status is Status.OUT_OF_MEMORY or verdict.noisy)
        and find_tunables(program.source, program.language, flag_choices).size > 1
    )


def best_first(programs: Iterable[Program]) -> list[Program]:
    """By score, what failed last; of equals the older first, which is the structure."""
    return sorted(programs, key=lambda p: (p.score is None, -(p.score or 0.0), p.number))
