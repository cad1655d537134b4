"""From samples to places: lines of the source, instructions, libraries, threads."""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from evaluators.instructions import Kind, kinds_of, vector_bits
from evaluators.listing import Instruction, Listing
from evaluators.mappings import AddressSpace
from evaluators.profile import MOST_HOT_SPOTS, MOST_INSTRUCTIONS, MOST_TEXT, MOST_THREADS, HotInstruction, HotSpot
from evaluators.report import printable
from evaluators.sampling import Doing, Moment, Samples

KERNEL = "system calls"
LEAST_SHARE = 0.005
"""Places with less are not listed."""
LEAST_THREAD = 0.01
"""A thread beyond those allowed that works less is one that a runtime keeps in reserve."""
WIDTH_SHARE = 0.1
"""Vectors are as wide as the widest that so much of the vector samples have."""
_WAITING = re.compile(r"lib(?:gomp|omp|iomp5)\b")
"""Runtimes whose own code does nothing but start and wait for threads."""
_INTERPRETER = re.compile(r"(?:lib)?python[\d.]*(?:\.so[\d.]*)?")


@dataclass(frozen=True)
class Spot:
    """One place, as finely as it is known."""

    file: str
    """The library or file it lies in; empty for the program's own shared object."""
    instruction: Instruction | None = None
    waiting: bool = False


@dataclass
class Sampled:
    """All samples, placed."""

    samples: int = 0
    work: Tally[Spot] = field(default_factory=Tally)
    """Of threads that worked."""
    waiting: int = 0
    """Of threads that waited for another."""
    by_thread: Tally[int] = field(default_factory=Tally)
    """Samples in which each thread worked."""

    @property
    def worked(self) -> int:
        """Samples of working threads, all together."""
        return self.work.total()

    def share(self, *kinds: Kind) -> float:
        """The share of the work in the program's own code that is of one of these kinds."""
        own = self._own()
        wanted = sum(n for i, n in own if kinds_of(i.text) & set(kinds))
        return wanted / max(sum(n for _, n in own), 1)

    @property
    def own_share(self) -> float:
        """The share of the work that lies in the program's own code."""
        return sum(n for spot, n in self.work.items() if not spot.file) / max(self.worked, 1)

    @property
    def interpreter_share(self) -> float:
        """The share of the work that an interpreter does."""
        found = sum(n for spot, n in self.work.items() if _INTERPRETER.fullmatch(spot.file))
        return found / max(self.worked, 1)

    @property
    def kernel_share(self) -> float:
        """The share of the work in system calls other than waiting."""
        return sum(n for spot, n in self.work.items() if spot.file == KERNEL) / max(self.worked, 1)

    def widest_bits(self) -> int:
        """How wide the program's vectors are; 0 where there are none."""
        widths: Tally[int] = Tally()
        for instruction, n in self._own():
            if Kind.VECTOR in kinds_of(instruction.text):
                widths[vector_bits(instruction.text)] += n
        least = WIDTH_SHARE * widths.total()
        return max((bits for bits, n in widths.items() if n >= least), default=0)

    def busy_threads(self, threads: int) -> tuple[float, ...]:
        """For each thread, and for each that is allowed and was not there, the share of samples in which it worked."""
        shares = sorted((min(n / max(self.samples, 1), 1.0) for n in self.by_thread.values()), reverse=True)
        some = [share for n, share in enumerate(shares[:MOST_THREADS]) if n < threads or share >= LEAST_THREAD]
        return tuple(some + [0.0] * (threads - len(some)))

    def _own(self) -> list[tuple[Instruction, int]]:
        return [(s.instruction, n) for s, n in self.work.items() if not s.file and s.instruction is not None]


def place_samples(samples: Samples, artifact: str | None, listing: Listing | None) -> Sampled:
    """Find out where each moment was.

    Args:
        samples: what was seen.
        artifact: the bare name of the program's own shared object, where it has one.
        listing: of that object.
    """
    space = AddressSpace(samples.maps)
    placed = Sampled(samples=len(samples.moments))
    spots: dict[tuple[int, Doing], Spot] = {}
    for moments in samples.moments:
        for moment in moments:
            key = moment.address, moment.doing
            if key not in spots:
                spots[key] = _spot(moment, space, artifact, listing)
            spot = spots[key]
            if spot.waiting:
                placed.waiting += 1
            else:
                placed.work[spot] += 1
                placed.by_thread[moment.thread] += 1
    return placed


def hot_spots(sampled: Sampled, source: str) -> tuple[HotSpot, ...]:
    """The places with the largest shares of the work, the hottest first."""
    lines = source.splitlines()
    groups: dict[tuple[str, str, int | None], Tally[str]] = {}
    for spot, n in sampled.work.items():
        own = spot.instruction
        key = (spot.file, own.function if own else "", own.line if own else None)
        groups.setdefault(key, Tally())[own.text if own else ""] += n
    total = max(sampled.worked, 1)
    hottest = sorted(groups.items(), key=lambda group: (-group[1].total(), str(group[0])))[:MOST_HOT_SPOTS]
    return tuple(
        HotSpot(
            share=tally.total() / total,
            function=_line(file or _name(function) or "its own code"),
            line=number,
            text=_line(lines[number - 1].strip()) if number is not None and number <= len(lines) else "",
            instructions=_hottest(tally, total),
        )
        for (file, function, number), tally in hottest
        if tally.total() / total >= LEAST_SHARE
    )


def _name(function: str) -> str:
    """A readable name without the types of its arguments."""
    return function.partition("(")[0] or function


def _hottest(tally: Mapping[str, int], total: int) -> tuple[HotInstruction, ...]:
    known: Iterable[tuple[str, int]] = ((text, n) for text, n in tally.items() if text)
    hottest = sorted(known, key=lambda item: (-item[1], item[0]))[:MOST_INSTRUCTIONS]
    return tuple(HotInstruction(share=n / total, text=_line(text)) for text, n in hottest if n / total >= LEAST_SHARE)


def _spot(moment: Moment, space: AddressSpace, artifact: str | None, listing: Listing | None) -> Spot:
    if moment.doing is not Doing.OWN:
        return Spot(KERNEL, waiting=moment.doing is not Doing.SYSTEM)
    place = space.place(moment.address)
    if artifact is not None and place.file == artifact:
        return Spot("", listing.at_work(place.offset) if listing is not None else None)
    return Spot(place.file, waiting=bool(_WAITING.match(place.file)))


def _line(text: str) -> str:
    return printable(text)[:MOST_TEXT]
