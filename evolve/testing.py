"""Fakes for tests and benchmarks of the search: a judge that reads its verdict in the source, a task, a proposer.

A fake program says in a comment (or a string, where comments shall not matter) what the judge will find::

    # fake: score=1.25 status=passed regs=3

``score`` and ``status`` are the verdict, everything else becomes a measure. A value may name a constant of the source::

    # fake: score=GAIN
    GAIN = 1.5  # tune: 1.0, 1.5, 2.0

Without such a line the score is drawn from the source's hash. The same source always gets the same verdict.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluators.client import JudgeReady
from evaluators.errors import JudgeError
from evaluators.evaluation import (
    FULL_LEVEL,
    Cost,
    Duel,
    DuelOutcome,
    Environment,
    Evaluation,
    Interval,
    Stage,
    Status,
    Timed,
)
from evaluators.profile import Bottleneck, Ceiling, Counter, HotSpot, Profile
from evaluators.task import ArchiveDimension, Language, Limits, Task, Workload
from evolve.types import Program, Proposal, ProposeContext

ENVIRONMENT = Environment(device_class="fake:1")
TASK_HASH = "f" * 64
_LINE = re.compile(r"# fake:(.*)")
_CONSTANT = re.compile(r"^(\w+) = (\S+)", re.MULTILINE)
_INTERVAL_SHARE = 0.01
_GLANCE_LEVEL = 0.87


def fake_source(score: float, *, status: Status = Status.PASSED, text: str = "", **measures: float) -> str:
    """A source text that :class:`FakeJudge` gives this verdict; ``text`` makes it differ from others."""
    facts = " ".join(f"{name}={value!r}" for name, value in measures.items())
    return f'"# fake: score={score!r} status={status.value} {facts} "\n{text}\n'


def fake_task(
    folder: Path,
    *,
    metric: str = "value",
    archive: tuple[ArchiveDimension, ...] = (),
    seed_source: str | None = None,
    limits: Limits | None = None,
) -> Task:
    """A Python task whose seed program (score 1) is written to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "seed.py").write_text(fake_source(1.0) if seed_source is None else seed_source)
    return Task.model_validate(
        {
            "name": "fake",
            "metric": metric,
            "languages": ("python",),
            "entry": "f",
            "args": (),
            "workloads": (Workload(name="w", axes={"N": 1}),),
            "limits": limits or Limits(),
            "archive": archive,
            "seed_program": "seed.py",
            "folder": folder,
            "hash": TASK_HASH,
            "inputs_hash": TASK_HASH,
        }
    )


