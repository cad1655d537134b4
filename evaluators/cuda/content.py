"""Fresh inputs for every round, made on the device: keyed transforms of generated pools that lie in device memory."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np

from evaluators.content import POOL_MEMBERS
from evaluators.cuda.device import DeviceBuffer, Gpu, Scratch, wrap_u32
from evaluators.dtypes import Array
from evaluators.layout import ArgPlace, Layout
from evaluators.reference import Reference
from evaluators.task import Workload

KEYS = 1 << 63


class DeviceContent:
    """Generated inputs of one workload's ordinary family, and their transforms; see :class:`content.ContentPool`."""

    def __init__(self, gpu: Gpu, reference: Reference, workload: Workload, rng: np.random.Generator) -> None:
        self._gpu, self._reference, self._workload = gpu, reference, workload
        self._transforms = {a.name: a.transform for a in reference.task.args if a.role != "out"}
        family = reference.families[0]
        made = [reference.generate(workload, family, rng) for _ in range(POOL_MEMBERS)]
        self._members = [{name: Scratch(gpu, values) for name, values in one.items()} for one in made]

    def fill(self, layout: Layout, inputs: DeviceBuffer, slots: Iterable[int], rng: np.random.Generator) -> None:
        """Write fresh content into the ``in`` arguments of these slots."""
        places = [p for p in layout.places if p.role == "in"]
        for slot in slots:
            member = self._members[int(rng.integers(len(self._members)))]
            anew: dict[str, Array] | None = None
            for place in places:
                target = inputs.address + slot * layout.input_stride + place.offset
                if self._transforms[place.name] == "fresh":
                    anew = anew or self._reference.generate(self._workload, self._reference.families[0], rng)
                    self._gpu.upload(target, anew[place.name])
                else:
                    self._transform(place, member[place.name].address, target, rng)

    def close(self) -> None:
        """Give the pools back."""
        for member in self._members:
            for part in member.values():
                part.close()

    def _transform(self, place: ArgPlace, source: int, target: int, rng: np.random.Generator) -> None:
        if place.nbytes == 0:
            return
        rows = place.shape[0] if place.shape else 1
        columns = max(prod(place.shape[1:]), 1)
        element = place.nbytes // (rows * columns)
        if self._transforms[place.name] == "xor":
            key = int(rng.integers(KEYS))
            self._gpu.launch("exclusive_or", place.nbytes, target, source, place.nbytes, columns * element, key)
        else:
            shift = int(rng.integers(rows)) * columns * element
            vector = place.nbytes % 16 == 0 and shift % 16 == 0
            work = place.nbytes // 16 if vector else place.nbytes
            self._gpu.launch("rotate", work, target, source, place.nbytes, shift, wrap_u32(int(vector)))
        # In a vector one element in 64 is replaced, in a matrix one in every row; by a key of its own: that of xor can
        # be read off a row that is known.
        late = (rows, columns) if columns > 1 else (max(rows // 64, 1), min(rows, 64))
        self._gpu.launch("late", late[0], target, source, *late, wrap_u32(element), int(rng.integers(KEYS)))
