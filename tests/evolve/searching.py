"""What tests of the search share: a world of fakes around one run, and comparing two runs' histories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evaluators.evaluation import Status
from evaluators.task import Task
from evolve.database.model_records import CallStatus, ModelReply, ModelRequest
from evolve.loop import Outcome, WeightedProposer, search
from evolve.observer import Silent
from evolve.run import Run
from evolve.settings import Caps, RunSettings, SearchSettings
from evolve.testing import FakeJudge, FakeProposer, fake_source, fake_task, random_walk
from evolve.types import Program, ProgramState, ProposeContext, RunStatus
from evolve.view import RunView

ONE_WORKER = SearchSettings(seed=3, lanes=1, queue=0, proposals=1, islands=2, migration_every=8, stagnation=6)


class Recorder(Silent):
    """Remembers what an observer is told."""

    def __init__(self) -> None:
        self.finished: list[Program] = []
        self.bests: list[Program] = []
        self.contenders: list[Program] = []
        self.statuses: list[RunStatus] = []
        self.notes: list[str] = []
        self.most_in_flight = 0

    def on_program(self, program: Program) -> None:
        self.finished.append(program)

    def on_best(self, program: Program) -> None:
        self.bests.append(program)

    def on_contender(self, program: Program) -> None:
        self.contenders.append(program)

    def on_status(self, status: RunStatus, reason: str) -> None:
        self.statuses.append(status)

    def on_note(self, kind: str, text: str) -> None:
        self.notes.append(f"{kind}: {text}")


@dataclass
class World:
    """One run with a fake judge and a fake proposer."""

    folder: Path
    settings: RunSettings = field(default_factory=lambda: RunSettings(search=ONE_WORKER, caps=Caps(candidates=30)))
    judge: FakeJudge = field(default_factory=FakeJudge)
    proposer: FakeProposer = field(default_factory=lambda: FakeProposer(random_walk))
    task_options: dict[str, Any] = field(default_factory=dict)
    recorder: Recorder = field(default_factory=Recorder)
    stop: asyncio.Event | None = None
    judges_started: int = 0
    url: str | None = None
    """Another database than the file in the run's folder."""

    @property
    def task(self) -> Task:
        options = {"metric": "time" if self.judge.timed else "value", **self.task_options}
        return fake_task(self.folder / "task", **options)

    @property
    def directory(self) -> Path:
        return self.folder / "run"

    async def start_judge(self) -> FakeJudge:
        """The same judge again, so that it remembers everything it was asked."""
        self.judges_started += 1
        self.judge.closed = False
        return self.judge

    def create(self) -> Run:
        return Run.create(self.directory, self.task, self.settings, url=self.url)

    def reopen(self, caps: Caps | None = None) -> Run:
        settings = replace_caps(self.settings, caps) if caps else None
        return Run.open(self.directory, self.task, settings)

    async def search(self, run: Run) -> Outcome:
        proposers = [WeightedProposer(self.proposer)]
        return await search(run, self.start_judge, proposers, observers=[self.recorder], stop=self.stop)

    async def run(self) -> Outcome:
        with self.create() as run:
            return await self.search(run)

    async def resume(self, caps: Caps | None = None) -> Outcome:
        with self.reopen(caps) as run:
            return await self.search(run)

    def view(self) -> RunView:
        return RunView.open(self.directory)

    def programs(self) -> list[Program]:
        with self.view() as view:
            return list(view.storage.programs())


def replace_caps(settings: RunSettings, caps: Caps) -> RunSettings:
    return settings.model_copy(update={"caps": caps})


def search_settings(**changes: Any) -> SearchSettings:
    return SearchSettings(**{**ONE_WORKER.model_dump(), **changes})


def settings(caps: Caps, **changes: Any) -> RunSettings:
    return RunSettings(search=search_settings(**changes), caps=caps)


def history(view: RunView) -> dict[str, Any]:
    """Everything a run came to, without times: two runs with equal histories are the same search."""
    storage = view.storage
    return {
        "programs": list(storage.programs()),
        "order": [p.number for p in storage.programs(state=ProgramState.FINISHED)],
        "cells": storage.cells(),
        "islands": storage.islands(),
        "migrations": storage.migrations(),
        "best": view.record.best,
        "events": [(e.kind, e.program) for e in storage.events() if e.kind in {"best", "reset"}],
        "ledger": sorted((e.kind, e.program or 0) for e in storage.ledger()),
        "totals": replace(storage.totals(), charge=round_charge(storage.totals().charge)),
    }


def round_charge(charge: Any) -> Any:
    return replace(charge, device_s=round(charge.device_s, 9), dollars=round(charge.dollars, 9))


def failing(times: int, error: Callable[[], BaseException], method: str = "evaluate", text: str = "") -> Any:
    """A hook for :class:`FakeJudge` that raises the first ``times`` that ``method`` is asked about ``text``."""
    left = [times]

    async def before(called: str, source: str) -> None:
        if called == method and text in source and left[0] > 0:
            left[0] -= 1
            raise error()

    return before


def book_model_call(run: Run, program: int, dollars: float, tokens: int) -> None:
    """An answered call of a model, as if somebody had made it."""
    call = run.booking.model_asked(model_request(program))
    reply = ModelReply(CallStatus.ANSWERED, "a", finish="stop", tokens_in=tokens, dollars=dollars)
    run.budget.book(run.booking.model_ended(call, program, reply))


def model_request(program: int, **changes: Any) -> ModelRequest:
    values: dict[str, Any] = {
        "model": "p/m",
        "program": program,
        "step": "propose",
        "operator": "diff",
        "digest": "d" * 64,
        "system": "be fast",
        "messages": '[{"role": "user", "text": "q"}]',
        "parameters": "{}",
        "worst_dollars": 0.5,
        "worst_tokens": 1000,
        **changes,
    }
    return ModelRequest(**values)


def scores(*values: float | str, then: str | None = None) -> Callable[[ProposeContext], str | None]:
    """Makes the given programs in turn: a score, or a status; after them ``then``."""
    left = list(values)

    def make(context: ProposeContext) -> str | None:
        if not left:
            return then
        value = left.pop(0)
        text = f"number {context.number}"
        return (
            fake_source(value, text=text)
            if isinstance(value, float)
            else fake_source(0.0, status=Status(value), text=text)
        )

    return make


def of_proposer(world: World) -> list[int]:
    return [program.number for program in world.proposer.told]
