"""What of NVIDIA's tools this machine has, for people."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from evaluators.cuda.cupti import CuptiUnavailable, cupti_library
from evaluators.cuda.inspection import ToolUnavailable, find_tool
from evaluators.cuda.nvml import NvmlUnavailable, XidEvents
from evaluators.cuda.recording import build_recorder
from evaluators.cuda.watcher import Watcher

_VERSION_DEADLINE_S = 20.0
_TOOLS = ("ncu", "compute-sanitizer")


def describe_tools(uuids: Sequence[str], *, measure: bool) -> Iterator[tuple[str, str]]:
    """Name and what was found of it.

    Args:
        uuids: the devices, as ``nvidia-smi`` names them.
        measure: also try the device's counters, which takes a second.
    """
    yield "CUPTI", _cupti()
    yield "recorder of kernels", _recorder()
    yield "device's counters", _counters() if uuids and measure else "not tried" if uuids else "no GPU"
    yield "driver's errors (NVML)", _errors(uuids)
    for tool in _TOOLS:
        yield tool, _version(tool)


def _cupti() -> str:
    try:
        return str(cupti_library())
    except CuptiUnavailable as why:
        return f"none: {why}"


def _recorder() -> str:
    try:
        with tempfile.TemporaryDirectory() as folder:
            build_recorder(Path(folder))
        return "compiles"
    except (CuptiUnavailable, OSError, subprocess.SubprocessError) as why:
        return f"none: {why}"


def _counters() -> str:
    try:
        with Watcher() as watcher, watcher.reserved():
            watcher.start()
            watcher.stop()
        return "readable"
    except CuptiUnavailable as why:
        return f"not readable: {why}"


def _errors(uuids: Sequence[str]) -> str:
    if not uuids:
        return "no GPU"
    try:
        XidEvents(uuids[0]).close()
    except NvmlUnavailable as why:
        return f"none: {why}"
    return "events" + (" and the kernel's log" if os.access("/dev/kmsg", os.R_OK) else "")


def _version(tool: str) -> str:
    try:
        done = subprocess.run(
            [find_tool(tool), "--version"], capture_output=True, text=True, check=False, timeout=_VERSION_DEADLINE_S
        )
    except (ToolUnavailable, OSError, subprocess.TimeoutExpired) as why:
        return f"none: {why}"
    rows = [row.strip() for row in done.stdout.splitlines() if row.strip()]
    return next((row for row in rows if row.startswith("Version")), rows[-1] if rows else "no words")
