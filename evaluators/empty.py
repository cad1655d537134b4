"""What a call, or a round, costs that does nothing: measured with our own empty program, never with the candidate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from evaluators.arena import Arena
from evaluators.build import Builds
from evaluators.content import ContentPool
from evaluators.plan import RoundPlan
from evaluators.rounds import draw_slots, lone_round
from evaluators.task import Language

ROUNDS = 5
_STAND_INS: dict[Language, Language] = {"python": "cpp", "triton": "torch", "cuda": "torch"}
"""Languages whose empty call is that of another. On a GPU an empty round is one launch, whoever recorded it. On a
CPU what is taken off is what the channel costs and no more: that Python is called through Python is a program's own
cost, or one that puts native code in the place of its function would be given some microseconds a call."""
_NATIVE = 'extern "C" void {entry}() {{}}\n'
_DEVICE = """import torch

spare = torch.zeros(1, device="cuda")


def {entry}(*args):
    spare.add_(1)
"""
"""One kernel that does next to nothing: the device turns from the judge's context to the runner's for a kernel and not
for an empty graph, and that is no program's doing."""
_PYTHON = "def {entry}(*args):\n    pass\n"
_SOURCES: dict[Language, str] = {"cpp": _NATIVE, "torch": _DEVICE}


def empty_source(language: Language, entry: str) -> str:
    """A program with the task's entry that returns at once; on a device, one that launches the least there is."""
    return _SOURCES.get(language, _PYTHON).format(entry=entry)


def empty_calls_us(
    arena: Arena, plan: RoundPlan, builds: Builds, languages: Iterable[Language], content: ContentPool | None = None
) -> dict[Language, float]:
    """:func:`empty_call_us` for each of these languages."""
    stand_ins = {language: _STAND_INS.get(language, language) for language in languages}
    measured = {one: empty_call_us(arena, plan, builds, one, content) for one in set(stand_ins.values())}
    return {language: measured[stand_in] for language, stand_in in stand_ins.items()}


def empty_call_us(
    arena: Arena, plan: RoundPlan, builds: Builds, language: Language, content: ContentPool | None = None
) -> float:
    """Microseconds of an empty call through the same channel, with the same layout and the same peeks.

    That of the quickest turn of several rounds: on a busy machine an empty call can only be taken for longer than it
    is, and taking off too much would exaggerate ratios, while too little pulls them towards 1. Beside a load of 5,
    whole rounds at ordinary priority came out three to twenty times as long as their quickest turn.

    Where a round is one launch, its cost does not grow with the calls: it is that of a round with a single call, made
    like any other after the judge has filled the inputs with ``content``, and every call of the plan bears an equal
    part of it.
    """
    task = arena.task
    program = builds.build(task, empty_source(language, task.entry), language, ("-O1",))
    single = _of_one_call(plan)
    session = arena.open(program)
    try:
        session.prepare(single.layout, task.limits.prepare_s)
        times = []
        for _ in range(ROUNDS):
            slots = draw_slots(single, arena.rng)
            if single is not plan and content is not None:
                arena.fill(session, content, slots)
            times.append(lone_round(session, single, slots, task.limits.call_s))
    finally:
        session.close()
    return min(t.quickest_us for t in times) * single.calls / plan.calls


def _of_one_call(plan: RoundPlan) -> RoundPlan:
    """The plan with a single call a round where rounds are launched whole; any other as it is."""
    orders = tuple(order[:1] for order in plan.layout.sequences)
    return replace(plan, layout=replace(plan.layout, sequences=orders), calls=1) if orders else plan
