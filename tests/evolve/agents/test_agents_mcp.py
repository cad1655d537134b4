"""The protocol server, driven by the SDK's own client over standard input and output, with the real judge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from evolve.view import RunView
from tests.evolve import postgres

ROOT = Path(__file__).resolve().parents[3]
COUNT = ROOT / "tests" / "data" / "count"
EVOLVE = [sys.executable, "-c", "from evolve.cli import main; main()"]
KEY = "words-that-are-a-key"
TOOLS = {"read_task", "ask", "tell", "programs", "program", "measures", "profile", "lessons"}


def evolve(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*EVOLVE, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of which only the seed is judged."""
    done = evolve(tmp_path, "run", str(COUNT), "--proposers", "tuner", "--dir", "night", "--display", "none")
    assert done.returncode == 0, done.stderr
    return tmp_path / "night"


def connect(run: Path) -> Client:
    parameters = StdioServerParameters(
        command=EVOLVE[0],
        args=[*EVOLVE[1:], "mcp", "night", "--agent", "tester"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=run.parent,
    )
    return Client(stdio_client(parameters))


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    structured = result.structured_content
    assert structured is not None
    return structured.get("result", structured)


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    (content,) = result.content
    text: str = content.text  # type: ignore[union-attr]
    assert "\n" not in text
    assert "Traceback" not in text
    return text


async def test_a_whole_session(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    async with connect(run) as client:
        listed = await client.list_tools()
        assert {tool.name for tool in listed.tools} == TOOLS
        assert all(tool.description and tool.output_schema for tool in listed.tools)

        task = await call(client, "read_task")
        assert task["signature"].startswith("def count(out)")
        assert "program is 1: score 3" in task["standing"]

        asked = await call(client, "ask", agent="claude")
        assert asked["parent"] == 1
        assert "out[:] = 3" in asked["briefing"]
        source = "def count(out):\n    out[:] = 8\n"
        told = await call(client, "tell", lease=asked["lease"], source=source, note=f"more of {KEY}")
        assert told["program"]["note"] == "more of [key]"
        assert told["program"]["status"] == "passed"
        assert told["program"]["model"] == "claude"
        assert told["program"]["confirmed"]
        assert told["best"] == told["program"]["number"] == 2
        assert "score 8" in told["standing"]

        again = await call(client, "ask", parent=2)
        assert again["parent"] == 2
        bad = await call(client, "tell", lease=again["lease"], source="def count(out:\n")
        assert bad["program"]["status"] == "build_error"
        assert "SyntaxError" in bad["program"]["detail"] + bad["program"]["message"]
        assert bad["program"]["model"] == "tester"
        assert bad["best"] == 2

        assert [line["number"] for line in await call(client, "programs")] == [2, 1, 3]
        assert [line["number"] for line in await call(client, "programs", status="build_error")] == [3]
        assert (await call(client, "program", number=2))["source"] == "def count(out):\n    out[:] = 8\n"
        assert (await call(client, "measures", number=2))["status"] == "passed"
        assert (await call(client, "profile", number=2)) == {"number": 2, "profile": None, "text": ""}
        assert (await call(client, "lessons"))["failures"][0]["status"] == "build_error"
    with RunView.open(run) as view:
        assert [p.proposer for p in view.storage.programs()] == ["seed", "agent", "agent"]
        assert view.program(2).operator == "agent"
        assert view.record.reason != "", "the judge of the session ended with it"


async def test_a_session_on_a_server_that_is_restarted(
    tmp_path: Path, postgres_url: str, postgres_server: postgres.Server
) -> None:
    where = ("--set", f"store.database={postgres_url}", "--dir", "night")
    done = evolve(tmp_path, "run", str(COUNT), "--proposers", "tuner", *where, "--display", "none")
    assert done.returncode == 0, done.stderr
    async with connect(tmp_path / "night") as client:
        asked = await call(client, "ask", agent="claude")
        postgres_server.stop()
        assert "go on with evolve resume" in await refusal(client, "programs")
        postgres_server.start()
        told = await call(client, "tell", lease=asked["lease"], source="def count(out):\n    out[:] = 8\n")
        assert (told["program"]["status"], told["best"]) == ("passed", 2)


async def test_mistakes_are_one_line_each(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    async with connect(run) as client:
        assert client.server_info.version
        assert "no lease 9" in await refusal(client, "tell", lease=9, source="x = 1\n")
        assert "no program 77" in await refusal(client, "program", number=77)
        assert "number" in await refusal(client, "program", number="many")
        assert "lease" in await refusal(client, "tell", source="x = 1\n")
        lease = (await call(client, "ask"))["lease"]
        assert "empty" in await refusal(client, "tell", lease=lease, source=" \n")
        assert "takes python" in await refusal(client, "tell", lease=lease, source="x = 1\n", language="cpp")
        assert "nosuch" in await refusal(client, "nosuch")
        assert await refusal(client, "ask", lease_s=-1) == "argument lease_s = -1: must be greater than 0"
        assert await refusal(client, "program", number=True) == "argument number = true: must be a valid integer"
        leaky = await refusal(client, "tell", lease=lease, source=f"x = '{KEY}'\n")
        assert leaky == "the source holds the key that OPENROUTER_API_KEY holds: take it out, nothing was stored"


def test_without_a_run_the_command_says_how_to_begin_one(tmp_path: Path) -> None:
    done = evolve(tmp_path, "mcp")
    assert done.returncode == 2
    assert done.stderr == "evolve: no run in runs/; name one, or begin one with: evolve run TASK --proposers agent\n"


def test_a_request_with_half_a_character_is_answered(run: Path) -> None:
    """Raw lines: the SDK's own client cannot send one. What is no message at all, before and after, hurts nobody."""

    def request(number: int, method: str, **parameters: Any) -> str:
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})

    client = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    lines = [
        "[" * 1000,
        request(1, "initialize", **client),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        request(2, "tools/call", name="ask", arguments={"agent": "cl\ud800de \0"}),
        request(3, "tools/call", name="tell", arguments={"lease": 1, "source": "\udc00 = (", "wait_s": 0}),
        '{"jsonrpc": "\\ud800"}',
        request(4, "tools/call", name="\ud800", arguments={}),
    ]
    with subprocess.Popen(
        [*EVOLVE, "mcp", "night"],
        cwd=run.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        patience = threading.Timer(60, server.kill)
        patience.daemon = True
        patience.start()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("".join(f"{line}\n" for line in lines[:4]))
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.write("".join(f"{line}\n" for line in lines[4:]))
        server.stdin.flush()
        answers += [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
        assert server.wait() == 0
        patience.cancel()
    by_id = {answer["id"]: answer["result"] for answer in answers}
    assert by_id.keys() == {1, 2, 3, 4}
    assert by_id[2]["structuredContent"]["lease"] == 1
    assert "not judged yet" in by_id[3]["structuredContent"]["remark"]
    assert by_id[4]["isError"]
