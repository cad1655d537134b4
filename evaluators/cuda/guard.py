"""Poison in, and guard zones around, one runner's outputs in device memory; see :class:`buffers.OutputGuard`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evaluators.buffers import gaps_between, poison_element
from evaluators.cuda.device import DeviceBuffer, Gpu, Scratch, bytes_at
from evaluators.layout import GUARD_BYTES, ArgPlace, Layout

FIRST_BYTES = 8
"""A call that left the beginning of an output alone is looked at whole."""


class DeviceGuard:
    """Every writable byte that is not an output belongs to a guard zone; the patterns are drawn per runner."""

    def __init__(self, gpu: Gpu, layout: Layout, outputs: DeviceBuffer, rng: np.random.Generator) -> None:
        self._gpu, self._layout, self._base = gpu, layout, outputs.address
        self._gaps = gaps_between(layout)
        self._pattern = Scratch(gpu, rng.integers(0, 256, max(layout.output_stride, 8), dtype=np.uint8))
        self._outputs = [p for p in layout.places if p.role == "out"]
        elements = {p.name: np.array([poison_element(p.dtype, rng)]).view(np.uint8) for p in self._outputs}
        words = {name: np.resize(element, 8) for name, element in elements.items()}
        self._poison = {name: Scratch(gpu, word) for name, word in words.items()}
        self._words = {name: int(word.view(np.uint64)[0]) for name, word in words.items()}
        self._all = np.arange(layout.slots, dtype=np.uint64)

    def arm(self) -> None:
        """Write guards and poison into every slot."""
        for start, stop in self._gaps:
            pattern, work = self._pattern.address + start, (stop - start) * self._layout.slots
            self._gpu.launch("paint", work, *self._slots(), start, stop, pattern, stop - start)
        self.poison()

    def poison(self) -> None:
        """Write poison into every output of every slot."""
        for place in self._outputs:
            end = place.offset + place.nbytes
            whole = place.offset + place.nbytes // 8 * 8
            if whole > place.offset:
                work = place.nbytes // 8 * self._layout.slots
                self._gpu.launch("paint_words", work, *self._slots(), place.offset, whole, self._words[place.name])
            if end > whole:
                pattern = self._poison[place.name].address
                self._gpu.launch("paint", 8 * self._layout.slots, *self._slots(), whole, end, pattern, 8)

    def broken(self) -> str | None:
        """One line about a guard zone whose bytes changed, or ``None``."""
        for start, stop in self._gaps:
            if self._differing(self._all, start, stop, self._pattern.address + start, stop - start):
                return f"wrote outside its output buffer (within {GUARD_BYTES} bytes of it)"
        return None

    def touched(self, slots: npt.NDArray[np.intp]) -> bool:
        """Whether any output of these slots differs from the poison: for slots that were never called."""
        return any(self._left(place, slots.astype(np.uint64)) for place in self._outputs)

    def unwritten_among(self, slots: Sequence[int]) -> list[int]:
        """Those of these slots in which an output was never written."""
        called = np.asarray(slots, dtype=np.uint64)
        found: set[int] = set()
        for place in (p for p in self._outputs if p.nbytes):
            count = min(place.nbytes, FIRST_BYTES)
            starts = called * np.uint64(self._layout.output_stride) + np.uint64(place.offset)
            places = (starts[:, None] + np.arange(count, dtype=np.uint64)).ravel().astype(np.uint64)
            first = bytes_at(self._gpu, self._base, places).reshape(len(called), count)
            poison = np.array([self._words[place.name]], np.uint64).view(np.uint8)[:count]
            suspects = called[(first == poison).all(axis=1)]
            found |= {int(slot) for slot in suspects if self.unwritten(int(slot)) is not None}
        return sorted(found)

    def unwritten(self, slot: int) -> str | None:
        """The first output of a slot that is still poison throughout, or ``None``."""
        one = np.array([slot], np.uint64)
        return next((p.name for p in self._outputs if p.nbytes and not self._left(p, one)), None)

    def close(self) -> None:
        """Give the patterns' memory back."""
        for part in (self._pattern, *self._poison.values()):
            part.close()

    def _left(self, place: ArgPlace, slots: npt.NDArray[np.uint64]) -> int:
        pattern = self._poison[place.name].address
        return self._differing(slots, place.offset, place.offset + place.nbytes, pattern, 8)

    def _differing(self, slots: npt.NDArray[np.uint64], start: int, stop: int, pattern: int, period: int) -> int:
        if not len(slots) or start == stop:
            return 0
        chosen = Scratch(self._gpu, slots)
        stride, work = self._layout.output_stride, (stop - start) * len(slots)
        try:
            return self._gpu.count(
                "differing", work, self._base, stride, chosen.address, len(slots), start, stop, pattern, period
            )
        finally:
            chosen.close()

    def _slots(self) -> tuple[int, int, int]:
        return self._base, self._layout.output_stride, self._layout.slots
