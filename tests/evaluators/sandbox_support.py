"""Running source texts in sandboxed processes, for the tests of sandbox and zygote."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evaluators.errors import SandboxError
from evaluators.zygote.client import ChildLimits, ExitStatus, SpawnRequest, Zygote

PRELOAD = ("numpy", "tests.evaluators.boxed")
PATIENCE_S = 30.0


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="session")
def zygote(scratch: Path) -> Iterator[Zygote]:
    try:
        zygote = Zygote(minimum="full", scratch=scratch, preload=PRELOAD)
    except SandboxError as error:
        pytest.skip(str(error))
    with zygote:
        yield zygote


@dataclass(frozen=True)
class Outcome:
    text: str
    status: ExitStatus

    @property
    def last(self) -> str:
        """The last line it printed: of an exception, its type and message."""
        return self.text.strip().splitlines()[-1] if self.text.strip() else ""


def request(code: str, role: str = "runner", **changes: Any) -> SpawnRequest:
    limits = ChildLimits(
        memory_bytes=512 << 20,
        cpu_s=20,
        file_bytes=0 if role == "runner" else 64 << 20,
        processes=0 if role == "runner" else 32,
    )
    values: dict[str, Any] = {
        "role": role,
        "entry": "tests.evaluators.boxed:execute",
        "limits": limits,
        "payload": {"code": textwrap.dedent(code)},
    }
    return SpawnRequest(**(values | changes))


def run(zygote: Zygote, code: str, role: str = "runner", **changes: Any) -> Outcome:
    with zygote.spawn(request(code, role, **changes)) as child:
        text, status = child.collect(PATIENCE_S, 1 << 20)
    assert status is not None, f"still running after {PATIENCE_S} s; it printed:\n{text}"
    return Outcome(text, status)


def refusal(zygote: Zygote, code: str, role: str = "runner", **changes: Any) -> str:
    """What ``code`` is refused with; fails the test if it is not refused."""
    attempt = textwrap.indent(textwrap.dedent(code), "    ")
    caught = "except (OSError, ImportError) as error:\n    print(type(error).__name__)"
    wrapped = f"try:\n{attempt}\n{caught}\nelse:\n    print('DONE')"
    outcome = run(zygote, wrapped, role, **changes)
    assert outcome.last != "DONE", f"not refused: {code}"
    return outcome.last


SYSCALL = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def syscall(*arguments):
    result = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""
"""Put before a text that makes system calls by number."""


def folder(parent: Path, name: str, **files: str) -> Path:
    path = parent / name
    path.mkdir()
    for file, content in files.items():
        (path / file).write_text(content)
    return path


def zygotes_of_this_process() -> set[int]:
    """The zygotes this process has started."""
    children = [
        int(pid)
        for task in os.listdir("/proc/self/task")
        for pid in Path(f"/proc/self/task/{task}/children").read_text().split()
    ]
    return {pid for pid in children if b"evaluators.zygote.server" in Path(f"/proc/{pid}/cmdline").read_bytes()}
