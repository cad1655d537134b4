"""Wrong arguments of the protocol's tools: one line that names the argument and its value, and nothing done."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from evolve.agents.awaiting import OwnJudge
from evolve.agents.desk import Desk
from evolve.agents.host import KeptJudge
from evolve.agents.server import make_server
from evolve.testing import fake_source
from tests.evolve.conftest import CommandLine

HUGE = 10**30
TELL = {"lease": 1, "source": "x = 1\n"}
CASES: list[tuple[str, dict[str, Any], str]] = [
    ("program", {"number": True}, "argument number = true: must be a valid integer"),
    ("program", {"number": "2"}, 'argument number = "2": must be a valid integer'),
    ("program", {"number": 1.5}, "argument number = 1.5: must be a valid integer"),
    ("program", {"number": nan}, "argument number = NaN: must be a "),
    ("program", {"number": None}, "argument number = null: must be a valid integer"),
    ("program", {"number": [1]}, "argument number = [1]: must be a valid integer"),
    ("program", {"number": 0}, "argument number = 0: must be greater than or equal to 1"),
    ("program", {"number": -HUGE}, "argument number = -1000"),
    ("program", {}, "argument number is missing"),
    ("measures", {"number": HUGE}, "must be less than or equal to 2147483647"),
    ("profile", {"number": -1}, "argument number = -1: must be greater than or equal to 1"),
    ("program", {"number": 2}, "no program 2"),
    ("ask", {"lease_s": nan}, "argument lease_s = NaN: must be a finite number"),
    ("ask", {"lease_s": inf}, "argument lease_s = Infinity: must be "),
    ("ask", {"lease_s": 0}, "argument lease_s = 0: must be greater than 0"),
    ("ask", {"lease_s": 1e12}, "argument lease_s = 1000000000000.0: must be less than or equal to 31622400"),
    ("ask", {"lease_s": HUGE**20}, "argument lease_s = 1000"),
    ("ask", {"lease_s": "3600"}, 'argument lease_s = "3600": must be a valid number'),
    ("ask", {"lease_s": True}, "argument lease_s = true: must be a valid number"),
    ("ask", {"parent": 0}, "argument parent = 0: must be greater than or equal to 1"),
    ("ask", {"parent": "1"}, 'argument parent = "1": must be a valid integer'),
    ("ask", {"agent": 7}, "argument agent = 7: must be a valid string"),
    ("tell", {**TELL, "lease": False}, "argument lease = false: must be a valid integer"),
    ("tell", {**TELL, "lease": 2}, "no lease 2"),
    ("tell", {**TELL, "wait_s": nan}, "argument wait_s = NaN: must be a finite number"),
    ("tell", {**TELL, "wait_s": -1}, "argument wait_s = -1: must be greater than or equal to 0"),
    ("tell", {**TELL, "wait_s": 1e9}, "argument wait_s = 1000000000.0: must be less than or equal to 3600"),
    ("tell", {**TELL, "source": 5}, "argument source = 5: must be a valid string"),
    ("tell", {**TELL, "language": "rust"}, 'argument language = "rust": must be '),
    ("tell", {"lease": 1}, "argument source is missing"),
    ("programs", {"limit": 0}, "argument limit = 0: must be greater than or equal to 1"),
    ("programs", {"limit": HUGE}, "must be less than or equal to 1000"),
    ("programs", {"limit": nan}, "argument limit = NaN: must be a "),
    ("programs", {"status": "pased"}, "argument status = \"pased\": must be 'passed', 'rejected'"),
    ("read_task", {"language": "rust"}, 'argument language = "rust": must be '),
]


@pytest.fixture
def server(evolve: CommandLine, toy: Path) -> Iterator[MCPServer[None]]:
    """The server on a run of which the seed is judged, with lease 1 out."""
    (toy / "seed.py").write_text(fake_source(1.0))
    assert evolve("run", toy, "--dir", "night", "--proposers", "tuner").exit_code == 0
    assert evolve("ask", "night").exit_code == 0

    async def no_judge() -> Any:
        raise AssertionError("nothing here is to be judged")

    with Desk.open(evolve.folder / "night") as desk:
        yield make_server(desk, KeptJudge(OwnJudge(desk, no_judge, None)), "tester")  # type: ignore[arg-type]
        assert desk.mailbox.count_leases() == 1
        assert desk.mailbox.waiting_answers() == []


async def test_one_line_names_the_argument(server: MCPServer[None]) -> None:
    for tool, arguments, said in CASES:
        with pytest.raises(ToolError) as caught:
            await server.call_tool(tool, arguments)
        text = str(caught.value)
        assert said in text, (tool, arguments)
        assert "\n" not in text
        assert len(text) < 300
