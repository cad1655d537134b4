"""The CUDA driver's functions that judge and runners need, by ctypes.

Only the driver's own library is used (``libcuda.so.1``), so that the judge needs neither torch nor a toolkit at run
time. See the CUDA Driver API reference for every call. Nothing here happens before :meth:`Driver.load`.
"""

from __future__ import annotations

import ctypes
import time
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

_PINNED, _DEVICE, _POSIX_FD = 1, 1, 1
_READ_WRITE = 3
_GRANULARITY_MINIMUM = 0
_CAPTURE_RELAXED = 2
OUT_OF_MEMORY = 2
_SCHED_BLOCKING_SYNC, _SCHED_SPIN = 4, 1

ATTRIBUTES = {
    "multiprocessors": 16,
    "capability_major": 75,
    "capability_minor": 76,
    "l2_bytes": 38,
    "clock_khz": 13,
}


class CudaError(Exception):
    """A driver call failed."""

    def __init__(self, call: str, code: int, words: str) -> None:
        super().__init__(f"{call}: {words} ({code})")
        self.code = code


class _Location(ctypes.Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class _Flags(ctypes.Structure):
    _fields_ = (
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )


class _AllocationProperties(ctypes.Structure):
    _fields_ = (
        ("type", c_int),
        ("handles", c_int),
        ("location", _Location),
        ("windows", c_void_p),
        ("flags", _Flags),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", c_int))


class Driver:
    """An open driver with one context on one device. Every method raises :class:`CudaError` on failure."""

    def __init__(self, library: Any, device: int, context: c_void_p, ordinal: int) -> None:
        self._library = library
        self.device = device
        self.context = context
        self.ordinal = ordinal
        self._holding: Any = None
        """The library once more, through functions that do not let other threads run meanwhile."""

    @staticmethod
    def load(ordinal: int = 0, *, primary: bool = False) -> Driver:
        """Open the driver and make a context current in this thread.

        Args:
            ordinal: among the visible devices.
            primary: use the device's primary context, the one torch and the CUDA runtime share.
        """
        library = ctypes.CDLL("libcuda.so.1")
        _check(library, "cuInit", 0)
        device = c_int()
        _check(library, "cuDeviceGet", byref(device), ordinal)
        context = c_void_p()
        if primary:
            _check(library, "cuDevicePrimaryCtxSetFlags_v2", device, _SCHED_SPIN)
            _check(library, "cuDevicePrimaryCtxRetain", byref(context), device)
            _check(library, "cuCtxSetCurrent", context)
        else:
            _check(library, "cuCtxCreate_v2", byref(context), _SCHED_SPIN, device)
        return Driver(library, device.value, context, ordinal)

    def call(self, name: str, *arguments: Any) -> None:
        """Any driver function."""
        _check(self._library, name, *arguments)

    def make_current(self) -> None:
        """In another thread of this process."""
        self.call("cuCtxSetCurrent", self.context)

    def attribute(self, name: str) -> int:
        """One of :data:`ATTRIBUTES`."""
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), ATTRIBUTES[name], self.device)
        return value.value

    def name(self) -> str:
        """The device's product name."""
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, 256, self.device)
        return text.value.decode()

    def uuid(self) -> str:
        """The device's identity, as ``nvidia-smi`` prints it."""
        raw = (ctypes.c_ubyte * 16)()
        self.call("cuDeviceGetUuid_v2", raw, self.device)
        digits = bytes(raw).hex()
        return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def version(self) -> str:
        """The newest CUDA version this driver knows."""
        value = c_int()
        self.call("cuDriverGetVersion", byref(value))
        return f"{value.value // 1000}.{value.value % 1000 // 10}"

    def free_bytes(self) -> int:
        """Device memory nobody uses."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def total_bytes(self) -> int:
        """Device memory there is."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return total.value

    def granularity(self) -> int:
        """Sizes of exportable memory are multiples of this."""
        size = c_size_t()
        self.call("cuMemGetAllocationGranularity", byref(size), byref(self._properties()), _GRANULARITY_MINIMUM)
        return size.value

    def create_memory(self, size: int) -> int:
        """Physical device memory that can be exported; returns its handle."""
        handle = c_ulonglong()
        self.call("cuMemCreate", byref(handle), c_size_t(size), byref(self._properties()), c_ulonglong(0))
        return handle.value

    def export_memory(self, handle: int) -> int:
        """A file descriptor that another process can import."""
        fd = c_int()
        self.call("cuMemExportToShareableHandle", byref(fd), c_ulonglong(handle), _POSIX_FD, c_ulonglong(0))
        return fd.value

    def import_memory(self, fd: int) -> int:
        """The handle of memory that another process exported."""
        handle = c_ulonglong()
        self.call("cuMemImportFromShareableHandle", byref(handle), c_void_p(fd), _POSIX_FD)
        return handle.value

    def map_memory(self, handle: int, size: int) -> int:
        """Map memory; returns its address. Device memory can only be mapped for reading and writing."""
        address = c_ulonglong()
        self.call("cuMemAddressReserve", byref(address), c_size_t(size), c_size_t(0), c_ulonglong(0), c_ulonglong(0))
        self.call("cuMemMap", address, c_size_t(size), c_size_t(0), c_ulonglong(handle), c_ulonglong(0))
        access = _Access(_Location(_DEVICE, self.ordinal), _READ_WRITE)
        self.call("cuMemSetAccess", address, c_size_t(size), byref(access), c_size_t(1))
        return address.value

    def unmap_memory(self, handle: int, address: int, size: int) -> None:
        """Give memory back."""
        self.call("cuMemUnmap", c_ulonglong(address), c_size_t(size))
        self.call("cuMemAddressFree", c_ulonglong(address), c_size_t(size))
        self.call("cuMemRelease", c_ulonglong(handle))

    def allocate(self, size: int) -> int:
        """Plain device memory of this process's own."""
        address = c_ulonglong()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        """Give plain memory back."""
        self.call("cuMemFree_v2", c_ulonglong(address))

    def upload(self, address: int, source: int, size: int) -> None:
        """Copy host memory to the device; returns when done."""
        self.call("cuMemcpyHtoD_v2", c_ulonglong(address), c_void_p(source), c_size_t(size))

    def download(self, target: int, address: int, size: int) -> None:
        """Copy device memory to the host; returns when done."""
        self.call("cuMemcpyDtoH_v2", c_void_p(target), c_ulonglong(address), c_size_t(size))

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy within the device, in order on the default stream."""
        self.call("cuMemcpyDtoDAsync_v2", c_ulonglong(target), c_ulonglong(source), c_size_t(size), c_void_p(0))

    def synchronize(self) -> None:
        """Wait for everything in this context."""
        self.call("cuCtxSynchronize")

    def module(self, image: bytes) -> c_void_p:
        """Load a cubin or PTX."""
        module = c_void_p()
        self.call("cuModuleLoadData", byref(module), c_char_p(image))
        return module

    def function(self, module: c_void_p, name: str) -> c_void_p:
        """A kernel of a module."""
        function = c_void_p()
        self.call("cuModuleGetFunction", byref(function), module, name.encode())
        return function

    def launch(self, function: c_void_p, grid: tuple[int, int], block: int, arguments: list[Any]) -> None:
        """Launch a kernel on the default stream."""
        pointers = (c_void_p * len(arguments))(*(ctypes.cast(byref(a), c_void_p) for a in arguments))
        sizes = (c_uint(grid[0]), c_uint(grid[1]), c_uint(1), c_uint(block), c_uint(1), c_uint(1), c_uint(0))
        self.call("cuLaunchKernel", function, *sizes, c_void_p(0), pointers, c_void_p(0))

    def turnaround_ns(self, function: c_void_p, arguments: list[Any]) -> int:
        """How long one block of a kernel takes from launch to end, on the default stream.

        The interpreter is kept from other threads meanwhile: giving it up and waiting for it takes longer than that.
        """
        if self._holding is None:
            self._holding = ctypes.PyDLL("libcuda.so.1")
        pointers = (c_void_p * len(arguments))(*(ctypes.cast(byref(a), c_void_p) for a in arguments))
        sizes = (*(c_uint(1) for _ in range(6)), c_uint(0))
        launch, wait = self._holding.cuLaunchKernel, self._holding.cuCtxSynchronize
        none = c_void_p(0)
        began = time.perf_counter_ns()
        codes = launch(function, *sizes, none, pointers, none), wait()
        took = time.perf_counter_ns() - began
        for name, code in zip(("cuLaunchKernel", "cuCtxSynchronize"), codes, strict=True):
            _refuse(self._library, name, code)
        return took

    def stream(self) -> int:
        """A stream that does not wait for the default one."""
        stream = c_void_p()
        self.call("cuStreamCreate", byref(stream), c_uint(1))
        return stream.value or 0

    def event(self) -> c_void_p:
        """A timing event."""
        event = c_void_p()
        self.call("cuEventCreate", byref(event), c_uint(0))
        return event

    def record(self, event: c_void_p, stream: int = 0) -> None:
        """Record an event."""
        self.call("cuEventRecord", event, c_void_p(stream))

    def elapsed_ms(self, start: c_void_p, end: c_void_p) -> float:
        """Milliseconds between two events that have happened."""
        value = ctypes.c_float()
        self.call("cuEventElapsedTime", byref(value), start, end)
        return value.value

    def begin_capture(self, stream: int) -> None:
        """Record what is launched on a stream instead of running it."""
        self.call("cuStreamBeginCapture_v2", c_void_p(stream), c_int(_CAPTURE_RELAXED))

    def end_capture(self, stream: int) -> c_void_p:
        """What was recorded, ready to launch."""
        graph, ready = c_void_p(), c_void_p()
        self.call("cuStreamEndCapture", c_void_p(stream), byref(graph))
        self.call("cuGraphInstantiateWithFlags", byref(ready), graph, c_ulonglong(0))
        self.call("cuGraphDestroy", graph)
        return ready

    def launch_graph(self, graph: c_void_p, stream: int) -> None:
        """Run what was recorded."""
        self.call("cuGraphLaunch", graph, c_void_p(stream))

    def _properties(self) -> _AllocationProperties:
        return _AllocationProperties(_PINNED, _POSIX_FD, _Location(_DEVICE, self.ordinal), None, _Flags())


def _check(library: Any, name: str, *arguments: Any) -> None:
    _refuse(library, name, getattr(library, name)(*arguments))


def _refuse(library: Any, name: str, code: int) -> None:
    if code != 0:
        text = c_char_p()
        library.cuGetErrorString(code, byref(text))
        raise CudaError(name, code, (text.value or b"unknown error").decode())
