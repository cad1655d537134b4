"""Of one device: its node, and the driver's errors since a moment (NVML's events, the kernel's log).

By ctypes on the driver's own library (``libnvidia-ml.so.1``); see the NVML API reference, "Event Handling Methods" and
"Device Queries".
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from ctypes import byref, c_char_p, c_uint, c_ulonglong, c_void_p
from typing import Any

from evaluators.cuda.xids import Xid, parse_kernel_line

_LIBRARY = "libnvidia-ml.so.1"
_KERNEL_LOG = "/dev/kmsg"
_XID_EVENT = 0x8
_BUS_BYTES = 32
_LOG_BYTES = 8192
_VERSION_BYTES = 80


class _Event(ctypes.Structure):
    _fields_ = (
        ("device", c_void_p),
        ("kind", c_ulonglong),
        ("value", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


class _PciInfo(ctypes.Structure):
    """``nvmlPciInfo_t``: only the last field is read."""

    _fields_ = (
        ("legacy_bus", ctypes.c_char * 16),
        ("numbers", c_uint * 5),
        ("bus", ctypes.c_char * _BUS_BYTES),
    )


class NvmlUnavailable(Exception):
    """Errors of this device cannot be listened for; the message says why, in one line."""


class XidEvents:
    """Errors of one device from now on. Register before a candidate runs; nothing is missed between two calls."""

    def __init__(self, uuid: str) -> None:
        """Listen.

        Args:
            uuid: the device, as ``nvidia-smi`` names it.

        Raises:
            NvmlUnavailable: there is no NVML, or this device has no such events.
        """
        self._nvml = _load()
        device = _device(self._nvml, uuid)
        self._events = c_void_p()
        self._call("nvmlEventSetCreate", byref(self._events))
        self._call("nvmlDeviceRegisterEvents", device, c_ulonglong(_XID_EVENT), self._events)
        pci = _PciInfo()
        self._call("nvmlDeviceGetPciInfo_v3", device, byref(pci))
        self._bus = pci.bus.decode()
        self._log = _open_log()

    def since(self, wait_s: float = 0.0) -> list[Xid]:
        """What was reported since the last call; waits up to ``wait_s`` for a first one."""
        found: list[Xid] = []
        deadline = time.monotonic() + wait_s
        while True:
            event = _Event()
            left_ms = 0 if found else max(round(1e3 * (deadline - time.monotonic())), 0)
            if self._nvml.nvmlEventSetWait_v2(self._events, byref(event), c_uint(left_ms)) != 0:
                break
            if event.kind == _XID_EVENT:
                found.append(Xid(int(event.value)))
        return _merged(found, self._logged())

    def close(self) -> None:
        """Listen no longer."""
        self._nvml.nvmlEventSetFree(self._events)
        self._nvml.nvmlShutdown()
        if self._log is not None:
            os.close(self._log)

    def _logged(self) -> list[Xid]:
        rows: list[str] = []
        while self._log is not None:
            try:
                rows.append(os.read(self._log, _LOG_BYTES).decode(errors="replace"))
            except BlockingIOError:
                break
            except OSError:  # what was overwritten before it was read
                continue
        return [xid for row in rows if (xid := parse_kernel_line(row, self._bus)) is not None]

    def _call(self, name: str, *arguments: Any) -> None:
        _call(self._nvml, name, *arguments)


def minor_number(uuid: str) -> int:
    """N of the device's node ``/dev/nvidiaN``: its own also where only some of a machine's devices are visible.

    Raises:
        NvmlUnavailable: there is no NVML, or it does not know the device.
    """
    nvml = _load()
    try:
        number = c_uint()
        _call(nvml, "nvmlDeviceGetMinorNumber", _device(nvml, uuid), byref(number))
        return number.value
    finally:
        nvml.nvmlShutdown()


def driver_version() -> str | None:
    """The driver's own version, as ``nvidia-smi`` prints it; ``None`` where nobody can be asked."""
    try:
        nvml = _load()
    except NvmlUnavailable:
        return None
    try:
        words = ctypes.create_string_buffer(_VERSION_BYTES)
        _call(nvml, "nvmlSystemGetDriverVersion", words, c_uint(_VERSION_BYTES))
        return words.value.decode(errors="replace") or None
    except NvmlUnavailable:
        return None
    finally:
        nvml.nvmlShutdown()


def _load() -> Any:
    try:
        nvml = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise NvmlUnavailable(f"no {_LIBRARY} on this machine") from None
    _call(nvml, "nvmlInit_v2")
    return nvml


def _device(nvml: Any, uuid: str) -> c_void_p:
    device = c_void_p()
    _call(nvml, "nvmlDeviceGetHandleByUUID", c_char_p(uuid.encode()), byref(device))
    return device


def _call(nvml: Any, name: str, *arguments: Any) -> None:
    code = getattr(nvml, name)(*arguments)
    if code != 0:
        describe = nvml.nvmlErrorString
        describe.restype = c_char_p
        raise NvmlUnavailable(f"{name}: {(describe(code) or b'unknown error').decode()} ({code})")


def _open_log() -> int | None:
    with contextlib.suppress(OSError):
        log = os.open(_KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(log, 0, os.SEEK_END)
        return log
    return None


def _merged(events: list[Xid], logged: list[Xid]) -> list[Xid]:
    """Each number once: the log says more of it, where it could be read."""
    merged = {xid.number: xid for xid in events}
    for xid in logged:
        known = merged.get(xid.number)
        if known is None or not known.words:
            merged[xid.number] = xid
    return list(merged.values())
