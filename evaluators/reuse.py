"""Whether answers of one timed round could serve in another: a hint for tasks that forgot ``transform = "fresh"``.

Two kinds are seen, on the smallest workload that is scored. Where every input holds integers whose rows only move, an
output whose rows move along is known but for an element or two of each row. And an output that consists of an input's
own elements, whichever their order was, is a sort or a selection: ``rotate`` and ``xor`` keep enough of the order.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evaluators.dtypes import DTYPES, Array, decode
from evaluators.reference import Arrays, Reference
from evaluators.task import Arg

ROWS = 8
"""Of the outputs that are looked at, to see what they are made of: an oracle may be slow."""
_SEED = 0x0DE2
_ADVICE = 'a program could keep its answers from one timed round to the next; set transform = "fresh"'


def reuse_hints(reference: Reference) -> tuple[str, ...]:
    """One line for each input that timed rounds should make anew; none where nothing of the two kinds is seen."""
    workload = min(reference.task.search_workloads(), key=reference.traffic_bytes)
    rng = np.random.default_rng(_SEED)
    inputs = reference.generate(workload, reference.families[0], rng)
    rows = reference.sample_rows(workload, ROWS, rng)
    kept = [arg for arg in reference.inputs if arg.transform != "fresh" and inputs[arg.name].size > 1]
    moved = kept if _only_moves(reference, inputs, rng) else []
    names = [arg.name for arg in moved] or [a.name for a in kept if _is_selected(reference, a, inputs, rows, rng)]
    why = "rows of it only move" if moved else "the outputs are elements of it, in whatever order they came"
    return tuple(f"{reference.task.folder / 'task.toml'}: arg {name!r}: {why}: {_ADVICE}" for name in names)


def _only_moves(reference: Reference, inputs: Arrays, rng: np.random.Generator) -> bool:
    """Whether rows of the outputs stay what they are while those of all inputs move, each by a turn of its own."""
    if not all(DTYPES[arg.dtype].exact and arg.transform == "rotate" for arg in reference.inputs):
        return False
    turned = {name: np.roll(array, rng.integers(1, max(len(array), 2)), axis=0) for name, array in inputs.items()}
    return _same_rows(reference.oracle(turned), reference.oracle(inputs))


def _is_selected(reference: Reference, arg: Arg, inputs: Arrays, rows: Array, rng: np.random.Generator) -> bool:
    """Whether some output is made of this input's elements, and the same whatever their order along an axis is."""
    values, outputs = decode(inputs[arg.name], arg.dtype), reference.oracle(inputs, rows)
    made = [name for name, array in outputs.items() if array.size and np.isin(array, values).all()]
    if not made or (values == values.flat[0]).all():
        return False
    for axis in {0, values.ndim - 1}:
        mixed = reference.oracle({**inputs, arg.name: rng.permuted(inputs[arg.name], axis=axis)}, rows)
        if any(np.array_equal(mixed[name], outputs[name]) for name in made):
            return True
    return False


def _same_rows(some: Mapping[str, Array], others: Mapping[str, Array]) -> bool:
    """Whether every output has the same rows, in whatever order."""

    def rows(array: Array) -> list[bytes]:
        return sorted(row.tobytes() for row in np.ascontiguousarray(array))

    return all(rows(array) == rows(others[name]) for name, array in some.items())
