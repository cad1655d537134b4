"""``evolve mcp``: a run as a server of the Model Context Protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from evaluators.client import Judge, JudgeSettings
from evaluators.errors import UsageError
from evolve.agents.awaiting import OwnJudge
from evolve.agents.desk import Desk
from evolve.agents.host import KeptJudge
from evolve.cli.exits import Exit
from evolve.cli.judging import services
from evolve.cli.runs import RUNS_FOLDER, find_run

LINGER_S = 300.0


@click.command()
@click.argument("run", metavar="[RUN]", type=click.Path(path_type=Path), required=False)
@click.option("--agent", default="mcp", show_default=True, metavar="NAME", help="Who takes part; goes on record.")
@click.option(
    "--linger",
    "linger_s",
    type=click.FloatRange(min=0),
    default=LINGER_S,
    show_default=True,
    metavar="SECONDS",
    help="How long a judge of our own is kept between two answers.",
)
def mcp(run: Path | None, agent: str, linger_s: float) -> int:
    """Let a coding agent take part in a run over the Model Context Protocol.

    Speaks the protocol on standard input and output; the agent's program starts it. RUN is by default the newest in
    runs/. The search may be going on; where it is not, this server judges what it is told.
    """
    try:
        from evolve.agents.server import make_server  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise UsageError("evolve mcp: its package is not installed: pip install -e '.[mcp]' in the clone") from None
    start_judge = services().start_judge
    with Desk.open(find_run(run or _newest())) as desk:
        settings = JudgeSettings(desk.task.folder, desk.config.search.lanes_of(desk.task), desk.config.judge.sandbox)

        async def start() -> Judge:
            return await start_judge(settings)

        async def serve() -> None:
            own = OwnJudge(desk, start, asyncio.Event(), linger_s=linger_s)
            await make_server(desk, KeptJudge(own), agent).run_stdio_async()

        asyncio.run(serve())
    return Exit.DONE


def _newest() -> Path:
    found = [folder for folder in RUNS_FOLDER.glob("*") if (folder / "config.toml").is_file()]
    if not found:
        raise UsageError("no run in runs/; name one, or begin one with: evolve run TASK --proposers agent")
    return max(found, key=lambda folder: (folder / "config.toml").stat().st_mtime)
