"""One GPU as the judge uses it: its own context, its own kernels, and a clock for what they take."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_ulonglong
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluators.cuda.driver import CudaError, Driver
from evaluators.cuda.nvml import NvmlUnavailable, minor_number
from evaluators.cuda.nvrtc import compile_cubin
from evaluators.device_account import Watch, unwatched
from evaluators.device_lock import DeviceLock
from evaluators.errors import JudgeError

KERNELS = Path(__file__).with_name("kernels.cu")
BLOCK = 256
MOST_TIMES = 65_535
"""The second dimension of a grid goes no further."""
_WAVES = 8
_LEAST_ROOM = 1 << 16
_PROBE_BYTES = 1 << 28
SETTLE_S = 0.05
"""The device may be somebody else's for so long after a reply: what the host was late with is over by then."""
TURNAROUND_FACTOR, TURNAROUND_NS = 3.0, 60_000
"""A kernel of ours that takes so many times as long as on an idle device, and so much more, had to wait for it."""
_TURNAROUNDS = 50
_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
Bytes = npt.NDArray[np.uint8]


class Gpu:
    """The device, from the judge's side. A failure of it is ours: :class:`JudgeError`."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._functions: dict[str, Any] = {}
        self._module: Any = None
        self._words = self.driver.allocate(8)
        self._kept: dict[str, tuple[int, int]] = {}
        self._events = (self.driver.event(), self.driver.event())

    @classmethod
    def open(cls, ordinal: int = 0) -> Gpu:
        """The device of this number; its context is the one that torch uses too.

        Raises:
            JudgeError: there is no driver or no such device.
        """
        try:
            return cls(Driver.load(ordinal, primary=True))
        except (OSError, CudaError) as error:
            raise JudgeError(f"no CUDA device {ordinal}: {error}") from None

    @cached_property
    def arch(self) -> str:
        """For instance ``sm_90``."""
        major, minor = (self.driver.attribute(f"capability_{part}") for part in ("major", "minor"))
        return f"sm_{major}{minor}"

    @cached_property
    def name(self) -> str:
        """The product's name."""
        return self.driver.name()

    @cached_property
    def multiprocessors(self) -> int:
        """How many there are."""
        return self.driver.attribute("multiprocessors")

    @cached_property
    def l2_bytes(self) -> int:
        """Size of the last-level cache."""
        return self.driver.attribute("l2_bytes")

    @cached_property
    def memory_bytes(self) -> int:
        """All of its memory."""
        return self.driver.total_bytes()

    @cached_property
    def clock_hz(self) -> float:
        """The highest clock of the multiprocessors."""
        return 1e3 * self.driver.attribute("clock_khz")

    def nodes(self) -> tuple[Path, ...]:
        """The device nodes a runner needs: those of this GPU alone."""
        common = (Path("/dev") / name for name in _NODES)
        return (*self._own_node(), *(path for path in common if path.exists()))

    @cached_property
    def number(self) -> int:
        """Its number among this machine's; 0 where nobody can say."""
        try:
            return minor_number(self.driver.uuid())
        except NvmlUnavailable:
            return 0

    def _own_node(self) -> list[Path]:
        """Its own; where nobody can say which that is, the only one there is.

        Raises:
            JudgeError: there are several.
        """
        try:
            own = Path(f"/dev/nvidia{minor_number(self.driver.uuid())}")
            if own.exists():
                return [own]
            why = f"{own} is not there"
        except NvmlUnavailable as error:
            why = str(error)
        found = list(Path("/dev").glob("nvidia[0-9]*"))
        if len(found) > 1:
            raise JudgeError(f"which of {len(found)} nodes in /dev is GPU {self.driver.uuid()}'s cannot be said: {why}")
        return found

    def launch(self, name: str, work: int, *arguments: int, times: int = 1) -> None:
        """Run one of our kernels over about ``work`` items, ``times`` over; arguments travel as 64 bits."""
        if self._module is None:
            self._module = self.driver.module(compile_cubin(KERNELS, self.arch))
        if name not in self._functions:
            self._functions[name] = self.driver.function(self._module, name)
        if times == 0:
            return
        blocks = min(max(-(-work // BLOCK), 1), max(self.multiprocessors * _WAVES // times, 1))
        typed = [c_ulonglong(a) for a in arguments]
        try:
            self.driver.launch(self._functions[name], (blocks, times), BLOCK, typed)
        except CudaError as error:
            raise JudgeError(f"the device is sick: {error}") from None

    def synchronize(self) -> None:
        """Wait for our own work."""
        try:
            self.driver.synchronize()
        except CudaError as error:
            raise JudgeError(f"the device is sick: {error}") from None

    def start_clock(self) -> None:
        """Begin to time our own work on the device."""
        self.driver.record(self._events[0])

    def stop_clock(self) -> float:
        """Milliseconds since :meth:`start_clock`; waits for the work."""
        self.driver.record(self._events[1])
        self.synchronize()
        return self.driver.elapsed_ms(*self._events)

    def count(self, name: str, work: int, *arguments: int, times: int = 1) -> int:
        """Run a kernel whose last argument is a 64-bit counter that starts at 0; returns it."""
        self._zero_words()
        self.launch(name, work, *arguments, self._words, times=times)
        return self._word()

    def _zero_words(self) -> None:
        self.clear(self._words, 8)

    def _word(self) -> int:
        value = np.empty(1, np.uint64)
        self.download(value, self._words)
        return int(value[0])

    def room(self, name: str, size: int) -> int:
        """The address of memory that is kept under a name for our own work, at least so large.

        Work that uses it is in order on the default stream: what one call leaves there is the next one's to overwrite.
        """
        address, held = self._kept.get(name, (0, 0))
        if held < size:
            if address:
                self.driver.free(address)
            held = max(size, _LEAST_ROOM)
            address = self.driver.allocate(held)
            self._kept[name] = address, held
        return address

    def table(self, values: npt.NDArray[Any]) -> int:
        """The address of an array that one of our kernels reads next."""
        address = self.room("table", values.nbytes)
        self.upload(address, values)
        return address

    def checksum(self, address: int, size: int, key: int) -> int:
        """A checksum of device memory; 0 for an empty stretch."""
        return self.count("checksum", -(-size // 8), address, size, key) if size else 0

    def timed_checksum(self, address: int, size: int, key: int) -> tuple[int, float]:
        """The checksum, and the milliseconds that it took at least.

        What lies between two events is the kernel's time and whatever the host took to hand it over: on a busy machine
        that may be long, so it is taken off. Something that runs on the device beside the kernel slows it by more.
        """
        if size == 0:
            return 0, 0.0
        self._zero_words()
        handed = time.perf_counter()
        self.driver.record(self._events[0])
        self.launch("checksum", -(-size // 8), address, size, key, self._words)
        self.driver.record(self._events[1])
        handing_ms = 1e3 * (time.perf_counter() - handed)
        found = self._word()
        return found, max(self.driver.elapsed_ms(*self._events) - handing_ms, 0.0)

    def settles(self, within_s: float = SETTLE_S) -> bool:
        """Whether the device is ours alone, now or soon.

        A device goes from one process's work to another's in slices of time, longer than the smallest kernel: where
        anything else is to be done, every kernel that we launch waits for its slice, however little that work is.
        """
        limit_ns = TURNAROUND_FACTOR * self._idle_turnaround_ns + TURNAROUND_NS
        deadline = time.perf_counter() + within_s
        while self.turnaround_ns() > limit_ns:
            if time.perf_counter() > deadline:
                return False
        return True

    def turnaround_ns(self) -> int:
        """How long the smallest kernel of ours takes, from its launch to its end."""
        if "mark" not in self._functions:
            self.launch("mark", 1, self._words, self._words, 0, 0)
        try:
            return self.driver.turnaround_ns(self._functions["mark"], [c_ulonglong(0) for _ in range(4)])
        except CudaError as error:
            raise JudgeError(f"the device is sick: {error}") from None

    @cached_property
    def _idle_turnaround_ns(self) -> float:
        """On an idle device; first asked for before any candidate may have left something running."""
        return median(self.turnaround_ns() for _ in range(_TURNAROUNDS))

    def clear(self, address: int, size: int) -> None:
        """Zero device memory."""
        self.driver.call("cuMemsetD8_v2", c_ulonglong(address), ctypes.c_ubyte(0), ctypes.c_size_t(size))

    def idle_checksum_ms(self, size: int) -> float:
        """What a checksum of so many bytes takes while nothing else runs: a part that is always there, and the rest."""
        least_ms, whole_ms = self._checksum_ms
        return least_ms + (whole_ms - least_ms) * size / _PROBE_BYTES

    @cached_property
    def _checksum_ms(self) -> tuple[float, float]:
        """Milliseconds of checksums of next to nothing and of ``_PROBE_BYTES``; first asked for on an idle device."""
        address = self.driver.allocate(_PROBE_BYTES)
        try:
            times = [[self.timed_checksum(address, size, key)[1] for key in range(5)] for size in (8, _PROBE_BYTES)]
            return median(times[0]), median(times[1])
        finally:
            self.driver.free(address)

    def upload(self, address: int, values: npt.NDArray[Any]) -> None:
        """Copy an array to the device."""
        contiguous = np.ascontiguousarray(values)
        if contiguous.nbytes:
            self.driver.upload(address, contiguous.ctypes.data, contiguous.nbytes)

    def download(self, target: npt.NDArray[Any], address: int) -> None:
        """Fill an array from the device."""
        try:
            if target.nbytes:
                self.driver.download(target.ctypes.data, address, target.nbytes)
        except CudaError as error:
            raise JudgeError(f"the device is sick: {error}") from None


class GpuLock(DeviceLock):
    """The lock around everything on one GPU; whoever holds it may call the driver, in whichever thread."""

    def __init__(self, gpu: Gpu, watch: Watch = unwatched) -> None:
        super().__init__(gpu.driver.uuid(), watch)
        self._gpu = gpu

    @contextmanager
    def held(self, *, first: bool = False) -> Iterator[None]:
        """See :class:`DeviceLock`."""
        with super().held(first=first):
            self._gpu.driver.make_current()
            yield


class DeviceBuffer:
    """Device memory that a runner can import by its descriptor."""

    def __init__(self, gpu: Gpu, size: int) -> None:
        self._gpu = gpu
        unit = gpu.driver.granularity()
        self.size = max(-(-size // unit), 1) * unit
        try:
            self._handle = gpu.driver.create_memory(self.size)
        except CudaError as error:
            raise JudgeError(f"cannot allocate {self.size >> 20} MiB on the device: {error}") from None
        self.fd = gpu.driver.export_memory(self._handle)
        self.address = gpu.driver.map_memory(self._handle, self.size)

    def close(self) -> None:
        """Give the memory back."""
        if self._handle:
            os.close(self.fd)
            self._gpu.driver.unmap_memory(self._handle, self.address, self.size)
            self._handle = 0


class Scratch:
    """Plain device memory of the judge's own that holds one array."""

    def __init__(self, gpu: Gpu, values: npt.NDArray[Any]) -> None:
        self._gpu = gpu
        self.nbytes = values.nbytes
        self.address = gpu.driver.allocate(max(values.nbytes, 16))
        gpu.upload(self.address, values)

    def close(self) -> None:
        """Give the memory back."""
        if self.address:
            self._gpu.driver.free(self.address)
            self.address = 0


def bytes_at(gpu: Gpu, base: int, places: npt.NDArray[np.integer[Any]]) -> Bytes:
    """The bytes at these places beyond an address."""
    out = np.empty(len(places), np.uint8)
    if len(places):
        target = gpu.room("gathered", out.nbytes)
        gpu.launch("gather", len(places), base, gpu.table(places.astype(np.uint64)), len(places), target)
        gpu.download(out, target)
    return out


class DeviceArray:
    """An array in device memory that is copied to the host only as far as somebody looks at it."""

    def __init__(self, gpu: Gpu, address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._gpu = gpu
        self.address = address
        self.dtype, self.shape = dtype, shape
        self.ndim = len(shape)
        self.size = int(np.prod(shape, dtype=np.int64))
        self.nbytes = self.size * dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "iu" or rows.ndim != 1 or self.ndim == 0:
            part: npt.NDArray[Any] = self._whole[rows]
            return part
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        row_bytes = self.nbytes // max(self.shape[0], 1)
        if out.nbytes == 0:
            return out
        target = self._gpu.room("gathered", out.nbytes)
        for start in range(0, len(rows), MOST_TIMES):
            part = rows[start : start + MOST_TIMES].astype(np.uint64)
            where = self.address, row_bytes, self._gpu.table(part), target + start * row_bytes
            self._gpu.launch("gather_rows", row_bytes, *where, times=len(part))
        self._gpu.download(out, target)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        del copy
        whole = self._whole
        return whole if dtype is None else whole.astype(dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    @cached_property
    def _whole(self) -> npt.NDArray[Any]:
        out = np.empty(self.shape, self.dtype)
        self._gpu.download(out, self.address)
        return out