@dataclass
class FakeJudge:
    """Judges at once, deterministically, and remembers what it was asked."""

    timed: bool = False
    """Time-scored: speed-ups with an interval of 1 %, duels decided by score."""
    glance_below: float = 0.0
    """Programs with a lower score are only glanced at."""
    cost: Cost = field(default_factory=lambda: Cost(build_s=0.01, device_s=0.02, wall_s=0.03))
    before: Callable[[str, str], Awaitable[None]] | None = None
    """Awaited with (method, source) before every answer: to delay, to fail, to count."""
    profiles: bool = False
    """Profile what is asked for: as the source says, see :func:`fake_profile`."""
    confirm_status: Callable[[str], Status] = lambda source: Status.PASSED
    evaluated: list[str] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    dueled: list[tuple[str, str]] = field(default_factory=list)
    environment: Environment = ENVIRONMENT
    held_up: float = 0.0
    """Seconds for which another judge is said to have had the device."""
    used_s: float | None = None
    """What it says that an unanswered question had of the device."""
    profiled: list[str] = field(default_factory=list)
    closed: bool = False

    async def ready(self) -> JudgeReady:
        """See :class:`evaluators.client.Judge`."""
        return JudgeReady(environment=self.environment, task_hash=TASK_HASH, baseline_us={}, floor_us={})

    async def evaluate(self, source: str, language: Language) -> Evaluation:
        """See :class:`evaluators.client.Judge`."""
        await self._enter("evaluate", source)
        self.evaluated.append(source)
        return self._evaluation(source, None)

    async def confirm(self, source: str, language: Language, *, every_baseline: bool = False) -> Evaluation:
        """See :class:`evaluators.client.Judge`."""
        await self._enter("confirm", source)
        self.confirmed.append(source)
        return self._evaluation(source, self.confirm_status(source))

    async def duel(self, challenger: tuple[str, Language], occupant: tuple[str, Language]) -> Duel:
        """See :class:`evaluators.client.Judge`."""
        await self._enter("duel", challenger[0])
        self.dueled.append((challenger[0], occupant[0]))
        ratio = _score(challenger[0]) / _score(occupant[0])
        low, high = ratio * (1 - _INTERVAL_SHARE), ratio * (1 + _INTERVAL_SHARE)
        outcome = DuelOutcome.CHALLENGER if low > 1 else DuelOutcome.OCCUPANT if high < 1 else DuelOutcome.EQUAL
        interval = Interval(low=low, estimate=ratio, high=high, level=0.99)
        return Duel(outcome=outcome, ratio=interval, rounds=5, cost=self.cost)

    def held_up_s(self, last_s: float) -> float:
        """See :class:`evaluators.client.Judge`."""
        return min(last_s, self.held_up)

    def queued_s(self, last_s: float, asker: asyncio.Task[Any] | None = None) -> float:
        """See :class:`evaluators.client.Judge`."""
        del last_s, asker
        return 0.0

    def device_s(self, asker: asyncio.Task[Any] | None = None) -> float | None:
        """See :class:`evaluators.client.Judge`."""
        return self.used_s

    async def profile(self, source: str, language: Language) -> Profile | None:
        """See :class:`evaluators.client.Judge`."""
        if not self.profiles:
            return None
        await self._enter("profile", source)
        self.profiled.append(source)
        return fake_profile(source, self.cost).model_copy(update={"sandbox": self.environment.sandbox})

    async def close(self) -> None:
        """See :class:`evaluators.client.Judge`."""
        self.closed = True

    async def _enter(self, method: str, source: str) -> None:
        if self.closed:
            raise JudgeError("the judge is closed")
        if self.before is not None:
            await self.before(method, source)
        await asyncio.sleep(0)

    def _evaluation(self, source: str, confirm: Status | None) -> Evaluation:
        facts = _facts(source)
        status = Status(facts.pop("status", "passed")) if confirm in {None, Status.PASSED} else Status(confirm)
        passed = status is Status.PASSED
        facts.pop("score", None)
        document: dict[str, object] = {
            "status": status,
            "stage": Stage.ROUNDS if confirm is None else Stage.CONFIRMATION,
            "task_hash": TASK_HASH,
            "source_hash": hashlib.sha256(source.encode()).hexdigest(),
            "score": _score(source) if passed else None,
            "message": "" if passed else f"the source says {status.value}",
            "measures": {name: float(value) for name, value in facts.items()} if passed else {},
            "confirmed": passed and confirm is not None,
            "environment": self.environment,
            "cost": self.cost,
        }
        if self.timed and passed:
            score = _score(source)
            low, high = score * (1 - _INTERVAL_SHARE), score * (1 + _INTERVAL_SHARE)
            level = _GLANCE_LEVEL if score < self.glance_below else FULL_LEVEL
            speedup = Interval(low=low, estimate=score, high=high, level=level)
            document["timing"] = Timed(speedup=speedup, cold=True, rounds=5)
        return Evaluation.model_validate(document)


def fake_profile(source: str, cost: Cost | None = None) -> Profile:
    """Half of the time in the source's first line; limited by bandwidth."""
    line = source.splitlines()[0][:100] if source else ""
    return Profile(
        tool="sampling",
        device_class=ENVIRONMENT.device_class,
        workload="w",
        call_us=100.0,
        bottleneck=Bottleneck.BANDWIDTH,
        reason="memory-bound; 0.70 of measured bandwidth, 0.10 of peak arithmetic",
        ceilings=(Ceiling(name="memory bandwidth", achieved=7e9, ceiling=1e10, unit="bytes/s"),),
        hot_spots=(HotSpot(share=0.5, function="f", line=1, text=line),),
        samples=100,
        threads=(1.0,),
        counters={"registers": Counter(value=3.0, unit="registers/thread", origin="compiled")},
        cost=cost or Cost(),
    )


@dataclass
class FakeProposer:
    """Proposes what a function makes of the context, and remembers what it was told."""

    make: Callable[[ProposeContext], str | None]
    name: str = "fake"
    told: list[Program] = field(default_factory=list)

    async def propose(self, context: ProposeContext) -> Proposal | None:
        """See :class:`evolve.types.Proposer`."""
        source = self.make(context)
        if source is None:
            return None
        return Proposal(
            source=source,
            language=context.parent.language,
            operator="mutate",
            proposer=self.name,
            parents=(context.parent.number,),
            inspirations=tuple(p.number for p in context.inspirations),
            details={"number": context.number},
        )

    def tell(self, program: Program) -> None:
        """See :class:`evolve.types.Proposer`."""
        self.told.append(program)


def random_walk(context: ProposeContext) -> str:
    """A child whose score is its parent's give or take a little: a search that makes progress, from ``rng`` alone."""
    score = max(0.01, (context.parent.score or 0.0) + float(context.rng.normal(0.0, 0.1)))
    return fake_source(score, text=f"# child {context.number} of {context.parent.number}")


def _facts(source: str) -> dict[str, str]:
    line = _LINE.search(source)
    if line is None:
        return {}
    constants = dict(_CONSTANT.findall(source))
    facts = (fact.split("=", 1) for fact in line.group(1).split() if "=" in fact)
    return {name: constants.get(value, value) for name, value in facts}


def _score(source: str) -> float:
    facts = _facts(source)
    if "score" in facts:
        return float(facts["score"])
    return int.from_bytes(hashlib.sha256(source.encode()).digest()[:6]) / 2**48
