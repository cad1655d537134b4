import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.content import Base, transform
from evaluators.dtypes import decode, storage_dtype
from evaluators.task import Arg

SHAPES = st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple)


def arg(transform_name, dtype="fp32"):
    return Arg(name="x", role="in", dtype=dtype, shape=("N",), transform=transform_name)


def rotate(base, target, rng, dtype="fp32"):
    transform(arg("rotate", dtype), Base.of(arg("rotate", dtype), base), target, rng)


@given(shape=SHAPES, seed=st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_rotation_of_integers_yields_only_elements_that_were_there(shape, seed):
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 1000, shape, dtype=np.int32)
    before = base.copy()
    target = np.full(shape, -1, np.int32)
    rotate(base, target, rng, "i32")
    assert np.isin(target, base).all()
    assert np.array_equal(base, before)


@given(shape=SHAPES, seed=st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_rotated_floats_keep_their_sign_and_their_power_of_two(shape, seed):
    rng = np.random.default_rng(seed)
    base = rng.standard_normal(shape).astype(np.float32)
    before = base.copy()
    target = np.full(shape, np.nan, np.float32)
    rotate(base, target, rng)
    powers = [np.copysign(np.exp2(np.floor(np.log2(np.abs(a)))), a) for a in (target, base)]
    assert np.isin(*powers).all()
    assert np.array_equal(base, before)


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2"])
def test_zeros_denormals_inf_and_nan_stay_what_they_are(dtype):
    bits = storage_dtype(dtype).itemsize * 8
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**bits, 4096, dtype=f"u{bits // 8}")
    base = words.view(storage_dtype(dtype))
    target = np.empty_like(base)
    rotate(base, target, rng, dtype)
    with np.errstate(invalid="ignore"):  # signalling NaN among them
        before, after = (decode(a, dtype).astype(np.float64) for a in (base, target))
    for kind in (np.isnan, np.isinf, lambda a: a == 0):
        assert set(np.unique(after[kind(after)].view(np.uint64))) <= set(
            np.unique(before[kind(before)].view(np.uint64))
        )
    assert abs(np.isfinite(after).mean() - np.isfinite(before).mean()) < 0.05


def test_hardly_any_value_comes_twice():
    """What a program has learned of values is of no use: in the next slot they are others."""
    rng = np.random.default_rng(0)
    base = Base.of(arg("rotate"), rng.standard_normal((64, 256)).astype(np.float32))
    seen: set[float] = set()
    target = np.empty_like(base.values)
    for _ in range(4):
        transform(arg("rotate"), base, target, rng)
        assert len(seen & set(target.ravel().tolist())) < 0.01 * target.size
        seen |= set(target.ravel().tolist())


def test_every_row_changes_even_where_the_rotation_is_trivial():
    """With one row the rotation does nothing: the late change must make it new all the same."""
    base = np.arange(4096, dtype=np.float32).reshape(1, 4096)
    target = np.empty_like(base)
    changed = 0
    for seed in range(20):
        rotate(base, target, np.random.default_rng(seed))
        changed += not np.array_equal(target, base)
    assert changed >= 19


def test_rows_of_a_matrix_are_new_in_every_round():
    rng = np.random.default_rng(0)
    base = rng.standard_normal((64, 256)).astype(np.float32)
    seen = set()
    target = np.empty_like(base)
    for _ in range(8):
        rotate(base, target, rng)
        seen |= {row.tobytes() for row in target}
    assert len(seen) > 0.98 * 8 * 64


@given(shape=SHAPES, seed=st.integers(0, 2**32))
@settings(max_examples=80)
def test_xor_gives_each_row_its_own_key_and_changes_one_byte_more(shape, seed):
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 256, (*shape, 16), dtype=np.uint8)
    target = np.empty_like(base)
    transform(arg("xor", "u8"), Base(base, None), target, rng)
    words = (base ^ target).reshape(len(base), -1).view(np.uint64)
    for row in words:
        by_count = sorted(np.unique(row, return_counts=True)[1])
        assert by_count == ([1, row.size - 1] if row.size > 1 else [1])


def test_xor_of_odd_rows_and_empty_arrays():
    rng = np.random.default_rng(0)
    base = rng.integers(0, 256, (5, 3), dtype=np.uint8)
    target = base.copy()
    transform(arg("xor", "u8"), Base(base, None), target, rng)
    assert not np.array_equal(base, target)
    empty = np.empty((0, 4), np.float32)
    rotate(empty, empty.copy(), rng)
