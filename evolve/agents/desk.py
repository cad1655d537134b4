"""A run as agents outside deal with it: they ask for work and hand in sources, beside its search or without one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from evaluators.errors import UsageError
from evaluators.task import Language, Task
from evaluators.task_loading import find_task, load_task
from evaluators.task_rules import program_language
from evolve.agents.briefing import Briefing, brief
from evolve.agents.entrance import Entrance
from evolve.budget import Budget, Charge, Spent
from evolve.config import Config, parse_config
from evolve.database.mail import Answer, Lease, NewAnswer, NewLease
from evolve.database.mailbox import Mailbox
from evolve.database.versions import open_database
from evolve.intake import AGENT
from evolve.llm.provider import redactor
from evolve.population import Population
from evolve.prompts.rendering import PromptBook
from evolve.run import Run
from evolve.run_directory import EXTENSIONS, RunDirectory
from evolve.streams import Stream
from evolve.types import Program, ProgramState

LONGEST_LEASE_S = 366 * 86_400
INJECT = "inject"
"""The operator of a program that somebody hands in of their own accord."""


@dataclass(frozen=True)
class Sheet:
    """What an agent hands in."""

    source: str
    language: Language | None = None
    """``None``: its parent's, or without one the task's first."""
    note: str = ""
    agent: str = ""
    """Who hands it in; empty: who asked."""


class Desk:
    """Opens a run's database for reading and for its mail. Use as a context manager."""

    def __init__(
        self,
        directory: Path,
        mailbox: Mailbox,
        config: Config,
        task: Task,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """See :meth:`open`; ``environment`` holds the keys that must not be stored."""
        self.directory = directory
        self.mailbox = mailbox
        self.config = config
        self.task = task
        self.entrance = Entrance(redactor(config.llm, environment))

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Open the run in ``directory``.

        Raises:
            UsageError: there is none, or its task cannot be read or is another than when it began.
        """
        location, run_id = RunDirectory(directory).locate()
        mailbox = Mailbox(open_database(location), run_id)
        try:
            record = mailbox.run()
            config = parse_config(record.config)
            task = load_task(find_task(config.task or record.task_name))
            if task.hash != record.task_hash:
                raise UsageError(f"run {directory}: its task {record.task_name} was another when it began")
        except BaseException:
            mailbox.close()
            raise
        return cls(directory, mailbox, config, task)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self.mailbox.close()

    def ask(self, agent: str, lease_s: float, parent: int | None = None) -> Briefing:
        """Give out a lease: what to work on, and until when the run counts on an answer.

        Raises:
            UsageError: nothing is placed yet, a cap leaves no room, or there is no such parent to work on.
        """
        name = self.entrance.name(agent)
        if not 0 < lease_s <= LONGEST_LEASE_S:
            raise UsageError(f"lease of {lease_s:g} s: must be above 0 and at most {LONGEST_LEASE_S} (a year)")
        book = PromptBook.configured(self.config.prompts, self.task.folder)
        self._check_room()
        population = self._population()
        given = self.mailbox.count_leases() + 1
        choice = population.choose(given, self.mailbox.run().settings.search, Stream.LEASE)
        chosen = choice.parent.number
        if parent is not None and parent != chosen:
            chosen = self._workable(parent)
        others = tuple(elite.number for elite in choice.inspirations if elite.number != chosen)
        lease = self.mailbox.add_lease(NewLease(name, choice.island, chosen, others, lease_s))
        return brief(self.mailbox, self.task, lease, book)

    def tell(self, lease: int, sheet: Sheet) -> Answer:
        """Hand in a source for a lease. The same source again is the same answer; a late one is taken all the same.

        Raises:
            UsageError: the lease is unknown or answered, or the source cannot be taken.
        """
        found = self.lease(lease)
        language = sheet.language or self.mailbox.program(found.parent).language
        agent = self.entrance.name(sheet.agent or found.agent)
        source, note = self.entrance.source(sheet.source), self.entrance.remark(sheet.note)
        new = NewAnswer(agent, AGENT, self._spoken(language), source, note, found)
        return self.mailbox.add_answer(new)

    def inject(self, sheet: Sheet, parent: int | None = None) -> Answer:
        """Hand in a source of one's own accord.

        Raises:
            UsageError: the source cannot be taken, or there is no such parent.
        """
        parents = () if parent is None else (self.program(parent).number,)
        language = sheet.language or (self.program(parent).language if parent else self.task.languages[0])
        agent = self.entrance.name(sheet.agent)
        source, note = self.entrance.source(sheet.source), self.entrance.remark(sheet.note)
        new = NewAnswer(agent, INJECT, self._spoken(language), source, note, parents=parents)
        return self.mailbox.add_answer(new)

    def lease(self, number: int) -> Lease:
        """One lease.

        Raises:
            UsageError: there is none of that number.
        """
        try:
            return self.mailbox.lease(number)
        except KeyError:
            raise UsageError(
                f"run {self.directory}: no lease {number}; get one with: evolve ask {self.directory}"
            ) from None

    def program(self, number: int) -> Program:
        """One program.

        Raises:
            UsageError: there is none of that number.
        """
        try:
            return self.mailbox.program(number)
        except KeyError:
            raise UsageError(f"run {self.directory}: no program {number}") from None

    def language_of(self, file: Path) -> Language | None:
        """The language that a file's suffix says, among the task's; ``None`` where it says none."""
        try:
            return program_language(self.task, file.name)
        except ValueError:
            return None

    def work_file(self, lease: Lease) -> Path:
        """Where a lease's program is to be written."""
        suffix = EXTENSIONS[self.mailbox.program(lease.parent).language]
        return self.directory / "agents" / f"lease-{lease.id}" / f"program{suffix}"

    def lay_out(self, briefing: Briefing) -> Path:
        """Write a lease's briefing, and a copy of the parent to begin with; returns the file to work on.

        Raises:
            UsageError: the run's folder may not be written to.
        """
        file = self.work_file(briefing.lease)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(briefing.context.parent.source, encoding="utf-8")
            (file.parent / "briefing.md").write_text(briefing.text + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{file}: cannot be written: {error.strerror}") from None
        return file

    def searching(self) -> bool:
        """Whether a process writes the run now. A glance: the next instant it may be another answer."""
        return RunDirectory(self.directory).locked() or self.mailbox.writer() is not None

    def open_run(self) -> Run:
        """Become the process that writes the run.

        Raises:
            RunLockedError: another process is.
        """
        return Run.open(self.directory, self.task)

    def _population(self) -> Population:
        population = Population.stored(self.task, self.mailbox, self.mailbox.program)
        if population.best is None:
            raise UsageError(f"run {self.directory}: the seed program is not judged yet; ask again once it is")
        population.obey(self.mailbox.steering(), self.mailbox.program)
        return population

    def _check_room(self) -> None:
        record, totals = self.mailbox.run(), self.mailbox.totals()
        best = self.mailbox.program(record.best).score if record.best else None
        spent = Spent(totals.charge, record.active_s, totals.since_best, best)
        budget = Budget(record.settings.caps, spent, lambda: 0.0)
        promised = len(self.mailbox.open_leases(self.mailbox.now())) + len(self.mailbox.waiting_answers())
        refusal = budget.reached() or budget.refusal(Charge(candidates=promised + 1))
        if refusal is not None:
            where = self.directory
            raise UsageError(
                f"run {where}: the cap on {refusal.value} leaves no room for another program ({promised} promised to "
                f"agents); raise it with: evolve steer {where} cap {refusal.value}=VALUE"
            )

    def _workable(self, number: int) -> int:
        program = self.program(number)
        if program.state is ProgramState.QUEUED or program.verdict is None or program.judge_failed:
            raise UsageError(f"run {self.directory}: program {number} has no verdict yet; work on another")
        return number

    def _spoken(self, language: Language) -> Language:
        if language not in self.task.languages:
            raise UsageError(f"language {language}: task {self.task.name} takes {', '.join(self.task.languages)}")
        return language
