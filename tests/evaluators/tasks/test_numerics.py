"""Limits measured from honest programs: every honest one passes on any seed, and nothing that is less precise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evaluators.compare import Limit, compare, compare_outputs
from evaluators.dtypes import DTYPES, decode, encode
from evaluators.reference import load_reference
from evaluators.task_loading import TASK_FILE, load_task
from evaluators.tolerance import measure_limits
from tests.numerics import REORDERED, Findings, Numerics, rotating

ROOT = Path(__file__).parents[3]
SHIPPED = sorted(
    path.parent
    for pattern in ("tasks/*", "tests/data/*", "benchmarks/noise/tasks/*")
    for path in ROOT.glob(f"{pattern}/{TASK_FILE}")
    if load_task(path.parent).reference_path.is_file()
)
CHEAP_ELEMENTS = 1 << 19
"""What a workload's inputs may be, with few rows and columns, to be drawn often."""


def honest_failures(folder, seeds):
    """Every draw on which an honest program fails: one family a seed where the workload is scored, else all."""
    numerics, found = Numerics(folder), Findings()
    for workload in numerics.workloads(CHEAP_ELEMENTS):
        for seed in seeds:
            scored = workload.split == "search"
            families = rotating(numerics.families, seed, 1 if scored else len(numerics.families))
            found.add(numerics.honest(workload, families, seed))
    assert found.honest > 0
    return found.failures


def surviving_mutants(folder, seeds):
    """Every mutant that passes on a scored workload."""
    numerics, found = Numerics(folder), Findings()
    for workload in numerics.workloads(CHEAP_ELEMENTS):
        for seed in seeds if workload.split == "search" else ():
            found.add(numerics.surviving(workload, seed))
    return found.failures


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
def test_honest_programs_pass_on_seeds_that_nothing_was_measured_on(folder):
    """A thousand seeds are a program of their own, ``benchmarks/numerics_seeds.py``."""
    assert honest_failures(folder, range(4)) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
def test_honest_programs_pass_on_many_seeds(folder):
    assert honest_failures(folder, range(200)) == []


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
def test_every_mutant_of_every_shipped_reference_fails(folder):
    assert surviving_mutants(folder, range(2)) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
def test_every_mutant_fails_wherever_it_is_planted(folder):
    assert surviving_mutants(folder, range(50)) == []


@pytest.mark.parametrize("name", sorted(REORDERED))
def test_another_order_of_the_sums_is_the_same_task(name):
    """What the oracle says of reordered inputs is what it says of the inputs."""
    (folder,) = [path for path in SHIPPED if path.name == name]
    numerics = Numerics(folder)
    workload = min(numerics.workloads(), key=lambda w: w.axes.get("K", w.axes.get("N", 0)) % 64 == 0)
    inputs = numerics.reference.generate(workload, numerics.families[0], np.random.default_rng(0))
    changed, back = REORDERED[name](inputs, np.random.default_rng(1))
    right, found = numerics.reference.oracle(inputs), numerics.reference.oracle(changed)
    for output, values in right.items():
        np.testing.assert_allclose(back(found[output]), values, rtol=1e-9, atol=1e-12)


# Sums in every element type.

TASK = """\
name = "sums"
languages = ["python"]
entry = "sums"
allowed_precision = ["fp32"]
args = [
  {{ name = "x", role = "in", dtype = "{dtype}", shape = ["M", "K"] }},
  {{ name = "out", role = "out", dtype = "{dtype}", shape = ["M"] }},
]
workloads = [{{ axes = {{ M = 64, K = {k} }} }}]
seed_program = "seed.py"
baselines = [{{ name = "seed", file = "seed.py", language = "python" }}]
"""
REFERENCE = """\
import numpy as np
from evaluators.dtypes import DTYPES, decode, encode

FAMILIES = ("normal", "tiny", "large", "denormal")
ROW_AXIS = "M"
DTYPE = {dtype!r}
INSIDE = np.float64 if DTYPE == "fp64" else np.float32
POWER = {{"normal": 0.0, "tiny": 0.7, "large": 0.3, "denormal": 1.0}}


def generate(axes, family, rng):
    info = DTYPES[DTYPE]
    least = info.min_exponent + (0 if family == "denormal" else 2)
    power = int(POWER[family] * least) if family != "large" else int(0.3 * -info.min_exponent)
    x = np.abs(rng.standard_normal((axes["M"], axes["K"])))  # of one sign: a mean of both would hide in a coarse type
    return {{"x": encode(np.ldexp(x, power), DTYPE)}}


def _values(inputs, rows, kind):
    return decode(inputs["x"] if rows is None else inputs["x"][rows], DTYPE).astype(kind)


def oracle(inputs, rows=None):
    wide = np.longdouble if DTYPE == "fp64" else np.float64
    x = _values(inputs, rows, wide)
    return {{"out": x.sum(axis=1) / wide(x.shape[1])}}


def scale(inputs, rows=None):
    return {{"out": np.abs(_values(inputs, rows, np.float64)).mean(axis=1)}}


def honest_variants(inputs, rows=None):
    x = _values(inputs, rows, INSIDE)
    count = INSIDE(x.shape[1])
    lanes = x.reshape(len(x), -1, 8)
    sums = {{
        "sequential": np.cumsum(x, axis=1, dtype=INSIDE)[:, -1],
        "backwards": np.cumsum(x[:, ::-1], axis=1, dtype=INSIDE)[:, -1],
        "pairwise": x.sum(axis=1, dtype=INSIDE),
        "lanes": np.cumsum(lanes, axis=1, dtype=INSIDE)[:, -1].sum(axis=1, dtype=INSIDE),
    }}
    return {{name: {{"out": encode(total / count, DTYPE)}} for name, total in sums.items()}}


def traffic_bytes(axes):
    return axes["M"] * axes["K"]


def operations(axes):
    return axes["M"] * axes["K"]
"""


