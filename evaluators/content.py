"""Fresh inputs for every round, cheaply: keyed transforms of generated pools. The keys never leave the judge."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evaluators.dtypes import Array
from evaluators.reference import Reference
from evaluators.task import Arg, Workload

POOL_MEMBERS = 2
"""How many generated inputs a workload's pool holds. Every slot of every round is another transform of one of them."""
FLAT_LATE_STRIDE = 64
"""In one-dimensional arrays one element in this many is replaced; in others one in every row."""


class ContentPool:
    """Generated inputs of one workload's ordinary family, and their transforms.

    What a transform yields is valid wherever each argument alone may be rotated and have elements exchanged
    (``rotate``) or takes any bits (``xor``); arguments with more structure say ``fresh`` and are generated anew.
    """

    def __init__(self, reference: Reference, workload: Workload, rng: np.random.Generator) -> None:
        self._reference = reference
        self._workload = workload
        self._family = reference.families[0]
        self._args = {a.name: a for a in reference.task.args if a.role != "out"}
        self._members = [reference.generate(workload, self._family, rng) for _ in range(POOL_MEMBERS)]

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


def transform(arg: Arg, base: Array, target: Array, rng: np.random.Generator) -> None:
    """Write a keyed transform of ``base`` into ``target`` (same shape and dtype)."""
    if base.size == 0:
        return
    if arg.transform == "xor":
        _xor(base, target, rng)
    else:
        _rotate(base, target, rng)
        _late_changes(base, target, rng)


def _xor(base: Array, target: Array, rng: np.random.Generator) -> None:
    """Every row XORed with its own random 64-bit key (its own random byte where rows are no multiple of 8 bytes)."""
    rows = len(base) if base.ndim > 1 else 1
    raw, out = base.reshape(rows, -1).view(np.uint8), target.reshape(rows, -1).view(np.uint8)
    word = np.uint64 if raw.shape[1] % 8 == 0 else np.uint8
    keys = rng.integers(0, np.iinfo(word).max, (rows, 1), dtype=word, endpoint=True)
    np.bitwise_xor(raw.view(word), keys, out=out.view(word))


def _rotate(base: Array, target: Array, rng: np.random.Generator) -> None:
    shift = int(rng.integers(len(base)))
    target[shift:] = base[: len(base) - shift]
    target[:shift] = base[len(base) - shift :]


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
