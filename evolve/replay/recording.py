"""A stored run, as a replay reads it: whatever is missing is said in one line."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from evaluators.errors import UsageError
from evaluators.evaluation import Duel, Environment, Evaluation
from evaluators.profile import Profile
from evaluators.source import source_hash
from evaluators.task import Language, Task
from evolve.database.dump import load_dump
from evolve.database.reader import StorageReader
from evolve.database.steps import Opening, Step
from evolve.database.versions import open_database
from evolve.run import SEED_NUMBER
from evolve.run_directory import RunDirectory
from evolve.types import Program


def open_recording(path: Path) -> Recording:
    """A run's directory, or a file that ``evolve db dump`` wrote, as a recording.

    Raises:
        UsageError: it is neither, or cannot be replayed.
    """
    if path.is_file():
        return Recording(load_dump(path), path.name)
    location, run_id = RunDirectory(path).locate()
    return Recording(StorageReader(open_database(location, read_only=True), run_id), str(path))


class Recording:
    """What a run holds, by program number. Reads lazily; a long run's programs are not all in memory."""

    def __init__(self, storage: StorageReader, name: str) -> None:
        """Read the run behind ``storage``; ``name`` is what messages call it.

        Raises:
            UsageError: it was made by a version that did not note its steps, or was never begun.
        """
        self.storage = storage
        self.name = name
        self.record = storage.run()
        if self.record.alive(time.time()):
            raise self.lack("its search goes on, or was killed this half minute: replay it when it has ended")
        self.steps: Sequence[Step] = storage.steps()
        if not self.steps or not self.record.task:
            raise self.lack("it was never begun, or is older than replays: its steps were not noted")
        self._numbers = {
            (row["source_hash"], row["language"]): row["number"]
            for row in storage.table()
            if row["duplicate_of"] is None
        }

    def lack(self, what: str) -> UsageError:
        """The error for something that a replay needs and the run does not have."""
        return UsageError(f"run {self.name}: cannot be replayed: {what}")

    def task(self, folder: Path) -> Task:
        """The task as it was when the run began, with its files in ``folder``."""
        try:
            return Task.model_validate({**json.loads(self.record.task), "folder": folder})
        except (ValueError, ValidationError):
            raise self.lack("its task was recorded by a version with other fields") from None

    def task_with_seed(self, folder: Path) -> Task:
        """The task in a folder that holds its seed program and nothing else: enough where no prompt is made anew."""
        task = self.task(folder)
        file = folder / task.seed_program
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.seed().source, encoding="utf-8")
        return task

    def opening(self, step: Step) -> Opening:
        """What is noted with a step of that kind."""
        try:
            return Opening.model_validate_json(step.text)
        except ValidationError:
            raise self.lack("its settings were recorded by a version with other fields") from None

    def program(self, number: int) -> Program:
        """One program as the run has it."""
        try:
            return self.storage.program(number)
        except KeyError:
            raise self.lack(f"program {number} is missing") from None

    def seed(self) -> Program:
        """The program the run started from."""
        return self.program(SEED_NUMBER)

    def number_of(self, source: str, language: Language) -> int | None:
        """The program that was judged with this source."""
        number: int | None = self._numbers.get((source_hash(source), language))
        return number

    def evaluation(self, number: int) -> Evaluation | None:
        """What the judge said of a program; ``None`` where it failed until we gave up."""
        program = self.program(number)
        if program.evaluation is None:
            raise self.lack(f"the evaluation of program {number} is missing")
        return None if program.judge_failed and program.confirmation is None else program.evaluation

    def confirmation(self, number: int) -> Evaluation | None:
        """A program's second verdict; ``None`` where the judge failed until we gave up."""
        program = self.program(number)
        if program.confirmation is None:
            raise self.lack(f"the confirmation of program {number} is missing")
        return None if program.judge_failed else program.confirmation

    def profile(self, number: int) -> Profile:
        """A program's profile."""
        profile = self.program(number).profile
        if profile is None:
            raise self.lack(f"the profile of program {number} is missing")
        return profile

    def duel(self, challenger: int, occupant: int) -> Duel:
        """What the judge said of two programs."""
        for record in self.storage.duels(challenger):
            if record.occupant == occupant:
                return record.duel
        raise self.lack(f"the duel of programs {challenger} and {occupant} is missing")

    def environment(self) -> Environment:
        """Where the seed was judged."""
        evaluation = self.seed().evaluation
        if evaluation is None:
            return Environment(device_class="unknown")
        return evaluation.environment
