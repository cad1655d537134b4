"""``evolve doctor``: what this machine offers and lacks."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import click

from evaluators.host import NO_COMPILER, Host, inspect_host
from evolve.cli.exits import Exit
from evolve.cli.options import output_options
from evolve.display.output import DisplayMode, open_output
from evolve.display.report import Report, Table
from evolve.llm.provider import BASE_URL_VARIABLES, KNOWN

PACKAGES = ("kernel-evolve", "numpy", "optuna", "sqlalchemy", "psycopg", "torch", "triton")
_Row = tuple[str, str, str]


@click.command()
@click.option("--quick", is_flag=True, help="Do not measure what the device can do at best.")
@output_options
def doctor(quick: bool, as_json: bool, display: DisplayMode) -> int:
    """Show what this machine offers and lacks.

    Sandbox layers, compilers, profilers, devices and the best they were seen to do, database, packages, and which keys
    of model providers are set (never what they are). Exit code 3 if C++ programs cannot be judged here in the full
    sandbox.
    """
    output = open_output(display, as_json)
    output.say("looking at this machine" + ("" if quick else " and measuring what it can do"))
    host = inspect_host(measure=not quick)
    rows = [*_machine(host), *_sandbox(host), *_database(), *_packages(), *_keys()]
    ready = host.compiler != NO_COMPILER and host.sandbox is not None and host.sandbox.level == "full"
    verdict = "ready: C++ programs are judged here in the full sandbox" if ready else _advice(host)
    data = {
        "ready": ready,
        "verdict": verdict,
        "facts": [dict(zip(("part", "what", "found"), r, strict=True)) for r in rows],
    }
    output.show(Report(data, [Table(("part", "what", "found"), tuple(rows)), verdict]))
    return Exit.DONE if ready else Exit.NO


def _machine(host: Host) -> Iterator[_Row]:
    cpu = host.cpu
    yield "device", "processor", f"{cpu.model}, {len(cpu.cores)} cores"
    yield "device", "last-level cache", f"{cpu.last_level_cache_bytes / 2**20:g} MiB"
    if host.ceilings is not None:
        yield "device", "best bandwidth seen", f"{host.ceilings.bytes_per_s / 1e9:.1f} GB/s"
        yield "device", "best arithmetic seen", f"{host.ceilings.operations_per_s / 1e9:.1f} GFLOP/s in fp32"
    else:
        yield "device", "best seen", f"not measured{': ' + host.problem if host.problem else ''}"
    yield "device", "NVIDIA GPUs", "; ".join(host.gpus) or "none"
    yield "compiler", "C++", host.compiler
    yield "compiler", "CUDA", host.nvcc
    yield "cache", "baselines", host.cache
    for name, found in host.tools:
        yield "profiler", name, found


def _sandbox(host: Host) -> Iterator[_Row]:
    if host.sandbox is None:
        yield "sandbox", "level", f"none: {host.problem}"
        return
    yield "sandbox", "level", host.sandbox.level
    for layer in host.sandbox.layers:
        yield (
            "sandbox",
            str(layer.name),
            ("on" if layer.active else "off") + (f": {layer.detail}" if layer.detail else ""),
        )


def _database() -> Iterator[_Row]:
    yield "database", "SQLite", sqlite3.sqlite_version
    found = _version("psycopg")
    yield "database", "PostgreSQL driver", found or "not installed: pip install -e '.[postgres]' in the clone"


def _packages() -> Iterator[_Row]:
    yield "package", "python", platform.python_version()
    for name in PACKAGES:
        yield "package", name, _version(name) or "not installed"


def _keys() -> Iterator[_Row]:
    """What the known providers read from the environment."""
    keys = [provider.key_env for provider in KNOWN.values() if provider.key_env]
    for what, names in (("key", keys), ("address", BASE_URL_VARIABLES.values())):
        for name in names:
            yield what, name, "set" if os.environ.get(name) else "not set"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _advice(host: Host) -> str:
    if host.compiler == NO_COMPILER:
        return "not ready: no C++ compiler; install g++ (Debian: apt-get install g++)"
    if host.sandbox is None:
        return f"not ready: no sandboxed process could be started: {host.problem}"
    missing = ", ".join(str(layer.name) for layer in host.sandbox.missing())
    return (
        f"not ready: the sandbox is only {host.sandbox.level} here, without {missing}; "
        f"--set judge.sandbox={host.sandbox.level} accepts that, and every result says so"
    )
