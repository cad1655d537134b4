"""One GPU as the judge uses it: its own context, its own kernels, and a clock for what they take."""

from __future__ import annotations

import ctypes
import os
from ctypes import c_uint, c_ulonglong
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluators.cuda.driver import CudaError, Driver
from evaluators.cuda.nvrtc import compile_cubin
from evaluators.errors import JudgeError

KERNELS = Path(__file__).with_name("kernels.cu")
BLOCK = 256
_WAVES = 8
_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
Bytes = npt.NDArray[np.uint8]


class Gpu:
    """The device, from the judge's side. A failure of it is ours: :class:`JudgeError`."""

    def __init__(self, ordinal: int = 0) -> None:
        """Open it.

        Raises:
            JudgeError: there is no driver or no such device.
        """
        try:
            self.driver = Driver.load(ordinal)
        except (OSError, CudaError) as error:
            raise JudgeError(f"no CUDA device {ordinal}: {error}") from None
        self._functions: dict[str, Any] = {}
        self._module: Any = None
        self._words = self.driver.allocate(8)
        self._events = (self.driver.event(), self.driver.event())

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
    def clock_hz(self) -> float:
        """The highest clock of the multiprocessors."""
        return 1e3 * self.driver.attribute("clock_khz")

    def nodes(self) -> tuple[Path, ...]:
        """The device nodes a runner needs: those of this GPU alone."""
        # Judges see one GPU each; where a container hides others, its own node keeps its number.
        own = sorted(path for path in Path("/dev").glob("nvidia[0-9]*"))[self.driver.ordinal :][:1]
        common = (Path("/dev") / name for name in _NODES)
        return (*own, *(path for path in common if path.exists()))

    def launch(self, name: str, work: int, *arguments: Any) -> None:
        """Run one of our kernels over about ``work`` items; integers travel as 64 bits unless wrapped."""
        if self._module is None:
            self._module = self.driver.module(compile_cubin(KERNELS, self.arch))
        if name not in self._functions:
            self._functions[name] = self.driver.function(self._module, name)
        blocks = min(max(-(-work // BLOCK), 1), self.multiprocessors * _WAVES)
        typed = [c_ulonglong(a) if isinstance(a, int) else a for a in arguments]
        try:
            self.driver.launch(self._functions[name], (blocks, 1), BLOCK, typed)
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

    def count(self, name: str, work: int, *arguments: Any) -> int:
        """Run a kernel whose last argument is a 64-bit counter that starts at 0; returns it."""
        self.driver.call("cuMemsetD8_v2", c_ulonglong(self._words), ctypes.c_ubyte(0), ctypes.c_size_t(8))
        self.launch(name, work, *arguments, self._words)
        value = np.empty(1, np.uint64)
        self.download(value, self._words)
        return int(value[0])

    def checksum(self, address: int, size: int, key: int) -> int:
        """A checksum of device memory; 0 for an empty stretch."""
        return self.count("checksum", -(-size // 8), address, size, key) if size else 0

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
    index, target = Scratch(gpu, places.astype(np.uint64)), Scratch(gpu, out)
    gpu.launch("gather", len(places), base, index.address, len(places), target.address)
    gpu.download(out, target.address)
    index.close()
    target.close()
    return out


class DeviceArray:
    """An array in device memory that is copied to the host only as far as somebody looks at it."""

    def __init__(self, gpu: Gpu, address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._gpu = gpu
        self._address = address
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
        index = Scratch(self._gpu, rows.astype(np.uint64))
        target = Scratch(self._gpu, out)
        self._gpu.launch("gather_rows", out.nbytes, self._address, row_bytes, index.address, len(rows), target.address)
        self._gpu.download(out, target.address)
        index.close()
        target.close()
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
        self._gpu.download(out, self._address)
        return out


def wrap_u32(value: int) -> Any:
    """A 32-bit argument of a kernel."""
    return c_uint(value)
