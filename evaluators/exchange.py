"""The two ends of a timed round in native code (``exchange.cpp``): built once a judge, loaded by it and its runners."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evaluators.channel import PACKET_CAP

SOURCE = Path(__file__).with_name("exchange.cpp")
FLAGS = ("-O2", "-std=c++17")
MOST_ARGUMENTS = 24
"""Arguments an entry may have to be called from native code directly."""
JUDGE_SPIN_NS, RUNNER_SPIN_NS = 2_000_000, 30_000
"""How long each end looks for a packet before it sleeps, where there is a core for both that nobody takes away (with
real-time priority; elsewhere whoever spins is taken off its core for it). Waking up takes longer than many a call, and
what a program still does between its reply and the judge's awakening nobody sees."""

_POINTER = ctypes.c_void_p


class _Round(ctypes.Structure):
    _fields_ = (
        ("channel", ctypes.c_int32),
        ("process", ctypes.c_int32),
        ("calls", ctypes.c_int32),
        ("peeks", ctypes.c_int32),
        ("spin_ns", ctypes.c_int64),
        ("most_ns", ctypes.c_int64),
        ("request_bytes", ctypes.c_int64),
        ("requests", _POINTER),
        ("answers", _POINTER),
        ("places", _POINTER),
        ("outputs", _POINTER),
        ("seen", _POINTER),
        ("reply", _POINTER),
        ("room", ctypes.c_int64),
        ("total_ns", ctypes.c_int64),
        ("answered", ctypes.c_int32),
        ("error", ctypes.c_int32),
        ("length", ctypes.c_int64),
    )


@dataclass(frozen=True)
class Asked:
    """How a round went."""

    total_ns: int
    """From the first request to the last reply; 0 if it did not come to that."""
    seen: npt.NDArray[np.uint8]
    """What lay at each place when the reply had come, a row a call."""
    answered: int
    """Calls answered as they must be."""
    error: int = 0
    """``errno`` of the exchange that failed, or 0."""
    reply: bytes | None = None
    """A reply that is no answer, or ``None``."""


@dataclass(frozen=True)
class Exchange:
    """The library, as the judge uses it."""

    library: Path
    spins: bool
    """Whether judge and runner have a core each that nobody takes away."""
    owner: object = None
    """Held, so that the library's file stays."""

    @property
    def runner_spin_ns(self) -> int:
        """How long a runner looks before it sleeps."""
        return RUNNER_SPIN_NS if self.spins else 0

    @cached_property
    def _loaded(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.library))

    def ask(
        self,
        channel: int,
        process: int,
        packets: Sequence[bytes],
        answers: Sequence[bytes],
        places: npt.NDArray[np.int64],
        outputs: npt.NDArray[np.uint8],
        most_ns: int,
    ) -> Asked:
        """Let a stopped runner go on, and send it the requests one by one, each after the answer to the one before.

        Outputs are looked at after each answer. After the last the runner is told to stop.

        Args:
            channel: the judge's end; its receive deadline is set.
            process: the runner's pidfd.
            packets: the requests, all of one length.
            answers: what must be answered to each.
            places: offsets into the outputs, a row a call.
            outputs: the runner's output buffer.
            most_ns: no request is sent later than this after the first.
        """
        seen = np.empty(places.shape, np.uint8)
        reply = np.empty(PACKET_CAP, np.uint8)
        requested, expected = (np.frombuffer(b"".join(frames), np.uint8) for frames in (packets, answers))
        round_ = _Round(
            channel=channel,
            process=process,
            calls=len(packets),
            peeks=places.shape[1],
            spin_ns=JUDGE_SPIN_NS if self.spins else 0,
            most_ns=most_ns,
            request_bytes=len(packets[0]) if packets else 0,
            requests=requested.ctypes.data,
            answers=expected.ctypes.data,
            places=places.ctypes.data,
            outputs=outputs.ctypes.data,
            seen=seen.ctypes.data,
            reply=reply.ctypes.data,
            room=PACKET_CAP,
        )
        if self._loaded.ask_calls(ctypes.byref(round_)):
            return Asked(round_.total_ns, seen, round_.answered)
        strange = None if round_.error else reply[: round_.length].tobytes()
        return Asked(0, seen, round_.answered, round_.error, strange)
