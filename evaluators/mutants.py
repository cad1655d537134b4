"""Wrong answers that a task must catch: what lazy, broken or cheating programs return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluators.dtypes import DTYPES, Array, decode, encode
from evaluators.reference import Arrays, Reference
from evaluators.task import DType, Workload

TILE_ROWS = 16
"""A tile that a mutant gets wrong: so many rows from somewhere in the middle."""
SEVERAL_ROWS = 256
"""Mutants that need the oracle again are made for so many rows: they are wrong everywhere or nowhere."""


@dataclass(frozen=True)
class Mutant:
    """One wrong answer, or some rows of it."""

    name: str
    outputs: Arrays
    rows: Array | None = None
    """The rows that ``outputs`` holds; ``None``: all."""


@dataclass(frozen=True)
class Case:
    """What mutants are made from: inputs and their right answer, and those of another draw."""

    workload: Workload
    inputs: Arrays
    oracle: Arrays
    other_inputs: Arrays
    other_oracle: Arrays


def mutants(reference: Reference, case: Case, rng: np.random.Generator) -> Iterator[Mutant]:
    """Every mutant that makes sense for this task; one that equals the right answer is left out."""
    honest = reference.encoded(case.oracle)
    made = [*_whole(reference, case, honest), *_local(reference, honest, rng), *_less_precise(reference, case, rng)]
    rows = reference.sample_rows(case.workload, SEVERAL_ROWS, rng)
    made += [Mutant(name, outputs, rows) for name, outputs in reference.mutants(case.inputs, rows).items()]
    for mutant in made:
        right = honest if mutant.rows is None else {name: array[mutant.rows] for name, array in honest.items()}
        if any(mutant.outputs[name].tobytes() != right[name].tobytes() for name in right):
            yield mutant


def _whole(reference: Reference, case: Case, honest: Arrays) -> Iterator[Mutant]:
    """Wrong everywhere."""
    yield Mutant("all zeros", {name: np.zeros_like(array) for name, array in honest.items()})
    yield Mutant("the mean everywhere", _each(reference, honest, _mean))
    yield Mutant("sign flipped", _each(reference, honest, _flipped))
    yield Mutant("stale output", reference.encoded(case.other_oracle))
    yield Mutant("poison left", _each(reference, honest, lambda array, dtype: np.full_like(array, poison(dtype))))
    for arg in reference.inputs:
        passed = {
            name: encode(_numbers(case.inputs[arg.name], arg.dtype), dtype)
            for name, dtype in reference.outputs.items()
            if case.inputs[arg.name].shape == honest[name].shape
        }
        if passed:
            yield Mutant(f"input {arg.name} passed through", {**honest, **passed})


def _local(reference: Reference, honest: Arrays, rng: np.random.Generator) -> Iterator[Mutant]:
    """Wrong in one place of one output."""
    for name, dtype in reference.outputs.items():
        array = honest[name]
        rows = len(array)
        if rows == 0 or array.size == 0:
            continue
        row = int(rng.integers(rows))
        start = int(rng.integers(max(1, rows - TILE_ROWS)))
        tile = slice(start, start + min(TILE_ROWS, max(1, rows // 2)))
        suffix = f" of {name}" if len(honest) > 1 else ""
        yield Mutant(f"one wrong row{suffix}", {**honest, name: _changed(array, row, np.roll(array, 1, axis=0)[row])})
        yield Mutant(f"one wrong tile{suffix}", {**honest, name: _changed(array, tile, np.zeros_like(array[tile]))})
        yield Mutant(f"one unwritten tile{suffix}", {**honest, name: _changed(array, tile, poison(dtype))})
        if not DTYPES[dtype].exact:
            place = np.unravel_index(int(rng.integers(array.size)), array.shape)
            for word, value in (("NaN", np.nan), ("Inf", np.inf)):
                planted = encode(np.array(value), dtype)
                yield Mutant(f"{word} planted{suffix}", {**honest, name: _changed(array, place, planted)})


def _less_precise(reference: Reference, case: Case, rng: np.random.Generator) -> Iterator[Mutant]:
    """Inputs or outputs in a precision that is neither allowed nor the output's own."""
    rows = reference.sample_rows(case.workload, SEVERAL_ROWS, rng)
    exact = reference.oracle(case.inputs, rows)
    for lower in _forbidden_precisions(reference):
        changed = dict(case.inputs)
        for arg in reference.inputs:
            if not DTYPES[arg.dtype].exact:
                changed[arg.name] = encode(_through(_numbers(changed[arg.name], arg.dtype), lower), arg.dtype)
        if any(changed[name].tobytes() != case.inputs[name].tobytes() for name in changed):
            yield Mutant(f"inputs rounded to {lower}", reference.encoded(reference.oracle(changed, rows)), rows)
        rounded = {
            name: encode(exact[name] if DTYPES[dtype].exact else _through(exact[name], lower), dtype)
            for name, dtype in reference.outputs.items()
        }
        yield Mutant(f"outputs rounded to {lower}", rounded, rows)


def _forbidden_precisions(reference: Reference) -> list[DType]:
    """fp16, bf16 and fp8, where the task allows nothing as imprecise."""
    floats = [dtype for dtype in reference.outputs.values() if not DTYPES[dtype].exact]
    allowed = [*floats, *reference.task.allowed_precision]
    least = min((DTYPES[dtype].precision for dtype in allowed if not DTYPES[dtype].exact), default=0)
    candidates: tuple[DType, ...] = ("fp16", "bf16", "fp8_e4m3")
    return [dtype for dtype in candidates if DTYPES[dtype].precision < least]


def poison(dtype: DType) -> Array:
    """What an output buffer holds before a program writes it: NaN, or the smallest integer, or True."""
    info = DTYPES[dtype]
    if not info.exact:
        return encode(np.array(np.nan), dtype)
    return np.array(True) if dtype == "bool" else np.array(np.iinfo(info.storage).min or 0xA5, dtype=info.storage)


def _numbers(array: Array, dtype: DType) -> Array:
    """A buffer as numbers that can be calculated with."""
    return array if DTYPES[dtype].exact else decode(array, dtype).astype(np.float64)


def _through(values: Array, dtype: DType) -> Array:
    """Numbers rounded to a less precise dtype and back; what would overflow there saturates, as careful code has it."""
    largest = DTYPES[dtype].largest
    return decode(encode(np.clip(values, -largest, largest), dtype), dtype).astype(np.float64)


def _flipped(array: Array, dtype: DType) -> Array:
    return ~array if dtype == "bool" else encode(-_numbers(array, dtype), dtype)


def _mean(array: Array, dtype: DType) -> Array:
    numbers = _numbers(array, dtype).astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    return np.broadcast_to(encode(np.array(finite.mean() if finite.size else 0.0), dtype), array.shape)


def _each(reference: Reference, honest: Arrays, change: Callable[[Array, DType], Array]) -> Arrays:
    return {name: change(honest[name], dtype) for name, dtype in reference.outputs.items()}


def _changed(array: Array, place: Any, value: Array) -> Array:
    """A copy with something else at ``place``, any index that NumPy takes."""
    changed = array.copy()
    changed[place] = value
    return changed
