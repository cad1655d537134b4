"""Hardware counters of the whole device, read by a process that runs nothing on it: CUPTI's PM sampling, by ctypes.

What other processes run is counted like one's own, and they cannot tell. See the CUPTI documentation, "PM Sampling
API" and "Profiler Host API", for every call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

from evaluators.cuda.cupti import CuptiUnavailable, cupti_library

DISPATCHES, BLOCKS = "gr__dispatch_count.sum", "gr__ctas_launched.sum"
READ_BYTES, WRITTEN_BYTES = "dram__bytes_read.sum", "dram__bytes_write.sum"
METRICS = (DISPATCHES, BLOCKS, READ_BYTES, WRITTEN_BYTES)
"""Together they take one pass, which is all that sampling has."""
INTERVAL_NS = 50_000
MOST_SAMPLES = 20_000
BUFFER_BYTES = 64 << 20
_PM_SAMPLING, _TIME_INTERVAL, _KEEP_OLDEST = 1, 1, 0
INSUFFICIENT_PRIVILEGES = 35


class _Params(ctypes.Structure):
    """Every parameter block begins with its own size and a pointer that must be null."""

    def __init__(self, **values: Any) -> None:
        last, kind = self._fields_[-1][:2]
        size = getattr(type(self), last).offset + ctypes.sizeof(kind)
        super().__init__(struct_size=size, private=None, **values)


def _block(name: str, *fields: tuple[str, Any]) -> type[Any]:
    head = (("struct_size", c_size_t), ("private", c_void_p))
    return type(name, (_Params,), {"_fields_": (*head, *fields)})


_Initialize = _block("Initialize")
_ChipName = _block("ChipName", ("device", c_size_t), ("name", c_char_p))
_Availability = _block("Availability", ("device", c_size_t), ("size", c_size_t), ("image", c_void_p))
_Host = _block("Host", ("kind", c_int), ("chip", c_char_p), ("availability", c_void_p), ("host", c_void_p))
_AddMetrics = _block("AddMetrics", ("host", c_void_p), ("names", POINTER(c_char_p)), ("count", c_size_t))
_ImageSize = _block("ImageSize", ("host", c_void_p), ("size", c_size_t))
_Image = _block("Image", ("host", c_void_p), ("size", c_size_t), ("image", c_void_p))
_Passes = _block("Passes", ("size", c_size_t), ("image", c_void_p), ("passes", c_size_t))
_Enable = _block("Enable", ("device", c_size_t), ("sampling", c_void_p))
_Object = _block("Object", ("sampling", c_void_p))
_Configure = _block(
    "Configure",
    *(("sampling", c_void_p), ("size", c_size_t), ("image", c_void_p), ("buffer_bytes", c_size_t)),
    *(("interval", c_uint64), ("trigger", c_int), ("append", c_int)),
)
_DataSize = _block(
    "DataSize",
    *(("sampling", c_void_p), ("names", POINTER(c_char_p)), ("count", c_size_t)),
    *(("most_samples", c_uint32), ("size", c_size_t)),
)
_DataInitialize = _block("DataInitialize", ("sampling", c_void_p), ("size", c_size_t), ("data", c_void_p))
_Decode = _block(
    "Decode", ("sampling", c_void_p), ("data", c_void_p), ("size", c_size_t), ("why", c_int), ("overflow", c_uint8)
)
_DataInfo = _block(
    "DataInfo",
    *(("data", c_void_p), ("size", c_size_t)),
    *(("total", c_size_t), ("populated", c_size_t), ("completed", c_size_t)),
)
_Evaluate = _block(
    "Evaluate",
    *(("host", c_void_p), ("data", c_void_p), ("size", c_size_t), ("index", c_size_t)),
    *(("names", POINTER(c_char_p)), ("count", c_size_t), ("values", POINTER(c_double))),
)


@dataclass(frozen=True)
class Counted:
    """What the device did between a start and a stop, all processes together."""

    totals: dict[str, float]
    series: tuple[float, ...]
    """The first metric, sample by sample."""


class Counters:
    """Reads the counters of one device. Everything but the constructor and :meth:`close` is cheap."""

    def __init__(self, device: int = 0, metrics: Sequence[str] = METRICS, interval_ns: int = INTERVAL_NS) -> None:
        """Reserve the counters.

        Raises:
            CuptiUnavailable: no CUPTI, no right to read them, or somebody else holds them.
        """
        self._library: Any = ctypes.CDLL(str(cupti_library()))
        self._metrics = tuple(metrics)
        self._names = (c_char_p * len(metrics))(*(name.encode() for name in metrics))
        self._call("cuptiProfilerInitialize", _Initialize())
        self._host = self._open_host(device)
        self._image = image = self._config_image()  # CUPTI reads it again at every start
        self._sampling = self._call("cuptiPmSamplingEnable", _Enable(device=device)).sampling
        self._call(
            "cuptiPmSamplingSetConfig",
            _Configure(
                sampling=self._sampling,
                size=len(image),
                image=ctypes.addressof(image),
                buffer_bytes=BUFFER_BYTES,
                interval=interval_ns,
                trigger=_TIME_INTERVAL,
                append=_KEEP_OLDEST,
            ),
        )
        ask = _DataSize(sampling=self._sampling, names=self._names, count=len(self._metrics), most_samples=MOST_SAMPLES)
        self._data = ctypes.create_string_buffer(self._call("cuptiPmSamplingGetCounterDataSize", ask).size)

    def start(self) -> None:
        """Begin to count."""
        fresh = _DataInitialize(sampling=self._sampling, size=len(self._data), data=ctypes.addressof(self._data))
        self._call("cuptiPmSamplingCounterDataImageInitialize", fresh)
        self._call("cuptiPmSamplingStart", _Object(sampling=self._sampling))

    def stop(self) -> Counted:
        """End counting; the totals since :meth:`start`.

        The first sample holds whatever the device did since the last one was taken, before anybody asked: it is left
        out. What is counted begins some ten samples later, since the answer to :meth:`start` has to arrive first.

        Raises:
            CuptiUnavailable: more was counted than there is room for.
        """
        self._call("cuptiPmSamplingStop", _Object(sampling=self._sampling))
        place = {"data": ctypes.addressof(self._data), "size": len(self._data)}
        decoded = self._call("cuptiPmSamplingDecodeData", _Decode(sampling=self._sampling, **place))
        if decoded.overflow:
            raise CuptiUnavailable("the counters' buffer overflowed")
        info = self._call("cuptiPmSamplingGetCounterDataInfo", _DataInfo(**place))
        totals, series = [0.0] * len(self._metrics), []
        values = (c_double * len(self._metrics))()
        for index in range(1, info.completed):
            ask = _Evaluate(
                host=self._host, index=index, names=self._names, count=len(self._metrics), values=values, **place
            )
            self._call("cuptiProfilerHostEvaluateToGpuValues", ask)
            totals = [total + value for total, value in zip(totals, values, strict=True)]
            series.append(values[0])
        return Counted(dict(zip(self._metrics, totals, strict=True)), tuple(series))

    def close(self) -> None:
        """Give the counters back."""
        self._call("cuptiPmSamplingDisable", _Object(sampling=self._sampling))

    def _open_host(self, device: int) -> int:
        chip = self._call("cuptiDeviceGetChipName", _ChipName(device=device)).name
        size = self._call("cuptiPmSamplingGetCounterAvailability", _Availability(device=device)).size
        self._availability = ctypes.create_string_buffer(size)
        found = _Availability(device=device, size=size, image=ctypes.addressof(self._availability))
        self._call("cuptiPmSamplingGetCounterAvailability", found)
        asked = _Host(kind=_PM_SAMPLING, chip=chip, availability=ctypes.addressof(self._availability))
        host: int = self._call("cuptiProfilerHostInitialize", asked).host
        return host

    def _config_image(self) -> Any:
        wanted = _AddMetrics(host=self._host, names=self._names, count=len(self._metrics))
        self._call("cuptiProfilerHostConfigAddMetrics", wanted)
        size = self._call("cuptiProfilerHostGetConfigImageSize", _ImageSize(host=self._host)).size
        image = ctypes.create_string_buffer(size)
        where = {"size": size, "image": ctypes.addressof(image)}
        self._call("cuptiProfilerHostGetConfigImage", _Image(host=self._host, **where))
        passes = self._call("cuptiProfilerHostGetNumOfPasses", _Passes(**where)).passes
        if passes != 1:
            raise CuptiUnavailable(f"this device reads {', '.join(self._metrics)} in {passes} passes, not in one")
        return image

    def _call(self, name: str, params: Any) -> Any:
        code = getattr(self._library, name)(byref(params))
        if code != 0:
            text = c_char_p()
            self._library.cuptiGetResultString(code, byref(text))
            words = (text.value or b"unknown error").decode()
            if code == INSUFFICIENT_PRIVILEGES:
                words += ": only an administrator may read counters here (NVreg_RestrictProfilingToAdminUsers)"
            raise CuptiUnavailable(f"{name}: {words} ({code})")
        return params
