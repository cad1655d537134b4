"""How a benchmark's result is recorded: with commit, machine, versions and date beside the figures."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from evaluators.device import find_cpu
from evaluators.environment import compiler_version

PACKAGES = ("numpy", "sqlalchemy", "pydantic", "optuna")


def context() -> dict[str, object]:
    """Where and when it was measured, and of which commit (``+`` where the tree had changes)."""
    root = Path(__file__).parents[1]

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    cpu = find_cpu()
    return {
        "commit": git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain") else ""),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": cpu.model,
        "cores": len(cpu.cores),
        "last_level_cache_mib": cpu.last_level_cache_bytes >> 20,
        "kernel": platform.release(),
        "python": sys.version.split()[0],
        "compiler": compiler_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def write_record(path: Path, name: str, figures: dict[str, object]) -> None:
    """Write ``figures`` with their context as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"benchmark": name, "context": context(), "figures": figures}, indent=1) + "\n")
