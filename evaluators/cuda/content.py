"""Fresh inputs for every round, made on the device: keyed transforms of generated pools that lie in device memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from evaluators.content import FLAT_LATE_STRIDE, POOL_MEMBERS
from evaluators.cuda.device import DeviceBuffer, Gpu, Scratch
from evaluators.cuda.inouts import Inouts, inout_places
from evaluators.dtypes import DTYPES, Array
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

    def fill(
        self,
        layout: Layout,
        inputs: DeviceBuffer,
        slots: Sequence[int],
        rng: np.random.Generator,
        inouts: Inouts | None = None,
    ) -> None:
        """Write fresh content into the ``in`` arguments of these slots, and what ``inout`` ones will hold."""
        if not slots:
            return
        numbers = np.asarray(slots, np.uint64)
        chosen = rng.integers(len(self._members), size=len(slots))
        fresh: list[tuple[ArgPlace, Array]] = []
        homes = {"in": (inputs.address, layout.input_stride)}
        if inouts is not None and inout_places(layout):
            homes["inout"] = inouts.address(layout, 0), layout.output_stride
        for place in (p for p in layout.places if p.role != "out" and p.nbytes):
            base, stride = homes[place.role]
            targets = base + numbers * np.uint64(stride) + np.uint64(place.offset)
            if self._transforms[place.name] == "fresh":
                fresh.append((place, targets))
                continue
            addresses = np.array([member[place.name].address for member in self._members], np.uint64)
            keys = rng.integers(KEYS, size=len(slots), dtype=np.uint64)
            if self._transforms[place.name] == "xor":
                self._exclusive_or(place, addresses[chosen], targets, keys)
            else:
                self._turn(place, addresses[chosen], targets, keys, rng)
        for index in range(len(slots) if fresh else 0):
            anew = self._reference.generate(self._workload, self._reference.families[0], rng)
            for place, targets in fresh:
                self._gpu.upload(int(targets[index]), anew[place.name])

    def close(self) -> None:
        """Give the pools back."""
        for member in self._members:
            for part in member.values():
                part.close()

    def _exclusive_or(self, place: ArgPlace, sources: Array, targets: Array, keys: Array) -> None:
        fillings = self._fillings(sources, targets, np.zeros_like(keys), keys)
        flat = len(place.shape) < 2
        row_bytes = place.nbytes if flat else place.nbytes // place.shape[0]
        self._gpu.launch("exclusive_or", place.nbytes // 8, fillings, place.nbytes, row_bytes, times=len(keys))
        late = _pieces(place.nbytes) if flat else (place.shape[0], row_bytes)
        self._gpu.launch("change_bytes", late[0], fillings, *late, times=len(keys))

    def _turn(self, place: ArgPlace, sources: Array, targets: Array, keys: Array, rng: np.random.Generator) -> None:
        flat = len(place.shape) < 2
        rows, columns = place.shape[0] if place.shape else 1, prod(place.shape[1:])
        element = place.nbytes // (rows * columns)
        shifts = rng.integers(rows, size=len(keys), dtype=np.uint64) * np.uint64(columns)
        fillings = self._fillings(sources, targets, shifts, keys)
        masks = _masks(place)
        size = rows * columns
        work = place.nbytes // 16
        self._gpu.launch(f"turn_{element}", work, fillings, size, size if flat else columns, *masks, times=len(keys))
        late = _pieces(size) if flat else (rows, columns)
        self._gpu.launch("late", late[0], fillings, *late, element, times=len(keys))

    def _fillings(self, *columns: Array) -> int:
        """See ``Filling`` in kernels.cu."""
        return self._gpu.table(np.stack(columns, axis=1))


def _pieces(size: int) -> tuple[int, int]:
    """A flat array as pieces of which each has one late change."""
    count = max(size // FLAT_LATE_STRIDE, 1)
    return count, size // count


def _masks(place: ArgPlace) -> tuple[int, int]:
    """The bits of an element's fraction and of its exponent; none where it is no float."""
    info = DTYPES[place.dtype]
    if info.exact:
        return 0, 0
    fraction = (1 << (info.precision - 1)) - 1
    return fraction, ((1 << (8 * info.storage.itemsize - 1)) - 1) ^ fraction
