"""``evolve prompt``: what a language model would be asked, with nothing asked, booked or stored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from evaluators.errors import UsageError
from evaluators.task import Task
from evaluators.task_loading import find_task, load_task
from evolve.archive import Elite
from evolve.budget import Budget
from evolve.cli.exits import Exit
from evolve.cli.options import output_options, run_argument
from evolve.cli.runs import find_run, program_of
from evolve.config import load_config, parse_config
from evolve.config_document import listed
from evolve.display.output import DisplayMode, open_output
from evolve.display.report import Report, facts
from evolve.errors import BudgetRefusedError
from evolve.llm.settings import ModelName, ModelSettings
from evolve.model_books import RunGate, parameters_of
from evolve.models import Models
from evolve.population import Population
from evolve.prompts.facts import shown_profile
from evolve.prompts.operators import OPERATORS, PROFILE_GUIDED, fitting
from evolve.prompts.rendering import Section
from evolve.proposers.llm import Draft, LlmProposer
from evolve.proposers.llm_parts import Subject
from evolve.settings import SearchSettings
from evolve.streams import Stream, stream
from evolve.types import Program, ProposeContext
from evolve.view import RunView


@click.command()
@run_argument
@click.option("--operator", type=click.Choice(list(OPERATORS)), help="Ask for this; otherwise one that is drawn.")
@click.option("--model", metavar="PROVIDER/MODEL", help="Ask this model; otherwise one that is drawn.")
@click.option("--parent", type=int, metavar="N", help="Work on program N; otherwise on one that is drawn.")
@click.option(
    "assignments",
    "--set",
    "-s",
    multiple=True,
    metavar="KEY=VALUE",
    help="Try another setting, for instance of prompts.",
)
@output_options
def prompt(
    run: Path,
    operator: str | None,
    model: str | None,
    parent: int | None,
    assignments: tuple[str, ...],
    as_json: bool,
    display: DisplayMode,
) -> int:
    """Show exactly what a language model would be asked next.

    RUN is the run's directory. Nothing is sent, booked or changed, and no key is needed. --set tries other settings,
    for instance prompts.folder=DIR for prompts of one's own.
    """
    output = open_output(display, as_json)
    with RunView.open(find_run(run)) as view:
        config = load_config(None, assignments, base=parse_config(view.record.config))
        if not config.llm.models:
            add = listed("llm.models", ModelSettings)
            raise UsageError(f"run {view.record.name}: llm.models names none; add one with {add}")
        models = Models(load_task(find_task(config.task)), config.llm, config.prompts, os.environ)
        models.check_names()
        budget = Budget(config.caps, view.progress().spent, lambda: 0.0)
        proposer = models.dry(view.storage, RunGate(budget))
        population = _population(view, models)
        context = _context(view, models, population, config.search)
        subject = None
        if parent is not None:
            context = replace(context, parent=program_of(view, parent))
            subject = _subject(view, context)
        if operator == PROFILE_GUIDED:
            elites = () if subject else population.parents()
            context = replace(context, parent=_profiled(view, models.task, context.parent, elites))
        draft = _draft(proposer, context, operator, _model(models, model), subject)
        output.show(_report(proposer, draft, context.number))
    return Exit.DONE


def _population(view: RunView, models: Models) -> Population:
    population = Population.stored(models.task, view.storage, view.program)
    if population.best is None:
        raise UsageError(f"run {view.record.name}: its seed program is not judged yet")
    population.obey(view.storage.steering(), view.program)
    return population


def _context(view: RunView, models: Models, population: Population, search: SearchSettings) -> ProposeContext:
    """What the run would hand the proposer for its next program."""
    totals = view.storage.totals()
    number = totals.next_number
    choice = population.choose(number, search, turn=number - totals.variants)
    return ProposeContext(
        task=models.task,
        number=number,
        island=choice.island,
        parent=view.program(choice.parent.number),
        inspirations=tuple(view.program(elite.number) for elite in choice.inspirations),
        rng=stream(search.seed, Stream.PROPOSE, number),
    )


def _subject(view: RunView, context: ProposeContext) -> Subject:
    parent = context.parent
    if parent.verdict is None or parent.judge_failed:
        raise UsageError(f"run {view.record.name}: program {parent.number} has no verdict that could be shown")
    return Subject(parent, parent.language)


def _profiled(view: RunView, task: Task, parent: Program, elites: Sequence[Elite]) -> Program:
    """The parent where it has a profile that can be told, else the best elite that has one."""
    for program in (parent, *(view.program(elite.number) for elite in elites)):
        if shown_profile(program.profile) is not None:
            return program
    name = view.record.name
    if task.metric == "value":
        raise UsageError(f"run {name}: programs of a task that is scored by value have no profile to be guided by")
    if not elites:
        raise UsageError(f"run {name}: program {parent.number} has no profile to be guided by; leave out --parent")
    raise UsageError(
        f"run {name}: no parent has a profile to be guided by; what takes a cell from now on gets one with: "
        f"evolve resume {view.directory} --set search.profiles=true"
    )


def _model(models: Models, name: str | None) -> ModelName | None:
    if name is None:
        return None
    model = ModelName.parse(name)
    known = [ModelName.parse(m.name) for m in models.llm.models]
    if model not in known:
        raise UsageError(f"--model {name}: is not among the run's models: {', '.join(map(str, known))}")
    return model


def _draft(
    proposer: LlmProposer,
    context: ProposeContext,
    operator: str | None,
    model: ModelName | None,
    subject: Subject | None,
) -> Draft:
    try:
        draft = proposer.draft(context, operator, model, subject)
    except BudgetRefusedError as error:
        raise UsageError(
            f"nothing would be asked: {error}; --set caps.{error.reason}=none shows what would be without it"
        ) from None
    if draft is None:
        raise UsageError("nothing would be asked: no model may be used for this, or the program is too long to show")
    return draft


def _report(proposer: LlmProposer, draft: Draft, number: int) -> Report:
    request = proposer.request(draft)
    parameters = parameters_of(request)
    whole = (Section("system", request.system), *draft.prompt.sections)
    sections = {section.name: section.tokens for section in whole}
    fits = draft.arm.operator in fitting(draft.facts)
    data = {
        "number": number,
        "model": str(request.model),
        "operator": draft.arm.operator,
        "fits": fits,
        "parent": draft.subject.parent.number,
        "language": draft.subject.language,
        "parameters": parameters,
        "system": request.system,
        "messages": [{"role": message.role, "text": message.text} for message in request.messages],
        "estimated_tokens": sections,
        "digest": request.digest,
    }
    head = facts(
        [
            ("model", str(request.model)),
            ("operator", f"{draft.arm.operator} on program {draft.subject.parent.number}"),
            ("note", "" if fits else f"the search would not choose {draft.arm.operator} for this program"),
            ("limits", ", ".join(f"{name} {value}" for name, value in parameters.items())),
            ("tokens", f"{sum(sections.values())}, estimated: {', '.join(f'{n} {t}' for n, t in sections.items())}"),
        ]
    )
    turns = [f"----- {message.role} -----\n\n{message.text}" for message in request.messages]
    return Report(data, [head, f"\n----- system -----\n\n{request.system}\n", *turns])
