"""``evolve run`` and ``evolve resume``: the search itself."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evaluators.client import JudgeSettings
from evaluators.errors import UsageError
from evaluators.task import Task
from evaluators.task_loading import find_task, load_task
from evolve.budget import Budget
from evolve.cli.exits import Exit
from evolve.cli.judging import StartJudge, Stop, ready_judges, services, starting, stop_on_signals
from evolve.cli.options import config_options, named_proposers, output_options, run_argument
from evolve.cli.runs import account_of, find_run
from evolve.config import Config, dump_config, load_config, parse_config
from evolve.database.versions import check_reachable
from evolve.display.output import DisplayMode, Output, open_output
from evolve.display.progress import live_progress
from evolve.display.summary import summarise
from evolve.llm.provider import refuse_keys
from evolve.loop import Idle, WeightedProposer, search
from evolve.proposers.tuner import Tuner
from evolve.run import Run
from evolve.run_directory import RunDirectory
from evolve.settings import Caps
from evolve.types import RunStatus, StopReason
from evolve.view import RunView

if TYPE_CHECKING:
    from evolve.models import Models


@click.command()
@click.argument("task")
@config_options
@click.option(
    "--proposers",
    metavar="NAME,…",
    callback=named_proposers,
    help="Who proposes, for instance agent: nobody else than people and agents outside (evolve ask, evolve tell).",
)
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Where to keep the run; new or empty.")
@output_options
def run(
    task: str,
    config_file: Path | None,
    assignments: tuple[str, ...],
    proposers: tuple[str, ...],
    directory: Path | None,
    as_json: bool,
    display: DisplayMode,
) -> int:
    """Search for a better program for a task.

    TASK is the name of a shipped task, or a task's folder. The search goes on until a cap is met (for instance
    --set caps.seconds=60), or until Ctrl-C; either way everything is kept, and evolve resume goes on.
    """
    output = open_output(display, as_json)
    config = load_config(config_file, (*proposers, *assignments))
    folder = find_task(task)
    config = config.model_copy(update={"task": str(folder) if folder == Path(task).resolve() else task})
    loaded = load_task(folder)
    where = directory or Path(config.store.folder) / f"{loaded.name}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    _check_writable(where)
    if config.store.database:
        check_reachable(config.store.database)

    plan = _Plan(where, loaded, config, output)

    def create() -> tuple[_Plan, Run]:
        url = config.store.database
        return plan, Run.create(where, loaded, config.run_settings, url=url, config=dump_config(config))

    return asyncio.run(_search(plan, create, services().start_judge))


@click.command()
@run_argument
@config_options
@output_options
def resume(
    run: Path, config_file: Path | None, assignments: tuple[str, ...], as_json: bool, display: DisplayMode
) -> int:
    """Go on with a run that was stopped or has run out of budget.

    RUN is the run's directory. Its configuration is the one it was started with; --set changes it, for instance
    --set caps.seconds=600 to allow ten minutes in all, or --set caps.seconds=none for as long as it takes.
    """
    output = open_output(display, as_json)
    where = find_run(run)
    view = RunView.open(where)
    stored = parse_config(view.record.config)
    if RunDirectory(where).locked():
        raise UsageError(f"run {where}: another process has it open; wait for it or stop it first")
    config = load_config(config_file, assignments, base=stored)
    task = load_task(find_task(config.task))
    url = config.store.database if config.store.database != stored.store.database else None

    early = f"stopped before the search went on; the run is as it was. Go on with: evolve resume {where}"
    plan = _Plan(where, task, config, output, early)

    def reopen() -> tuple[_Plan, Run]:
        # The run may have been steered while the judge started.
        config = load_config(config_file, assignments, base=parse_config(RunView.open(where, url=url).record.config))
        run = Run.open(where, task, config.run_settings, url=url, config=dump_config(config))
        return replace(plan, config=config), run

    met = _met_cap(view, config.run_settings.caps)
    if met is not None:
        return _as_it_is(plan, reopen, met)
    return asyncio.run(_search(plan, reopen, services().start_judge))


@dataclass(frozen=True)
class _Plan:
    where: Path
    task: Task
    config: Config
    output: Output
    early: str = Stop.early
    """What to say to somebody who stops it while the judge starts."""

    @property
    def judge_settings(self) -> JudgeSettings:
        return JudgeSettings(self.task.folder, self.config.search.lanes_of(self.task), self.config.judge.sandbox)

    @property
    def idle(self) -> Idle:
        """How long agents outside are waited for."""
        return Idle(wait=self.config.shares["agent"] > 0)

    @property
    def models(self) -> Models | None:
        """The language models that take part; ``None`` where none does."""
        if self.config.shares["llm"] <= 0:
            return None
        from evolve.models import Models  # noqa: PLC0415 - most of a second, which other runs need not wait for

        return Models(self.task, self.config.llm, self.config.prompts, os.environ)

    @asynccontextmanager
    async def proposers(self, run: Run) -> AsyncIterator[list[WeightedProposer]]:
        """Everybody who proposes, or may be given a share while the search goes on."""
        shares = self.config.shares
        everybody = [WeightedProposer(Tuner(self.task.flag_choices, self.config.tuner), shares["tuner"])]
        if self.models is None:
            yield everybody
            return
        async with self.models.proposer(run) as llm:
            yield [*everybody, WeightedProposer(llm, shares["llm"])]


async def _search(plan: _Plan, open_run: Callable[[], tuple[_Plan, Run]], start_judge: StartJudge) -> int:
    """Start a judge, then open the run, search, and account for it: mistakes show before anything is written."""
    task, output = plan.task, plan.output
    refuse_keys(plan.config.llm, os.environ)
    with stop_on_signals(plan.early) as stop:
        if plan.models is not None:
            await plan.models.check(plan.config.caps)
            if plan.models.notice:
                output.say(plan.models.notice)
        output.say(starting(task))
        async with ready_judges(start_judge, plan.judge_settings, stop) as start:
            plan, opened = open_run()
            with opened as run:
                async with plan.proposers(run) as proposers:
                    with live_progress(output, task.name) as observer:
                        outcome = await search(
                            run, start, proposers, observers=[observer], stop=stop.event, idle=plan.idle
                        )
                output.show(summarise(account_of(run, plan.where, plan.config.task, task, outcome.text)))
                found = run.best() is not None
    if outcome.status is RunStatus.INTERRUPTED:
        output.say(f"stopped; everything is kept. Go on with: evolve resume {plan.where}")
        return stop.exit_code if stop.event.is_set() else Exit.PAUSED
    return Exit.DONE if found else Exit.NO


def _met_cap(view: RunView, caps: Caps) -> StopReason | None:
    """The cap that leaves a search nothing to do: it is met, and what is unfinished may not be judged any more."""
    met = Budget(caps, view.progress().spent, lambda: 0.0).reached()
    return met if met is StopReason.SECONDS or not view.storage.unfinished() else None


def _as_it_is(plan: _Plan, open_run: Callable[[], tuple[_Plan, Run]], met: StopReason) -> int:
    """Account for a run that cannot go on; no judge is needed for that."""
    refuse_keys(plan.config.llm, os.environ)
    plan, opened = open_run()
    with opened as run:
        run.set_status(RunStatus.FINISHED, met.value)
        plan.output.show(summarise(account_of(run, plan.where, plan.config.task, plan.task, met.value)))
        plan.output.say(
            f"the cap on {met.value} is met, nothing was started; raise it with --set caps.{met.value}=VALUE"
        )
        return Exit.DONE if run.best() is not None else Exit.NO


def _check_writable(directory: Path) -> None:
    """Refuse early what could not be made later; nothing is left there.

    Raises:
        UsageError: The directory is there and not empty, or cannot be made.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory}: is there already; name a new or empty directory with --dir")
    ancestor = next(folder for folder in (directory, *directory.absolute().parents) if folder.exists())
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".evolve-", dir=ancestor))  # what may be written is known only by trying
    except OSError as error:
        raise UsageError(
            f"{directory}: cannot be made: {ancestor} is not a folder you may write to ({error.strerror}); use --dir"
        ) from None
