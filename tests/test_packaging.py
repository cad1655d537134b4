"""What is shipped, and what an install pulls in."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

from mcp.server import MCPServer

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def names(requirements):
    return {re.split(r"[\s\[<>=!~;]", requirement)[0].lower() for requirement in requirements}


def test_the_default_install_needs_neither_torch_nor_triton():
    assert names(PROJECT["project"]["dependencies"]).isdisjoint(
        {"torch", "triton", "pandas", "matplotlib", "psycopg", "mcp"}
    )
    assert set(PROJECT["project"]["optional-dependencies"]) == {"gpu", "postgres", "mcp", "notebook", "dev"}


def test_what_the_wheel_carries_exists():
    carried = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for folder, place in carried.items():
        assert any((ROOT / folder).iterdir())
        assert place == f"evolve/_data/{folder}"


def test_the_licence_is_whole():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_cpu_constraints_name_the_pair_that_belongs_together():
    pins = dict(line.split("==") for line in (ROOT / "constraints-cpu.txt").read_text().splitlines() if "==" in line)
    assert pins == {"torch": "2.13.0", "triton": "3.7.1"}


def test_the_page_on_tasks_names_every_shipped_one():
    page = (ROOT / "docs" / "tasks.md").read_text()
    assert [t.parent.name for t in (ROOT / "tasks").glob("*/task.toml") if f"| `{t.parent.name}` |" not in page] == []


def test_mcp_stays_in_the_series_whose_private_parts_are_used():
    """Another series may lack them, and an install that pulls one in would only fail when an agent connects."""
    extras = PROJECT["project"]["optional-dependencies"]
    (asked,) = extras["mcp"]
    assert asked in extras["dev"], "what is tested is what is installed"
    major, minor = version("mcp").split(".")[:2]
    assert asked == f"mcp>={major}.{minor},<{major}.{int(minor) + 1}"
    assert hasattr(MCPServer("x"), "_lowlevel_server")
