"""Poison in, and guard zones around, one runner's outputs in device memory; see :class:`buffers.OutputGuard`.

A round's outputs are too many bytes to be poisoned and looked at whole each time. Small ones are; of a large one
``MARKS`` words are, at places that are drawn for every round and every slot: a call that is left out keeps all of them,
and one that leaves out a part of its output keeps some sooner or later. What is still marked is compared whole with the
oracle. Outputs of slots that are not called must stay as they were, which a keyed checksum of some of them tells.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluators.buffers import gaps_between, poison_element
from evaluators.cuda.counting import WORD, counts
from evaluators.cuda.device import DeviceBuffer, Gpu, Scratch
from evaluators.layout import GUARD_BYTES, ArgPlace, Layout

MARKS = 64
IDLE_BYTES, LEAST_IDLE = 1 << 30, 8
"""Of slots that are not called so many bytes are watched, drawn for every round."""
SMALL_BYTES = 2 * MARKS * WORD
"""An output of at most this many bytes is poisoned throughout."""
BEFORE, AFTER, OUTSIDE = range(3)
COUNTERS = 3
"""What is counted on the device: watched outputs added up before a round and after it, bytes of guard zones changed."""
Slots = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Seen:
    """What a runner left where it has nothing to write."""

    broken: str | None
    """One line about a guard zone whose bytes changed."""
    touched: bool
    """Whether an output of a slot that was not to be called was written."""


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
        self._marked = [p for p in self._outputs if p.nbytes > SMALL_BYTES]
        self._has_marks = False
        self._idle, self._watched = self._all[:0], 0
        """The slots that will not be called, and how many of them are looked at."""
        self._idle_key = 0
        # Tables lie on the device for as long as they hold: handing one over makes the host wait for it.
        lengths = layout.slots, COUNTERS, layout.slots, *[layout.slots * MARKS for _ in self._marked]
        self._tables = Scratch(gpu, np.concatenate([self._all, np.zeros(sum(lengths[1:]), np.uint64)]))
        starts = [self._tables.address + WORD * int(start) for start in np.cumsum((0, *lengths))]
        self._slots_at, self._counters_at, self._watched_at, *marks_at = starts[:-1]
        self._marks_at = {p.name: start for p, start in zip(self._marked, marks_at, strict=True)}
        """Output -> a row a slot: where it is marked, as bytes from the base."""

    def arm(self) -> None:
        """Write guards, and poison into every byte of every slot."""
        for start, stop in self._gaps:
            self._paint(start, stop, self._pattern.address, stop - start)
        for place in self._outputs:
            self._poison_whole(place)
        self._has_marks = False

    def poison(self, called: Sequence[int] | None = None) -> None:
        """Poison the outputs of the slots that will be ``called``, and remember those of all others; default: all."""
        self._idle = self._all[:0] if called is None else np.delete(self._all, np.asarray(called, np.intp))
        count = max(IDLE_BYTES // max(self._layout.output_stride, 1), LEAST_IDLE)
        watched = self._rng.permutation(self._idle)[:count]
        self._watched = len(watched)
        self._idle_key = secrets.randbits(63)
        unused = np.zeros(len(self._all) - len(watched), np.uint64)
        drawn = [self._draw_marks(place) for place in self._marked]
        tables = [np.zeros(COUNTERS, np.uint64), watched, unused, *drawn]
        self._gpu.upload(self._counters_at, np.concatenate(tables))
        for place in self._outputs:
            if place in self._marked:
                marks = len(self._all) * MARKS
                where = self._base, self._marks_at[place.name], marks
                self._gpu.launch("mark", marks, *where, self._words[place.name])
            else:
                self._poison_whole(place)
        self._has_marks = True
        self._add_up(self._counters_at + WORD * BEFORE)

    def look(self) -> Seen:
        """What became of guard zones and of slots that were not to be called; waits for the device once."""
        after, outside = (self._counters_at + WORD * which for which in (AFTER, OUTSIDE))
        self._gpu.clear(after, WORD * (COUNTERS - AFTER))
        for start, stop in self._gaps:
            where = self._base, self._layout.output_stride, self._slots_at, start, stop
            pattern = self._pattern.address, stop - start
            self._gpu.launch("differing", stop - start, *where, *pattern, outside, times=len(self._all))
        self._add_up(after)
        found = np.empty(COUNTERS, np.uint64)
        self._gpu.download(found, self._counters_at)
        words = f"wrote outside its output buffer (within {GUARD_BYTES} bytes of it)"
        return Seen(words if found[OUTSIDE] else None, bool(found[AFTER] != found[BEFORE]))

    def broken(self) -> str | None:
        """One line about a guard zone whose bytes changed, or ``None``."""
        return self.look().broken

    def touched(self, slots: npt.NDArray[np.intp]) -> bool:
        """Whether an output of these slots, which were not called, was written."""
        self.expect_idle(slots)
        return self.look().touched

    def expect_idle(self, slots: npt.NDArray[np.intp]) -> None:
        """Make sure that these are the slots that were not to be called."""
        if not np.array_equal(self._idle, slots):
            raise RuntimeError("poison() was told of other slots")

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
        for part in (self._pattern, self._tables, *self._poison.values()):
            part.close()

    def _draw_marks(self, place: ArgPlace) -> Slots:
        drawn = self._rng.integers(0, place.nbytes // WORD, (len(self._all), MARKS), dtype=np.uint64)
        starts = self._all * np.uint64(self._layout.output_stride) + np.uint64(place.offset)
        return (starts[:, None] + np.uint64(WORD) * drawn).ravel()

    def _still_marked(self, place: ArgPlace, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """A row a slot: which of its marks, or whether all of it, is poison still."""
        if not self._has_marks or place not in self._marked:
            return self._all_poison(place, slots)[:, None]
        same = np.empty((len(self._all), MARKS), np.bool_)
        target = self._gpu.room("gathered", same.size)
        where = self._base, self._marks_at[place.name], same.size
        self._gpu.launch("same_words", same.size, *where, self._words[place.name], target)
        self._gpu.download(same, target)
        return same[slots]

    def _all_poison(self, place: ArgPlace, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """For each of these slots whether nothing but poison lies in this output."""
        whole, end = _whole_words(place)
        word, rest = self._words[place.name], (self._poison[place.name].address, WORD)
        where = [(self._base, self._layout.output_stride, self._slots_at + WORD * int(slot)) for slot in slots]
        left = np.zeros(len(slots), np.bool_)
        if whole > place.offset:
            words = [(*at, place.offset, whole, word) for at in where]
            left |= counts(self._gpu, "differing_words", (whole - place.offset) // WORD, words) > 0
        if end > whole:
            rests = [(*at, whole, end, *rest) for at in where]
            left |= counts(self._gpu, "differing", end - whole, rests) > 0
        return ~left

    def _add_up(self, counter: int) -> None:
        """Add a keyed checksum of all outputs of the slots that are watched to a counter on the device."""
        for index, place in enumerate(self._outputs):
            where = self._base, self._layout.output_stride, self._watched_at
            span = place.offset, place.offset + place.nbytes
            key = self._idle_key + index
            words, times = place.nbytes // WORD, self._watched
            self._gpu.launch("checksum_slots", words, *where, *span, key, counter, times=times)

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
