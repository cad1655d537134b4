"""Who may import whom, read from the real import statements."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted([*ROOT.glob("evolve/**/*.py"), *ROOT.glob("evaluators/**/*.py")])

LAYERS = (
    {"types", "settings", "errors", "streams", "database_url"},
    {"database", "proposers", "llm", "prompts", "edits", "policies", "budget", "observer", "archive", "island"},
    {"run", "loop", "view"},  # and every part of the core that no other line names
    {"agents", "cli", "web", "display", "config", "testing", "__init__"},
)
CORE = 2
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

DOOR = {
    "build",
    "check",
    "client",
    "compare",
    "errors",
    "evaluation",
    "host",
    "profile",
    "shipped",
    "source",
    "task",
    "task_loading",
    "task_rules",
}
"""Modules of the judge that the search may import."""

FRAMEWORKS = {"torch", "triton"}
RUNNER_SIDE = {"runner", "builder", "zygote", "programs", "builders"}
"""Modules of the judge that run in a runner, a builder or their zygote: they may import torch."""
ON_THE_DEVICE = {"evaluators.cuda.oracle", "evaluators.cuda.drive"}
"""So may these: a task's oracle in the judge of a GPU, and the script that NVIDIA's tools start."""


def imports(path: Path) -> Iterator[str]:
    """Dotted names a module imports, at whatever depth; type-checking blocks count too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part(dotted: str) -> str:
    """The second component: the package's part a module belongs to."""
    return [*dotted.split("."), "__init__"][1]


def rank(dotted: str) -> int:
    """How far up a module of the search is."""
    return RANK.get(part(dotted), CORE)


def name_of(path: Path) -> str:
    """A module's dotted name."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def relative(path: Path) -> str:
    """For the test's id."""
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_imports_point_down(path):
    here = name_of(path)
    for dotted in imports(path):
        if here.startswith("evaluators"):
            assert not dotted.startswith("evolve"), f"{here} imports {dotted}: the judge knows nothing of the search"
        elif dotted.startswith("evolve."):
            assert rank(dotted) <= rank(here), f"{here} imports {dotted}, which is above it"
        elif dotted.startswith("evaluators."):
            assert part(dotted) in DOOR, f"{here} imports {dotted}: not a door of the judge"


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_torch_stays_in_runners_and_builders(path):
    here = name_of(path)
    frameworks = {dotted.split(".")[0] for dotted in imports(path)} & FRAMEWORKS
    if frameworks:
        assert here.startswith("evaluators.")
        assert part(here) in RUNNER_SIDE or here in ON_THE_DEVICE, f"{here} imports {frameworks}"
