"""What whole runs with models share: a server in a thread, a configuration for it, and answers that are programs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evolve.testing_llm.model_server import Manners, ModelServer
from evolve.testing_llm.replies import Asked, Reply, Script
from evolve.view import RunView

ROOT = Path(__file__).resolve().parents[3]
KEY = "sk-test-0123456789abcdef"
PRICE_IN, PRICE_OUT = 2.0, 10.0

WITH_A_FAKE_JUDGE = """
import sys
from evolve.cli import main
from evolve.cli.judging import Services
from evolve.testing import FakeJudge

judge = FakeJudge()

async def start(settings):
    return judge

main(sys.argv[1:], obj=Services(start))
"""
WITH_THE_REAL_JUDGE = "from evolve.cli import main; main()"


@contextmanager
def serving(script: Script, manners: Manners | None = None) -> Iterator[ModelServer]:
    """A model server that answers while this thread does something else."""
    loop = asyncio.new_event_loop()
    server = ModelServer(script, manners or Manners(key=KEY))
    ready, done = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with server:
            ready.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(10)
        loop.close()


def configured(path: Path, server: ModelServer, wire: str = "chat", models: str = "", **tables: dict[str, Any]) -> Path:
    """Write a configuration that asks the server; ``tables`` are further sections, dots as double underscores."""
    url = server.url if wire == "anthropic" else server.openai_url
    sections: dict[str, dict[str, Any]] = {
        "llm.providers.local": {"base_url": url, "key_env": "LOCAL_KEY", "wire": wire},
        'llm.prices."local/m1"': {"input": PRICE_IN, "output": PRICE_OUT},
        'llm.prices."local/m2"': {"input": PRICE_IN, "output": PRICE_OUT},
        "llm.patience": {"attempts": 8, "backoff_s": 0.02, "backoff_most_s": 0.1, "silence_s": 3.0},
        "proposers": {"tuner": 0},
    }
    for name, table in tables.items():
        sections.setdefault(name.replace("__", "."), {}).update(table)
    lines = [models or '[[llm.models]]\nname = "local/m1"\nmax_output_tokens = 600']
    for name, table in sections.items():
        lines += [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')


def program(number: int, score: float, status: str = "passed") -> str:
    """A program that the fake judge gives this verdict, and that equals no other."""
    return f"def f(out):\n    # fake: score={score} status={status}\n    out[:] = {number}\n"


def answer(number: int, score: float, status: str = "passed", note: str = "Another value.") -> str:
    """A model's answer that holds such a program."""
    return f"{note}\n\n```python\n{program(number, score, status)}```\n"


def improving(asked: Asked) -> Reply:
    """Every answer is a program a little better than all before."""
    return Reply(answer(asked.number, 1.0 + asked.number / 1000))


def evolve(folder: Path, *arguments: object, program: str = WITH_A_FAKE_JUDGE, **environment: str) -> Any:
    """``evolve ARGUMENTS`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env=surroundings(**environment),
    )


def surroundings(**more: str) -> dict[str, str]:
    """The environment of such a process: the server's key and no other."""
    plain = {k: v for k, v in os.environ.items() if not k.lower().endswith(("_proxy", "_key", "_base_url"))}
    return {**plain, "PYTHONPATH": str(ROOT), "LOCAL_KEY": KEY, **more}


def look(folder: Path) -> RunView:
    """The run in ``folder / "r"``."""
    return RunView.open(folder / "r")


def owed(server: ModelServer) -> float:
    """What the server would charge."""
    return sum(b.input_tokens * PRICE_IN + b.output_tokens * PRICE_OUT for b in server.billed) / 1e6