def sums_of(folder, dtype, k):
    """A reference that averages rows, in any element type."""
    folder.mkdir(exist_ok=True)
    (folder / "task.toml").write_text(TASK.format(dtype=dtype, k=k))
    (folder / "reference.py").write_text(REFERENCE.format(dtype=dtype))
    (folder / "seed.py").write_text("def sums(x, out, M, K): pass\n")
    return load_reference(load_task(folder))


def in_any_order(x, kind, rng):
    """The sum of every row in an order and a grouping drawn at random: a re-association that nobody measured."""
    parts = x[:, rng.permutation(x.shape[1])]
    while parts.shape[1] > 1:
        cuts = np.unique(np.concatenate([[0], rng.integers(0, parts.shape[1], max(parts.shape[1] // 3, 1))]))
        parts = np.add.reduceat(parts, cuts, axis=1, dtype=kind) if len(cuts) < parts.shape[1] else parts
        if len(cuts) == 1:
            break
    return parts[:, 0]


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("k", [64, 2048])
def test_any_order_of_a_sum_passes_and_a_dropped_term_does_not(tmp_path, dtype, k):
    reference = sums_of(tmp_path / "sums", dtype, k)
    lock = measure_limits(reference, seeds=4)
    workload, kind = reference.task.workloads[0], reference.module.INSIDE
    for family in reference.families:
        limits = lock.of(workload.name, family)
        for seed in range(3):
            rng = np.random.default_rng([seed, 7])
            inputs = reference.generate(workload, family, rng)
            oracle, scale = reference.oracle(inputs), reference.scale(inputs)
            x = decode(inputs["x"], dtype).astype(kind)
            mean = {"out": encode(in_any_order(x, kind, rng) / kind(k), dtype)}
            result = compare_outputs(mean, oracle, scale, limits, reference.outputs)
            assert result.passed, (family, seed, result.message)
            half = {"out": encode(x[:, : k // 2].sum(axis=1) / kind(k), dtype)}
            if family != "denormal":
                assert not compare_outputs(half, oracle, scale, limits, reference.outputs).passed


def test_one_term_in_a_long_sum_shows(tmp_path):
    """Of 65,536 terms in fp32, one in a thousand left out; and a term of the others' magnitude."""
    reference = sums_of(tmp_path / "sums", "fp32", 65536)
    workload = reference.task.workloads[0]
    limits = measure_limits(reference, seeds=2).of(workload.name, "normal")
    inputs = reference.generate(workload, "normal", np.random.default_rng(5))
    oracle, scale, x = reference.oracle(inputs), reference.scale(inputs), inputs["x"].astype(np.float64)
    thinned = x.copy()
    thinned[:, ::1000] = 0
    one = x.copy()
    one[:, 777] = 0
    for wrong in (thinned, one):
        mean = {"out": (wrong.sum(axis=1) / 65536).astype(np.float32)}
        assert not compare_outputs(mean, oracle, scale, limits, reference.outputs).passed


# What must not matter to a comparison.


@settings(max_examples=200, deadline=None)
@given(
    dtype=st.sampled_from(["fp64", "fp32", "bf16"]),
    values=hnp.arrays(np.float64, (3, 4), elements=st.floats(-8, 8, width=16)),
    nudges=hnp.arrays(np.float64, (3, 4), elements=st.floats(-(2.0**-7), 2.0**-7, width=16)),
    power=st.integers(-60, 60),
)
def test_a_power_of_two_changes_no_error(dtype, values, nudges, power):
    """Tiny and huge scales are judged like ordinary ones, as long as nothing becomes denormal."""
    oracle, actual = values, encode(values + nudges, dtype)
    scale = np.abs(oracle).max(axis=1) + 1
    limit = Limit(4.0, 2.0)
    near = compare(actual, oracle, scale, limit, dtype)
    far = compare(
        encode(np.ldexp(decode(actual, dtype).astype(np.float64), power), dtype),
        np.ldexp(oracle, power),
        np.ldexp(scale, power),
        limit,
        dtype,
    )
    lost = np.ldexp(np.abs(decode(actual, dtype)).astype(np.float64), power)
    if ((lost > 0) & (lost < np.ldexp(1.0, DTYPES[dtype].min_exponent))).any():
        return
    assert (far.status, far.errors) == (near.status, near.errors)


@settings(max_examples=200, deadline=None)
@given(
    dtype=st.sampled_from([name for name, info in DTYPES.items() if info.exact]),
    data=st.data(),
)
def test_integers_agree_with_an_exact_comparator(dtype, data):
    kind = DTYPES[dtype].storage
    numbers = st.booleans() if dtype == "bool" else st.integers(int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    right = data.draw(st.lists(numbers, min_size=1, max_size=6))
    got = [data.draw(st.one_of(st.just(value), numbers)) for value in right]
    oracle, actual = np.array(right, dtype=kind), np.array(got, dtype=kind)
    result = compare(actual, oracle, np.ones(len(right)), Limit(1e9, 1e9), dtype)
    assert result.passed == (got == right)
    if not result.passed:
        distance = max(abs(int(a) - int(b)) for a, b in zip(got, right, strict=True))
        assert result.errors.max_ulp == pytest.approx(distance, rel=1e-9)
        first = next(i for i, (a, b) in enumerate(zip(got, right, strict=True)) if a != b)
        assert result.message.startswith(f"out[{first}]: ")
