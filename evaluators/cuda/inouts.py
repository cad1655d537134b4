"""What arguments that are changed in place hold before a call: kept by the judge, out of every runner's reach.

Content goes into this copy, and every round begins by writing it into the outputs of the runner that is about to run,
one that is stopped, on the device. So both programs of a pair find the same, whichever comes first; what warm-up, the
launches of a recording or an earlier call made of it never reaches a round; and what was there is still known when
outputs are compared, of every call, without saying which will be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluators.cuda.device import DeviceArray, Gpu
from evaluators.cuda.driver import CudaError
from evaluators.dtypes import Array, storage_dtype
from evaluators.errors import JudgeError
from evaluators.layout import ArgPlace, Layout

AT_ONCE = 64
"""Slots that are written side by side."""
LOOKS = 64
"""Of every called slot so many places are looked at whether they still hold what they held."""
LOOK_BYTES = 8
"""How many bytes are one place: fewer stay as they were by chance."""
MOST_LEFT_ALONE = 2
"""Slots a round of which rows that stayed as they were are compared, with some others. That is no fault: a program may
have to leave most of an argument alone. One that need not does it to get out of work, and one slot shows that."""


class Inouts:
    """The copy: laid out as a runner's outputs are, and as large, or empty for tasks without such arguments."""

    def __init__(self, gpu: Gpu, size: int) -> None:
        self._gpu, self._size, self._base = gpu, 0, 0
        if size:
            unit = gpu.driver.granularity()
            self._size = -(-size // unit) * unit  # as a runner's outputs
            try:
                self._base = gpu.driver.allocate(self._size)
            except CudaError as error:
                raise JudgeError(f"cannot allocate {self._size >> 20} MiB on the device: {error}") from None
            self.clear()

    def clear(self) -> None:
        """Forget everything: what one process was given is not for the next."""
        if self._size:
            self._gpu.clear(self._base, self._size)

    def address(self, layout: Layout, slot: int) -> int:
        """Where the outputs of a slot would begin."""
        if layout.output_bytes > self._size:
            raise RuntimeError(f"{layout.workload}: no room for what is changed in place")
        return self._base + slot * layout.output_stride

    def of(self, layout: Layout, slot: int) -> dict[str, Any]:
        """What the arguments of a slot hold before a call, copied from the device as far as somebody looks at it."""
        return {p.name: self._array(layout, p, slot) for p in inout_places(layout)}

    def blank(self, layout: Layout, outputs: int) -> None:
        """Zeros in a runner's outputs, guard zones and all: for PREPARE, whose calls must not meet just anything."""
        if inout_places(layout):
            self._gpu.clear(outputs, layout.output_bytes)

    def restore(self, layout: Layout, outputs: int, called: Sequence[int]) -> None:
        """Write what every slot holds into a runner's outputs, those that will be called last and in their order.

        What was written last lies in the cache: of the calls those to which it belongs come last, too.
        """
        places = inout_places(layout)
        if not places:
            return
        idle = np.setdiff1d(np.arange(layout.slots, dtype=np.uint64), np.asarray(called, np.uint64))
        order = np.concatenate([idle, np.asarray(called, np.uint64)])
        where, table = (self.address(layout, 0), outputs, layout.output_stride), self._gpu.table(order)
        for start in range(0, len(order), AT_ONCE):
            part = order[start : start + AT_ONCE]
            for place in places:
                span = place.offset, place.offset + place.nbytes
                listed = table + start * order.itemsize
                self._gpu.launch("copy_slots", place.nbytes // 16, *where, listed, *span, times=len(part))

    def changed(self, layout: Layout, outputs: int, slots: npt.NDArray[np.integer]) -> bool:
        """Whether a runner's outputs hold anything else in these slots, which it was not to change."""
        places = inout_places(layout)
        if not places or not len(slots):
            return False
        where = self.address(layout, 0), outputs, layout.output_stride, self._gpu.table(slots.astype(np.uint64))
        spans = [(p.nbytes // 8, *where, p.offset, p.offset + p.nbytes) for p in places]
        return any(self._gpu.count("differing_slots", *span, times=len(slots)) for span in spans)

    def left_alone(
        self, layout: Layout, outputs: int, slots: Sequence[int], rng: np.random.Generator
    ) -> list[tuple[int, Array]]:
        """Some of these slots in which not everything was changed, each with rows that were not; often none."""
        found: dict[int, list[Array]] = {}
        for place in inout_places(layout) if len(slots) else ():
            width = min(LOOK_BYTES, place.nbytes)
            inside = rng.integers(0, place.nbytes - width + 1, (len(slots), LOOKS), dtype=np.uint64)
            same = self._same(layout, outputs, place, np.asarray(slots, np.uint64), inside, width)
            row_bytes = place.nbytes // (place.shape[0] if place.shape else 1)
            for index in np.flatnonzero(same.any(axis=1)).tolist():
                rows = inside[index, same[index]] // np.uint64(row_bytes)
                found.setdefault(slots[index], []).append(rows)
        chosen = rng.permutation(sorted(found))[:MOST_LEFT_ALONE]
        return [(int(slot), np.unique(np.concatenate(found[int(slot)])).astype(np.int64)) for slot in chosen]

    def close(self) -> None:
        """Give the memory back."""
        if self._size:
            self._gpu.driver.free(self._base)
            self._size = 0

    def _same(
        self, layout: Layout, outputs: int, place: ArgPlace, slots: Array, inside: Array, width: int
    ) -> npt.NDArray[np.bool_]:
        """Whether so many bytes at each of these places of an argument, a row a slot, are what they were."""
        places = slots[:, None] * np.uint64(layout.output_stride) + np.uint64(place.offset) + inside
        target = self._gpu.room("gathered", places.size)
        where = self.address(layout, 0), outputs, self._gpu.table(places), places.size, width, target
        self._gpu.launch("same_places", places.size, *where)
        same = np.empty(places.shape, np.bool_)
        self._gpu.download(same, target)
        return same

    def _array(self, layout: Layout, place: ArgPlace, slot: int) -> DeviceArray:
        address = self.address(layout, slot) + place.offset
        return DeviceArray(self._gpu, address, storage_dtype(place.dtype), place.shape)


def inout_places(layout: Layout) -> list[ArgPlace]:
    """The arguments that are changed in place, but for empty ones."""
    return [p for p in layout.places if p.role == "inout" and p.nbytes]
