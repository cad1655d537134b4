"""Where a measurement was made, for the record."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys

import numpy as np

from evaluators.builders.cpp import find_compiler
from evaluators.device import Cpu
from evaluators.errors import UsageError
from evaluators.evaluation import Environment
from evaluators.task import Task


def describe_environment(task: Task, cpu: Cpu, sandbox: str, priority: str) -> Environment:
    """Compiler, libraries, kernel, processor, sandbox and priority of this judge."""
    host = {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "vectors": cpu.vectors,
        "cores": str(len(cpu.cores)),
        "last_level_cache_bytes": str(cpu.last_level_cache_bytes),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "priority": priority,
    }
    if "cpp" in task.languages:
        host["compiler"] = compiler_version()
    return Environment(device_class=cpu.device_class(task.threads), host=host, sandbox=sandbox)


def compiler_version() -> str:
    """The C++ compiler's own first line, or that there is none."""
    try:
        compiler = find_compiler()
    except UsageError:
        return "none"
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else shutil.which(compiler) or compiler
