"""Poison in, and guard zones around, one runner's outputs in device memory; see :class:`buffers.OutputGuard`.

A round's outputs are too many bytes to be poisoned and looked at whole each time. Small ones are; of a large one
``MARKS`` words are, at places that are drawn for every round and every slot: a call that is left out keeps all of them,
and one that leaves out a part of its output keeps some sooner or later. What is still marked is compared whole with the
oracle. Outputs of slots that are not called must stay as they were, which a keyed checksum of some of them tells.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evaluators.buffers import gaps_between, poison_element
from evaluators.cuda.device import DeviceBuffer, Gpu, Scratch
from evaluators.layout import GUARD_BYTES, ArgPlace, Layout

MARKS = 64
WORD = 8
IDLE_BYTES, LEAST_IDLE = 1 << 30, 8
"""Of slots that are not called so many bytes are watched, drawn for every round."""
SMALL_BYTES = 2 * MARKS * WORD
"""An output of at most this many bytes is poisoned throughout."""
Slots = npt.NDArray[np.uint64]


class DeviceGuard:
    """Every writable byte that is not an output belongs to a guard zone; the patterns are drawn per runner."""

    def __init__(self, gpu: Gpu, layout: Layout, outputs: DeviceBuffer, rng: np.random.Generator) -> None:
        self._gpu, self._layout, self._base, self._rng = gpu, layout, outputs.address, rng
        self._gaps = gaps_between(layout)
        longest = max((stop - start for start, stop in self._gaps), default=1)
        self._pattern = Scratch(gpu, rng.integers(0, 256, longest, dtype=np.uint8))
        self._outputs = [p for p in layout.places if p.role == "out" and p.nbytes]
        elements = {p.name: np.array([poison_element(p.dtype, rng)]).view(np.uint8) for p in self._outputs}
        words = {name: np.resize(element, WORD) for name, element in elements.items()}
        self._poison = {name: Scratch(gpu, word) for name, word in words.items()}
        self._words = {name: int(word.view(np.uint64)[0]) for name, word in words.items()}
        self._all = np.arange(layout.slots, dtype=np.uint64)
        self._marks: dict[str, Slots] = {}
        """Output -> a row a slot: where it was marked, as bytes from the base."""
        self._idle, self._watched = self._all[:0], self._all[:0]
        """The slots that will not be called, and those of them that are looked at."""
        self._idle_key, self._idle_sum = 0, 0

    def arm(self) -> None:
        """Write guards, and poison into every byte of every slot."""
        for start, stop in self._gaps:
            self._paint(start, stop, self._pattern.address, stop - start)
        for place in self._outputs:
            self._poison_whole(place)
        self._marks = {}

    def poison(self, called: Sequence[int] | None = None) -> None:
        """Poison the outputs of the slots that will be ``called``, and remember those of all others; default: all."""
        chosen = self._all if called is None else np.asarray(called, np.uint64)
        for place in self._outputs:
            if place.nbytes <= SMALL_BYTES:
                self._poison_whole(place)
            else:
                self._mark(place)
        self._idle = np.setdiff1d(self._all, chosen)
        count = max(IDLE_BYTES // max(self._layout.output_stride, 1), LEAST_IDLE)
        self._watched = self._rng.permutation(self._idle)[:count]
        self._idle_key = secrets.randbits(63)
        self._idle_sum = self._sum_of(self._watched)

    def broken(self) -> str | None:
        """One line about a guard zone whose bytes changed, or ``None``."""
        for start, stop in self._gaps:
            if self._differing(self._all, start, stop, self._pattern.address, stop - start):
                return f"wrote outside its output buffer (within {GUARD_BYTES} bytes of it)"
        return None

    def touched(self, slots: npt.NDArray[np.intp]) -> bool:
        """Whether an output of these slots, which were not called, was written."""
        if not np.array_equal(self._idle, slots):
            raise RuntimeError("poison() was told of other slots")
        return self._sum_of(self._watched) != self._idle_sum

    def unwritten_among(self, slots: Sequence[int]) -> list[int]:
        """Those of these slots in which a part of an output may not have been written."""
        called = np.asarray(slots, dtype=np.intp)
        found: set[int] = set()
        for place in self._outputs:
            found |= {int(slot) for slot in called[self._still_marked(place, called).any(axis=1)]}
        return sorted(found)

    def unwritten(self, slot: int) -> str | None:
        """The first output of a slot that is still poison wherever it was poisoned, or ``None``."""
        one = np.array([slot], np.intp)
        return next((p.name for p in self._outputs if self._still_marked(p, one).all()), None)

    def close(self) -> None:
        """Give the patterns' memory back."""
        for part in (self._pattern, *self._poison.values()):
            part.close()

    def _mark(self, place: ArgPlace) -> None:
        drawn = self._rng.integers(0, place.nbytes // WORD, (len(self._all), MARKS), dtype=np.uint64)
        starts = self._all * np.uint64(self._layout.output_stride) + np.uint64(place.offset)
        self._marks[place.name] = starts[:, None] + np.uint64(WORD) * drawn
        where = self._gpu.table(self._marks[place.name])
        self._gpu.launch("mark", drawn.size, self._base, where, drawn.size, self._words[place.name])

    def _still_marked(self, place: ArgPlace, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """A row a slot: which of its marks, or whether all of it, is poison still."""
        if place.name not in self._marks:
            whole = [not self._left(place, np.array([slot], np.uint64)) for slot in slots]
            return np.array(whole, np.bool_)[:, None]
        places = self._marks[place.name][slots]
        target = self._gpu.room("gathered", places.size)
        word = self._words[place.name]
        self._gpu.launch("same_words", places.size, self._base, self._gpu.table(places), places.size, word, target)
        same = np.empty(places.shape, np.bool_)
        self._gpu.download(same, target)
        return same

    def _sum_of(self, slots: Slots) -> int:
        """A keyed checksum of all outputs of these slots."""
        total = 0
        for index, place in enumerate(self._outputs if len(slots) else ()):
            where = self._base, self._layout.output_stride, self._gpu.table(slots)
            span = place.offset, place.offset + place.nbytes
            key = self._idle_key + index
            total += self._gpu.count("checksum_slots", place.nbytes // WORD, *where, *span, key, times=len(slots))
        return total

    def _left(self, place: ArgPlace, slots: Slots) -> bool:
        """Whether anything but poison lies in this output of these slots."""
        whole, end = _whole_words(place)
        if whole > place.offset and len(slots):
            word, table = self._words[place.name], self._gpu.table(slots)
            where = self._base, self._layout.output_stride, table, place.offset, whole
            if self._gpu.count("differing_words", (whole - place.offset) // WORD, *where, word, times=len(slots)):
                return True
        return self._differing(slots, whole, end, self._poison[place.name].address, WORD)

    def _differing(self, slots: Slots, start: int, stop: int, pattern: int, period: int) -> bool:
        if not len(slots) or start == stop:
            return False
        where = self._base, self._layout.output_stride, self._gpu.table(slots), start, stop
        return bool(self._gpu.count("differing", stop - start, *where, pattern, period, times=len(slots)))

    def _poison_whole(self, place: ArgPlace) -> None:
        whole, end = _whole_words(place)
        if whole > place.offset:
            where = self._base, self._layout.output_stride, place.offset, whole
            words, slots = (whole - place.offset) // WORD, self._layout.slots
            self._gpu.launch("paint_words", words, *where, self._words[place.name], times=slots)
        if end > whole:
            self._paint(whole, end, self._poison[place.name].address, WORD)

    def _paint(self, start: int, stop: int, pattern: int, period: int) -> None:
        where = self._base, self._layout.output_stride, start, stop
        self._gpu.launch("paint", stop - start, *where, pattern, period, times=self._layout.slots)


def _whole_words(place: ArgPlace) -> tuple[int, int]:
    """Where an argument's last whole word of 8 bytes ends in its slot, and where its last byte."""
    return place.offset + place.nbytes // WORD * WORD, place.offset + place.nbytes
