"""The least time a workload could take on this device: traffic over bandwidth, operations over peak.

Measured with programs of our own through the same runners, buffers and rounds as any candidate's. A read-bound program
can be faster than a copy, so the best of several mixes counts: a floor from copy bandwidth alone convicts the honest.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluators.arena import Arena
from evaluators.build import Builds, BuiltProgram, build_exchange
from evaluators.dtypes import Array
from evaluators.empty import empty_call_us
from evaluators.plan import RoundPlan, round_plan
from evaluators.rounds import draw_slots, lone_round
from evaluators.session import Session
from evaluators.task import Arg, Task, Workload
from evaluators.zygote.client import Zygote

SOURCE = Path(__file__).with_name("ceilings.cpp")
FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp", "-ffast-math")
ROUNDS = 5
BANDWIDTH_ELEMENTS = 4 << 20
FMA_ITERATIONS = 1 << 20
EXPECTED_CALL_S = 2e-3
"""Only to choose how many calls make a round of these programs."""
FLOPS_PER_ITERATION = 192
"""Per thread: 12 registers of 8 lanes, a multiplication and an addition each."""
FLOOR_MARGIN = 0.95


@dataclass(frozen=True)
class Ceilings:
    """The best this device was seen to do with the task's threads."""

    bytes_per_s: float
    operations_per_s: float

    def floor_us(self, traffic_bytes: int, operations: int, *, cold: bool) -> float:
        """The least time of a call; traffic counts only where rounds are cold, since a cache is faster than memory."""
        memory = traffic_bytes / self.bytes_per_s if cold else 0.0
        return max(memory, operations / self.operations_per_s) * 1e6 * FLOOR_MARGIN

    def better_of(self, other: Ceilings) -> Ceilings:
        """The higher of each, after measuring again."""
        return Ceilings(max(self.bytes_per_s, other.bytes_per_s), max(self.operations_per_s, other.operations_per_s))


def measure_ceilings(zygote: Zygote, builds: Builds, threads: int, cpus: frozenset[int], cache_bytes: int) -> Ceilings:
    """Run the trusted programs; about a second on an idle machine."""

    def best_us(entry: str, elements: int, outputs: str | int) -> float:
        task = _task(entry, threads, elements, outputs)
        program = builds.build(task, SOURCE.read_text(), "cpp", FLAGS)
        plan = round_plan(task, task.workloads[0], cache_bytes, call_s=EXPECTED_CALL_S)
        with Arena(zygote, task, [plan.layout], cpus, build_exchange(builds, task, cpus)) as arena:
            return _best_us(arena, plan, program, builds)

    read_us = best_us("read_sum", BANDWIDTH_ELEMENTS, 1)
    copy_us = best_us("copy", BANDWIDTH_ELEMENTS, "N")
    fma_us = best_us("multiply_add", FMA_ITERATIONS, 1)
    size = 4 * BANDWIDTH_ELEMENTS
    return Ceilings(
        bytes_per_s=max(size / read_us, 2 * size / copy_us) * 1e6,
        operations_per_s=FLOPS_PER_ITERATION * FMA_ITERATIONS * threads / fma_us * 1e6,
    )


def _task(entry: str, threads: int, elements: int, outputs: str | int) -> Task:
    return Task(
        name=f"ceiling_{entry}",
        languages=("cpp",),
        entry=entry,
        args=(
            Arg(name="x", role="in", dtype="fp32", shape=("N",)),
            Arg(name="out", role="out", dtype="fp32", shape=(outputs,)),
        ),
        workloads=(Workload(name="ceiling", axes={"N": elements}),),
        threads=threads,
        seed_program=SOURCE.name,
        folder=SOURCE.parent,
        hash="",
        inputs_hash="",
    )


def _best_us(arena: Arena, plan: RoundPlan, program: BuiltProgram, builds: Builds) -> float:
    task = arena.task
    empty_us = empty_call_us(arena, plan, builds, "cpp")
    session = arena.kept("ceiling", program)
    session.prepare(plan.layout, task.limits.prepare_s)
    times = []
    content = arena.rng.standard_normal(session.arguments(0)["x"].size, dtype=np.float32)
    for _ in range(ROUNDS):
        slots = draw_slots(plan, arena.rng)
        _fill(session, slots, content)
        session.guard.poison()
        time = lone_round(session, plan, slots, task.limits.call_s)
        times.append(time.call_us - empty_us)
    return max(min(times), empty_us / 10)


def _fill(session: Session, slots: list[int], content: Array) -> None:
    """The same content everywhere: our own programs remember nothing. Idle slots last, as in any round."""
    for slot in [*slots, *sorted(set(range(session.layout.slots)) - set(slots))]:
        session.arguments(slot)["x"][...] = content
