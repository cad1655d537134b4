"""What a runner's device did, as its recorder (``recorder.c``) wrote it down in memory of the judge's.

The recorder lives in the runner's process, so its record is data from an enemy: read here with caps and types, believed
only as far as the judge's own clock and counters agree (:mod:`evaluators.cuda.attestation`).
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evaluators.cuda.cupti import CuptiUnavailable, cupti_headers, cupti_library, soname
from evaluators.cuda.plan import MAX_CALLS

SOURCE = Path(__file__).with_name("recorder.c")
LIBRARY = "recorder.so"
MOST_LAUNCHES = 256
"""Activities of one call that are recorded; a program that does more cannot be attested."""
CAPACITY = MAX_CALLS * MOST_LAUNCHES
"""Of one round. Of the memory for them only what is written is ever there."""
COMPILE_S = 60
_MAGIC, _VERSION = 0x6472_6F63_6572_656B, 1
_HEADER = struct.Struct("<QIIIIQII24x")
_RECORD = struct.Struct("<IIIIQQQ3I3III160s")
_COUNT_OFFSET = 16
_MOST_THREADS = 1024
Kind = Literal["kernel", "copy", "fill"]
_KERNEL = 1
_KINDS: dict[int, Kind] = {_KERNEL: "kernel", 2: "copy", 3: "fill"}


class DamagedRecord(Exception):
    """The record is missing, incomplete or not what the recorder writes."""


class FullRecord(Exception):
    """The program did more in a round than is recorded."""


@dataclass(frozen=True)
class Activity:
    """One kernel, copy or fill that the device ran."""

    kind: Kind
    name: str
    """A kernel's mangled name. The candidate's: data."""
    stream: int
    graph: int
    """0 where it was launched by itself."""
    start_ns: int
    end_ns: int
    bytes: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    shared_bytes: int
    local_bytes: int
    """Of a thread: spills and stack."""

    @property
    def blocks(self) -> int:
        """Of the whole grid."""
        x, y, z = self.grid
        return x * y * z

    @property
    def duration_ns(self) -> int:
        """How long it ran."""
        return self.end_ns - self.start_ns


class Recording:
    """A memory file that a runner's recorder fills. The judge reads it while the runner is stopped."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("recording", os.MFD_CLOEXEC)
        size = _HEADER.size + CAPACITY * _RECORD.size
        os.ftruncate(self.fd, size)
        self._view = mmap.mmap(self.fd, size)

    def clear(self) -> None:
        """Forget what was recorded so far."""
        self._view[_COUNT_OFFSET : _COUNT_OFFSET + 8] = bytes(8)

    def read(self) -> list[Activity]:
        """Everything since :meth:`clear`, by its start.

        Raises:
            DamagedRecord: it cannot be what the recorder wrote.
            FullRecord: there was more than it holds.
        """
        magic, version, capacity, count, left_out, dropped, _, _ = _HEADER.unpack_from(self._view)
        if (magic, version, capacity) != (_MAGIC, _VERSION, CAPACITY):
            raise DamagedRecord("the recorder's header is gone")
        if left_out or count > capacity:
            raise FullRecord(f"more than {CAPACITY} kernels, copies and fills in a round: too many to be attested")
        if dropped:
            raise DamagedRecord(f"CUPTI dropped {dropped} activities")
        found = [_activity(_RECORD.unpack_from(self._view, _HEADER.size + i * _RECORD.size)) for i in range(count)]
        return sorted(found, key=lambda activity: activity.start_ns)

    def close(self) -> None:
        """Give the memory back."""
        self._view.close()
        os.close(self.fd)


@dataclass(frozen=True)
class Recorder:
    """What a runner loads in order to be recorded, and where it writes."""

    library: Path
    recording: Recording


def build_recorder(folder: Path) -> Path:
    """Compile the recorder into an empty folder, with CUPTI's library beside it; returns the recorder's path.

    Raises:
        CuptiUnavailable: no CUPTI, no headers or no compiler.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise CuptiUnavailable("no C compiler for the recorder of kernels")
    original = cupti_library()
    library = folder / soname(original)
    shutil.copyfile(original, library)
    command = [compiler, "-O2", "-shared", "-fPIC", *(f"-I{path}" for path in cupti_headers()), str(SOURCE)]
    command += ["-o", str(folder / LIBRARY), str(library), "-Wl,-rpath,$ORIGIN"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
    if done.returncode != 0:
        words = (done.stderr.strip().splitlines() or ["no words"])[0]
        raise CuptiUnavailable(f"the recorder of kernels does not compile: {words[:200]}")
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)
    return folder / LIBRARY


def _activity(fields: tuple[Any, ...]) -> Activity:
    kind, stream, graph, registers, start, end, size, *rest = fields
    x, y, z, threads_x, threads_y, threads_z, shared, local, raw = rest
    if kind not in _KINDS or end < start:
        raise DamagedRecord("a record that is none")
    if kind == _KERNEL and not (0 < threads_x * threads_y * threads_z <= _MOST_THREADS and x * y * z > 0):
        raise DamagedRecord("a kernel without threads, or with more than a block holds")
    return Activity(
        kind=_KINDS[kind],
        name=raw.partition(b"\0")[0].decode(errors="replace"),
        stream=stream,
        graph=graph,
        start_ns=start,
        end_ns=end,
        bytes=size,
        grid=(x, y, z),
        block=(threads_x, threads_y, threads_z),
        registers=registers,
        shared_bytes=shared,
        local_bytes=local,
    )
