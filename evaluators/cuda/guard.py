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
            self._paint(start, stop, self._pattern.address + start, stop - start)
        self.poison()

    def poison(self) -> None:
        """Write poison into every output of every slot."""
        for place in self._outputs:
            whole, end = _whole_words(place)
            if whole > place.offset:
                where = self._base, self._layout.output_stride, place.offset, whole
                words, slots = (whole - place.offset) // 8, self._layout.slots
                self._gpu.launch("paint_words", words, *where, self._words[place.name], times=slots)
            if end > whole:
                self._paint(whole, end, self._poison[place.name].address, 8)

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

    def _left(self, place: ArgPlace, slots: npt.NDArray[np.uint64]) -> bool:
        """Whether anything but poison lies in this output of these slots."""
        whole, end = _whole_words(place)
        if whole > place.offset:
            word, table = self._words[place.name], self._gpu.table(slots)
            where = self._base, self._layout.output_stride, table, place.offset, whole
            if self._gpu.count("differing_words", (whole - place.offset) // 8, *where, word, times=len(slots)):
                return True
        return self._differing(slots, whole, end, self._poison[place.name].address, 8)

    def _differing(self, slots: npt.NDArray[np.uint64], start: int, stop: int, pattern: int, period: int) -> bool:
        if not len(slots) or start == stop:
            return False
        where = self._base, self._layout.output_stride, self._gpu.table(slots), start, stop
        return bool(self._gpu.count("differing", stop - start, *where, pattern, period, times=len(slots)))

    def _paint(self, start: int, stop: int, pattern: int, period: int) -> None:
        where = self._base, self._layout.output_stride, start, stop
        self._gpu.launch("paint", stop - start, *where, pattern, period, times=self._layout.slots)


def _whole_words(place: ArgPlace) -> tuple[int, int]:
    """Where an argument's last whole word of 8 bytes ends in its slot, and where its last byte."""
    return place.offset + place.nbytes // 8 * 8, place.offset + place.nbytes
