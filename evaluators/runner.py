"""What runs inside a runner's process: import the candidate after the sandbox is closed, then obey frames.

Nothing here is trusted by the judge: the candidate shares this process and may rewrite any of it. All it could gain by
that is a chance to send other frames, and the judge knows what each must be.
"""

from __future__ import annotations

import errno
import json
import mmap
import socket
import traceback
from collections.abc import Mapping
from typing import Any

from evaluators.answering import Answering
from evaluators.channel import (
    ADMISSION_CODES,
    MAX_BODY,
    ChannelClosed,
    Frame,
    Kind,
    encode,
    receive,
)
from evaluators.layout import Layout, slot_views
from evaluators.programs import Admitted, Call, Program, load_program
from evaluators.status import Status

MESSAGE_CAP = 4000
_MADV_POPULATE_READ, _MADV_POPULATE_WRITE = 22, 23  # <linux/mman.h>


def _admission(error: BaseException) -> Admitted:
    if isinstance(error, Admitted):
        return error
    if isinstance(error, MemoryError):
        return Admitted(Status.OUT_OF_MEMORY, "MemoryError")
    words = "".join(traceback.format_exception(error, limit=-6))
    return Admitted(Status.RUNTIME_ERROR, words[-MESSAGE_CAP:])


class Runner:
    """Obeys one judge over one channel."""

    def __init__(self, payload: Mapping[str, Any], fds: Mapping[str, int]) -> None:
        self._payload = payload
        self._channel = socket.socket(fileno=fds["channel"])
        self._input_map = mmap.mmap(fds["inputs"], 0, prot=mmap.PROT_READ)
        self._output_map = mmap.mmap(fds["outputs"], 0)
        self._inputs = memoryview(self._input_map)
        self._outputs = memoryview(self._output_map)
        self._program: Program | None = None
        self._calls: list[Call] = []
        self._answering = Answering(payload["exchange"]) if "exchange" in payload else None

    def serve(self) -> None:
        """Answer frames until the judge closes the channel."""
        while True:
            try:
                frame, raised = self._next()
            except ChannelClosed:
                return
            kind, body = Kind.FAILED, b""
            failure = 0
            try:
                if raised is not None:
                    raise raised
                kind = self._obey(frame)
            except BaseException as error:
                admitted = _admission(error)
                failure = ADMISSION_CODES[admitted.status]
                body = str(admitted).encode(errors="replace")[-min(MESSAGE_CAP, MAX_BODY) :]
            self._channel.send(encode(Frame(kind, frame.slot, frame.nonce, failure, body)))

    def _next(self) -> tuple[Frame, BaseException | None]:
        """The next frame that native code cannot answer, and what the call it asked for raised, if it was one."""
        if self._answering is None:
            return receive(self._channel), None
        return self._answering.run(self._channel.fileno(), self._calls)

    def _obey(self, frame: Frame) -> Kind:
        if frame.kind is Kind.CALL:
            self._calls[frame.slot]()
            return Kind.DONE
        if frame.kind is Kind.PREPARE:
            self._prepare(Layout.from_json(json.loads(frame.body)))
            return Kind.PREPARED
        if frame.kind is Kind.IMPORT:
            self._program = load_program(self._payload)
            return Kind.READY
        raise Admitted(Status.RUNTIME_ERROR, f"unexpected request {frame.kind}")

    def _prepare(self, layout: Layout) -> None:
        if self._program is None:
            raise Admitted(Status.RUNTIME_ERROR, "PREPARE before IMPORT")
        writable = [p.writable for p in layout.places]
        _populate(self._input_map, _MADV_POPULATE_READ, layout.input_bytes)
        _populate(self._output_map, _MADV_POPULATE_WRITE, layout.output_bytes)
        self._calls = []
        for slot in range(layout.slots):
            arrays = slot_views(layout, self._inputs, self._outputs, slot)
            self._calls.append(self._program.bind(arrays, writable, layout.scalars))


def _populate(mapping: mmap.mmap, advice: int, size: int) -> None:
    """Have every page mapped now: the first touch of a page in a timed call would cost more than reading it."""
    if size == 0:
        return
    try:
        mapping.madvise(advice, 0, size)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a kernel before 5.14 does not know it; rounds are slower at first there
            raise


def main(payload: dict[str, Any], fds: dict[str, int]) -> None:
    """Entry of a runner's process, called once the sandbox is closed."""
    if payload["threads"] > 1:
        from evaluators.blas import set_threads  # noqa: PLC0415  (loaded by the zygote for tasks of several threads)

        set_threads(payload["threads"])
    Runner(payload, fds).serve()
