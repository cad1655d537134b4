"""Shared memory between the judge and runners: sealed memfds that neither side can shrink under the other."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from evaluators.dtypes import storage_dtype
from evaluators.layout import GUARD_BYTES, ArgPlace, Layout
from evaluators.task import DType

# <linux/fcntl.h>; Python's fcntl module lacks some of them.
_F_ADD_SEALS = 1033
_F_SEAL_SEAL, _F_SEAL_SHRINK, _F_SEAL_GROW, _F_SEAL_FUTURE_WRITE = 1, 2, 4, 16

Bytes = npt.NDArray[np.uint8]

FIRST_ELEMENTS = 16
"""Of an output, how many are looked at before all of them are."""


class SharedBuffer:
    """One memfd that the judge maps for writing.

    Its size is sealed, so that a runner cannot truncate it and fault the judge. With ``read_only`` every mapping made
    after the judge's own is read-only too, whatever the runner asks for.
    """

    def __init__(self, name: str, size: int, *, read_only: bool) -> None:
        self.size = max(-(-size // mmap.PAGESIZE), 1) * mmap.PAGESIZE
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        self._map = mmap.mmap(self.fd, self.size)
        seals = _F_SEAL_SHRINK | _F_SEAL_GROW | _F_SEAL_SEAL | (_F_SEAL_FUTURE_WRITE if read_only else 0)
        fcntl.fcntl(self.fd, _F_ADD_SEALS, seals)
        self.view = memoryview(self._map)
        self.bytes: Bytes = np.frombuffer(self._map, dtype=np.uint8)

    def reader(self) -> int:
        """A new descriptor that can only read; the caller closes it.

        Not a duplicate: those share one file offset, in which one runner could leave eight bytes for the next.
        """
        return os.open(f"/proc/self/fd/{self.fd}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Give the descriptor back; the memory goes when the last mapping goes."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class OutputGuard:
    """Poison in, and guard zones around, one runner's outputs.

    The pattern is drawn per runner, so that a candidate cannot restore what it overwrote without having read it, and
    every writable byte that is not an output belongs to a guard zone.
    """

    def __init__(self, layout: Layout, outputs: SharedBuffer, rng: np.random.Generator) -> None:
        self._rows: Bytes = outputs.bytes[: layout.output_bytes].reshape(layout.slots, layout.output_stride)
        self._gaps = gaps_between(layout)
        self._pattern: Bytes = rng.integers(0, 256, layout.output_stride, dtype=np.uint8)
        self._outputs = [p for p in layout.places if p.role == "out" and p.nbytes]
        self._poison = {p.name: poison_element(p.dtype, rng) for p in self._outputs}

    def arm(self) -> None:
        """Write guards and poison into every slot."""
        for start, stop in self._gaps:
            self._rows[:, start:stop] = self._pattern[start:stop]
        self.poison()

    def poison(self, called: Sequence[int] | None = None) -> None:
        """Write poison into every output of every slot, whichever will be ``called``."""
        del called
        for place in self._outputs:
            self._words(place)[...] = self._poison[place.name]

    def broken(self) -> str | None:
        """One line about the first guard zone whose bytes changed, or ``None``."""
        for start, stop in self._gaps:
            if not np.array_equal(
                self._rows[:, start:stop], np.broadcast_to(self._pattern[start:stop], (len(self._rows), stop - start))
            ):
                return f"wrote outside its output buffer (within {GUARD_BYTES} bytes of it)"
        return None

    def touched(self, slots: npt.NDArray[np.intp]) -> bool:
        """Whether any output of these slots differs from the poison: for slots that were never called."""
        return any((self._words(place)[slots] != self._poison[place.name]).any() for place in self._outputs)

    def unwritten_among(self, slots: Sequence[int]) -> list[int]:
        """Those of these slots in which an output seems never to have been written, 8-bit integers included."""
        called = np.asarray(slots, dtype=np.intp)
        suspects: dict[int, None] = {}
        for place in self._outputs:
            words, poison = self._words(place), self._poison[place.name]
            start = words[called, :FIRST_ELEMENTS] == poison
            suspects |= {int(slot): None for slot in called[start.all(axis=1)] if (words[slot] == poison).all()}
        return list(suspects)

    def unwritten(self, slot: int) -> str | None:
        """The first output of a slot that is still poison throughout, or ``None``.

        Outputs of 8-bit integers may well be what the poison happens to be, and are given the benefit of the doubt.
        """
        for place in self._outputs:
            if place.dtype not in ("u8", "i8") and (self._words(place)[slot] == self._poison[place.name]).all():
                return place.name
        return None

    def _words(self, place: ArgPlace) -> npt.NDArray[np.unsignedinteger[Any]]:
        """One output of every slot as the bits of its elements, shape (slots, elements)."""
        word = self._poison[place.name].dtype
        return self._rows[:, place.offset : place.offset + place.nbytes].view(word)


def gaps_between(layout: Layout) -> list[tuple[int, int]]:
    """The stretches of a slot's writable part that belong to no argument."""
    spans = sorted((p.offset, p.offset + p.nbytes) for p in layout.places if p.writable)
    edges = [0, *(edge for span in spans for edge in span), layout.output_stride]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]


_NANS: Mapping[DType, tuple[type[np.unsignedinteger[Any]], int, int]] = {
    "fp64": (np.uint64, 0x7FF4_0000_0000_0000, 0xF_FFFF),
    "fp32": (np.uint32, 0x7FA0_0000, 0xF_FFFF),
    "fp16": (np.uint16, 0x7D00, 0xFF),
    "bf16": (np.uint16, 0x7FA0, 0x1F),
    "fp8_e4m3": (np.uint8, 0x7F, 0x80),
    "fp8_e5m2": (np.uint8, 0x7D, 0x82),
}
"""A NaN of each type, and the bits of it that may be anything."""


def poison_element(dtype: DType, rng: np.random.Generator) -> np.unsignedinteger[Any]:
    """The bits of one poison element: a NaN with a random payload for floats, no bool for bools, else random bits."""
    if dtype in _NANS:
        kind, nan, free = _NANS[dtype]
        return kind(nan | (int(rng.integers(1 << 20)) & free))
    word = np.dtype(f"u{storage_dtype(dtype).itemsize}")
    least = 2 if dtype == "bool" else 1
    made: np.unsignedinteger[Any] = word.type(rng.integers(least, np.iinfo(word).max, dtype=word, endpoint=True))
    return made
