"""The runner's end of the native exchange: answers requests for calls until a frame comes that is something else."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluators.channel import PACKET_CAP, ChannelClosed, Frame, decode
from evaluators.exchange import MOST_ARGUMENTS
from evaluators.programs import Call, NativeCall

_RAISED = -2


class Answering:
    """``answer_calls`` of ``exchange.cpp`` over a program's calls: C functions directly, others through Python."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._function = ctypes.CDLL(payload["library"]).answer_calls
        self._function.restype = ctypes.c_int64
        self._spin_ns = ctypes.c_int64(payload["spin_ns"])
        self._packet = ctypes.create_string_buffer(PACKET_CAP)
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint32)(self._call)
        self._calls: Sequence[Call] = ()
        self._table = np.zeros((0, MOST_ARGUMENTS), np.int64)
        self._entry = 0
        self._raised: BaseException | None = None

    def run(self, channel: int, calls: Sequence[Call]) -> tuple[Frame, BaseException | None]:
        """Answer until there is a frame to be dealt with elsewhere; what its call raised, if it was a call that did.

        Raises:
            ChannelClosed: the judge is gone.
        """
        if calls is not self._calls:
            self._bind(calls)
        self._raised = None
        length = self._function(
            ctypes.c_int32(channel),
            self._packet,
            ctypes.c_int64(PACKET_CAP),
            self._spin_ns,
            ctypes.c_uint32(len(calls)),
            ctypes.c_void_p(self._entry),
            ctypes.c_void_p(self._table.ctypes.data),
            self._callback,
        )
        if length == _RAISED:
            return decode(self._packet.raw[:16]), self._raised
        if length <= 0:
            raise ChannelClosed
        return decode(self._packet.raw[:length]), None

    def _bind(self, calls: Sequence[Call]) -> None:
        self._calls, self._entry = calls, 0
        native = [c for c in calls if isinstance(c, NativeCall) and len(c.arguments) <= MOST_ARGUMENTS]
        if native and len(native) == len(calls):
            self._entry = native[0].address
            self._table = np.zeros((len(native), MOST_ARGUMENTS), np.int64)
            for row, call in zip(self._table, native, strict=True):
                row[: len(call.arguments)] = call.arguments

    def _call(self, slot: int) -> int:
        try:
            self._calls[slot]()
        except BaseException as error:  # a candidate may raise anything
            self._raised = error
            return 1
        return 0
