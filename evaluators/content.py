"""Fresh inputs for every round, cheaply: keyed transforms of generated pools. The keys never leave the judge.

A transform must leave nothing to be remembered. Rows that only move, with an element changed here and there, can be
told by a few of their elements, and the answers to them patched; so where elements are floats their fractions change as
well, each row's by a key of its own: no value comes twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evaluators.dtypes import DTYPES, Array
from evaluators.reference import Reference
from evaluators.task import Arg, Workload

POOL_MEMBERS = 2
"""How many generated inputs a workload's pool holds. Every slot of every round is another transform of one of them."""
FLAT_LATE_STRIDE = 64
"""In one-dimensional arrays one element in this many is replaced; in others one in every row."""


@dataclass(frozen=True)
class Base:
    """One generated array of a pool, and which of its bits may change."""

    values: Array
    fractions: Array | None
    """Bits of each element's fraction, as unsigned integers (one for all elements, or one each); ``None``: no floats.
    Zeros, denormals, Inf and NaN have none: they stay what they are."""

    @staticmethod
    def of(arg: Arg, values: Array) -> Base:
        """The base of an argument's values."""
        info = DTYPES[arg.dtype]
        if info.exact:
            return Base(values, None)
        words = _words(values)
        fraction = np.array((1 << (info.precision - 1)) - 1, words.dtype)
        exponent = np.array((1 << (8 * words.itemsize - 1)) - 1, words.dtype) ^ fraction
        special = np.isin(words & exponent, (0, exponent))
        return Base(values, np.where(special, 0, fraction).astype(words.dtype) if special.any() else fraction)


class ContentPool:
    """Generated inputs of one workload's ordinary family, and their transforms.

    What a transform yields is valid wherever each argument alone may be rotated, have elements exchanged and floats
    moved within their power of two (``rotate``) or takes any bits (``xor``); arguments with more structure say
    ``fresh`` and are generated anew.
    """

    def __init__(self, reference: Reference, workload: Workload, rng: np.random.Generator) -> None:
        self._reference = reference
        self._workload = workload
        self._family = reference.families[0]
        self._args = {a.name: a for a in reference.task.args if a.role != "out"}
        members = [reference.generate(workload, self._family, rng) for _ in range(POOL_MEMBERS)]
        self._members = [{n: Base.of(a, member[n]) for n, a in self._args.items()} for member in members]

    def fill(self, arguments: Mapping[str, Array], rng: np.random.Generator) -> None:
        """Write fresh content into one slot's ``in`` and ``inout`` arguments."""
        member = self._members[int(rng.integers(len(self._members)))]
        anew: dict[str, Array] | None = None
        for name, arg in self._args.items():
            target, base = arguments[name], member[name]
            if arg.transform == "fresh":
                anew = anew or self._reference.generate(self._workload, self._family, rng)
                target[...] = anew[name]
            else:
                transform(arg, base, target, rng)


def transformed(reference: Reference, inputs: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """What a slot of a timed round may hold where a pool's member holds ``inputs``.

    Values move within their power of two there, so that rows may be of another kind than any that was generated: scores
    around 100 come to lie anywhere between 64 and 128.
    """
    made = {}
    for arg in (a for a in reference.task.args if a.role != "out"):
        made[arg.name] = inputs[arg.name]
        if arg.transform != "fresh":
            made[arg.name] = np.empty_like(inputs[arg.name])
            transform(arg, Base.of(arg, inputs[arg.name]), made[arg.name], rng)
    return made


def transform(arg: Arg, base: Base, target: Array, rng: np.random.Generator) -> None:
    """Write a keyed transform of ``base`` into ``target`` (same shape and dtype)."""
    if base.values.size == 0:
        return
    if arg.transform == "xor":
        _xor(base.values, target, rng)
        return
    if base.fractions is None:
        _rotate(base.values, target, rng)
    else:
        _rotate_and_change(_words(base.values), base.fractions, _words(target), rng)
    _late_changes(base.values, target, rng)


def _words(array: Array) -> Array:
    return array.view(f"u{array.itemsize}")


def _xor(base: Array, target: Array, rng: np.random.Generator) -> None:
    """Every row XORed with its own random 64-bit key (its own random byte where rows are no multiple of 8 bytes)."""
    rows = len(base) if base.ndim > 1 else 1
    raw, out = base.reshape(rows, -1).view(np.uint8), target.reshape(rows, -1).view(np.uint8)
    word = np.uint64 if raw.shape[1] % 8 == 0 else np.uint8
    keys = rng.integers(0, np.iinfo(word).max, (rows, 1), dtype=word, endpoint=True)
    np.bitwise_xor(raw.view(word), keys, out=out.view(word))
    _change_bytes(out if base.ndim > 1 else out.reshape(-1, 1), rng)


def _change_bytes(target: Array, rng: np.random.Generator) -> None:
    """Change a random byte of every row, in flat arrays one in ``FLAT_LATE_STRIDE``.

    The key can be read off the first word of a row that is known. Who then takes the rest for known as well is wrong.
    """
    rows, width = target.shape
    chosen = np.arange(rows) if width > 1 else rng.integers(0, rows, max(rows // FLAT_LATE_STRIDE, 1))
    target[chosen, rng.integers(0, width, len(chosen))] ^= rng.integers(1, 256, len(chosen), dtype=np.uint8)


def _rotate(base: Array, target: Array, rng: np.random.Generator) -> None:
    for there, here in _turned(len(base), rng):
        target[here] = base[there]


def _rotate_and_change(base: Array, fractions: Array, target: Array, rng: np.random.Generator) -> None:
    """Rotate the rows, and XOR the fraction of every element with its row's key (a flat array is one row)."""
    rows = (len(target), *(1,) * (target.ndim - 1)) if target.ndim > 1 else (1,)
    keys = rng.integers(0, int(fractions.max()), rows, dtype=target.dtype, endpoint=True)
    for there, here in _turned(len(base), rng):
        key = keys[here] if target.ndim > 1 else keys
        np.bitwise_xor(base[there], key & fractions[there] if fractions.ndim else key, out=target[here])


def _turned(rows: int, rng: np.random.Generator) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """The two pieces of a rotation by a random number of rows: from where in the base, to where in the target."""
    shift = int(rng.integers(rows))
    return (slice(0, rows - shift), slice(shift, rows)), (slice(rows - shift, rows), slice(0, shift))


def _late_changes(base: Array, target: Array, rng: np.random.Generator) -> None:
    """Replace one element of every row by another of the same array, so that no row can be known by its place."""
    flat = base.reshape(-1)
    if base.ndim > 1:
        rows = base.shape[0]
        view = target.reshape(rows, -1)
        columns = rng.integers(0, view.shape[1], rows)
        view[np.arange(rows), columns] = flat[rng.integers(0, flat.size, rows)]
    else:
        count = max(flat.size // FLAT_LATE_STRIDE, 1)
        places = rng.integers(0, flat.size, count)
        target[places] = flat[rng.integers(0, flat.size, count)]
