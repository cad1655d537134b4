"""A process of its own that reads the device's counters for the judge; it runs no program and nothing on the device.

Counters are reserved while somebody wants them and given back at once: timed rounds are not counted, and profilers
need them too.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import evaluators
from evaluators.cuda.counters import BLOCKS, DISPATCHES, READ_BYTES, WRITTEN_BYTES, Counted, Counters
from evaluators.cuda.cupti import CuptiUnavailable

_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from evaluators.cuda.watcher import main; main(int(sys.argv[2]))"
_DEADLINE_S = 20.0
_ROW_CAP = 1 << 20
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")

__all__ = ["BLOCKS", "DISPATCHES", "READ_BYTES", "WRITTEN_BYTES", "Counted", "Watcher"]


class Watcher:
    """The judge's end: starts the process, and ends it. Use it as a context manager, or call :meth:`close`."""

    def __init__(self, device: int = 0) -> None:
        """Start it.

        Raises:
            CuptiUnavailable: there is no driver.
        """
        root = str(Path(evaluators.__file__).resolve().parent.parent)
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-P", "-c", _BOOT, root, str(device)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
        )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reserved(self) -> Iterator[None]:
        """Have the counters for oneself; after an exception inside, the process is good for nothing more.

        Raises:
            CuptiUnavailable: they cannot be read here.
        """
        self._ask("reserve")
        yield
        self._ask("release")

    def start(self) -> None:
        """Begin to count."""
        self._ask("start")

    def stop(self) -> Counted:
        """End counting: what the whole device did since :meth:`start`."""
        found = self._ask("stop")
        return Counted(found["totals"], tuple(found["series"]))

    def close(self) -> None:
        """End the process; the counters are free again."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, what: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{what}\n".encode())
            self._process.stdin.flush()
        except OSError:
            raise CuptiUnavailable("the process that reads the device's counters is gone") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _DEADLINE_S)
        row = self._process.stdout.readline(_ROW_CAP) if ready else b""
        if not row:
            raise CuptiUnavailable("the process that reads the device's counters does not answer")
        answer: dict[str, Any] = json.loads(row)
        if "error" in answer:
            raise CuptiUnavailable(answer["error"])
        return answer


def main(device: int) -> None:
    """Entry of the process: a line for each request, a line of JSON for each answer."""
    try:
        ctypes.CDLL("libcuda.so.1").cuInit(0)
    except OSError as error:
        _say({"error": str(error)})
        return
    _say({})
    counters: Counters | None = None
    for row in sys.stdin:
        try:
            match row.strip(), counters:
                case "reserve", None:
                    counters = Counters(device)
                case "start", Counters():
                    counters.start()
                case "stop", Counters():
                    counted = counters.stop()
                    _say({"totals": counted.totals, "series": counted.series})
                    continue
                case "release", Counters():
                    counters.close()
                    counters = None
                case request, _:
                    _say({"error": f"not now: {request}"})
                    continue
            _say({})
        except CuptiUnavailable as error:
            _say({"error": str(error)})


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
