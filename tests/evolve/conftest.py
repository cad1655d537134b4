"""A task that is judged by a fake, and the command line as a person would use it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from evaluators.client import Judge, JudgeSettings
from evolve.cli import main
from evolve.cli.judging import Services
from evolve.testing import FakeJudge
from tests.evolve import postgres

TASK_TOML = """
name = "toy"
metric = "value"
evaluator = "evaluator.py:evaluate"
languages = ["python"]
entry = "f"
args = [{ name = "out", role = "out", dtype = "fp32", shape = ["N"] }]
workloads = [{ axes = { N = 4 } }]
seed_program = "seed.py"
best_known = 2.0
best_known_source = "a paper"
"""
SEED = "A = 1  # tune: 1, 2, 3, 4\nB = 1  # tune: 1, 2, 3, 4\n"


@dataclass
class CommandLine:
    """Runs ``evolve`` in this process, in a folder of its own, with a fake judge."""

    folder: Path
    judge: FakeJudge = field(default_factory=FakeJudge)
    started: list[JudgeSettings] = field(default_factory=list)
    failure: Exception | None = None
    """Raised instead of starting a judge."""

    async def start(self, settings: JudgeSettings) -> Judge:
        """What commands get for ``start_judge``."""
        self.started.append(settings)
        if self.failure is not None:
            raise self.failure
        self.judge.closed = False
        return self.judge

    def __call__(self, *arguments: object) -> Result:
        """``evolve ARGUMENTS``."""
        return CliRunner().invoke(main, [str(a) for a in arguments], obj=Services(self.start))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """A PostgreSQL server for as long as the tests run."""
    programs = postgres.programs()
    if programs is None:
        missing = "no initdb of PostgreSQL on this machine (apt-get install postgresql)"
        if os.environ.get(postgres.REQUIRED):
            pytest.fail(missing)
        pytest.skip(missing)
    server = postgres.Server.make(programs)
    yield server
    server.remove()


@pytest.fixture
def postgres_url(postgres_server: postgres.Server) -> str:
    """An empty PostgreSQL database."""
    return postgres_server.new_database()


@pytest.fixture(scope="session")
def postgres_shared_url(postgres_server: postgres.Server) -> str:
    """One PostgreSQL database for all tests that keep to runs of their own: making one takes half a second."""
    return postgres_server.new_database()


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """The toy task's folder."""
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "task.toml").write_text(TASK_TOML)
    (folder / "seed.py").write_text(SEED)
    (folder / "evaluator.py").write_text("def evaluate(context):\n    return {'score': 1.0}\n")
    return folder


@pytest.fixture
def evolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line, in a folder of its own."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return CommandLine(folder)
