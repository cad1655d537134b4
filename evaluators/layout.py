"""Where each argument of each slot lies in the shared buffers. Computed by the judge, read by the runner."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evaluators.dtypes import storage_dtype

if TYPE_CHECKING:  # runners load this module: keep pydantic out of them
    from evaluators.task import DType, Role

ALIGNMENT = 64
"""Every argument starts on a multiple of this many bytes: part of the task contract."""
GUARD_BYTES = 256
"""Bytes before and after each writable argument whose content must not change."""


@dataclass(frozen=True)
class ArgPlace:
    """One argument inside a slot."""

    name: str
    role: Role
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    """Bytes from the start of the slot, in the input or the output buffer."""
    nbytes: int

    @property
    def writable(self) -> bool:
        """True for what the entry may write: ``out`` and ``inout``."""
        return self.role != "in"


@dataclass(frozen=True)
class Layout:
    """The slots of one workload."""

    workload: str
    scalars: tuple[int, ...]
    """The axes' values in calling order."""
    places: tuple[ArgPlace, ...]
    input_stride: int
    output_stride: int
    slots: int
    sequences: tuple[tuple[int, ...], ...] = ()
    """Orders of calls that a runner captures in PREPARE, where its device can; a round is one of them."""

    @property
    def slot_bytes(self) -> int:
        """Size of one slot, both parts."""
        return self.input_stride + self.output_stride

    @property
    def input_bytes(self) -> int:
        """Size of all slots' read-only part."""
        return self.input_stride * self.slots

    @property
    def output_bytes(self) -> int:
        """Size of all slots' writable part, guards included."""
        return self.output_stride * self.slots

    def to_json(self) -> dict[str, Any]:
        """What a PREPARE frame carries."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Layout:
        """The reverse of :meth:`to_json`."""
        places = tuple(ArgPlace(**{**p, "shape": tuple(p["shape"])}) for p in data["places"])
        sequences = tuple(tuple(s) for s in data["sequences"])
        return Layout(**{**data, "places": places, "scalars": tuple(data["scalars"]), "sequences": sequences})


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def plan(
    workload: str,
    scalars: tuple[int, ...],
    args: list[tuple[str, Role, DType, tuple[int, ...]]],
    slots: int,
) -> Layout:
    """Lay out ``slots`` slots. ``args`` are (name, role, dtype, shape) in calling order.

    Each writable argument has ``GUARD_BYTES`` directly before it and directly after its last byte.
    """
    places = []
    cursors = {False: 0, True: 0}
    for name, role, dtype, shape in args:
        writable = role != "in"
        nbytes = prod(shape) * storage_dtype(dtype).itemsize
        start = _aligned(cursors[writable] + (GUARD_BYTES if writable else 0))
        places.append(ArgPlace(name, role, dtype, shape, start, nbytes))
        cursors[writable] = start + nbytes + (GUARD_BYTES if writable else 0)
    return Layout(workload, scalars, tuple(places), _aligned(cursors[False]), _aligned(cursors[True]), slots)


def slot_views(layout: Layout, inputs: memoryview, outputs: memoryview, slot: int) -> list[npt.NDArray[np.generic]]:
    """One slot's arguments as arrays over the shared buffers, in calling order."""
    views = []
    for place in layout.places:
        base, stride = (outputs, layout.output_stride) if place.writable else (inputs, layout.input_stride)
        start = slot * stride + place.offset
        view: npt.NDArray[np.generic] = np.frombuffer(
            base, dtype=storage_dtype(place.dtype), count=prod(place.shape), offset=start
        ).reshape(place.shape)
        views.append(view)
    return views
