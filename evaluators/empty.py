"""What a call costs that does nothing: measured with our own empty program, never with the candidate."""

from __future__ import annotations

from collections.abc import Iterable

from evaluators.arena import Arena
from evaluators.build import Builds
from evaluators.plan import RoundPlan
from evaluators.rounds import draw_slots, lone_round
from evaluators.task import Language

ROUNDS = 5
_STAND_INS: dict[Language, Language] = {"python": "cpp", "triton": "torch", "cuda": "torch"}
"""Languages whose empty call is that of another. On a GPU an empty round is an empty graph, whoever recorded it. On a
CPU what is taken off is what the channel costs and no more: that Python is called through Python is a program's own
cost, or one that puts native code in the place of its function would be given some microseconds a call."""


def empty_source(language: Language, entry: str) -> str:
    """A program with the task's entry that returns at once."""
    if language == "cpp":
        return f'extern "C" void {entry}() {{}}\n'
    return f"def {entry}(*args):\n    pass\n"


def empty_calls_us(
    arena: Arena, plan: RoundPlan, builds: Builds, languages: Iterable[Language]
) -> dict[Language, float]:
    """:func:`empty_call_us` for each of these languages."""
    stand_ins = {language: _STAND_INS.get(language, language) for language in languages}
    measured = {language: empty_call_us(arena, plan, builds, language) for language in set(stand_ins.values())}
    return {language: measured[stand_in] for language, stand_in in stand_ins.items()}


def empty_call_us(arena: Arena, plan: RoundPlan, builds: Builds, language: Language) -> float:
    """Microseconds of an empty call through the same channel, with the same layout and the same peeks.

    That of the quickest turn of several rounds: on a busy machine an empty call can only be taken for longer than it
    is, and taking off too much would exaggerate ratios, while too little pulls them towards 1. Beside a load of 5,
    whole rounds at ordinary priority came out three to twenty times as long as their quickest turn.
    """
    task = arena.task
    program = builds.build(task, empty_source(language, task.entry), language, ("-O1",))
    session = arena.open(program)
    try:
        session.prepare(plan.layout, task.limits.prepare_s)
        times = [lone_round(session, plan, draw_slots(plan, arena.rng), task.limits.call_s) for _ in range(ROUNDS)]
    finally:
        session.close()
    return min(t.quickest_us for t in times)
