import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.content import transform
from evaluators.task import Arg

SHAPES = st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple)


def arg(transform_name, dtype="fp32"):
    return Arg(name="x", role="in", dtype=dtype, shape=("N",), transform=transform_name)


@given(shape=SHAPES, seed=st.integers(0, 2**32))
@settings(max_examples=80)
def test_rotation_yields_only_elements_that_were_there(shape, seed):
    rng = np.random.default_rng(seed)
    base = rng.standard_normal(shape).astype(np.float32)
    before = base.copy()
    target = np.full(shape, np.nan, np.float32)
    transform(arg("rotate"), base, target, rng)
    assert np.isin(target, base).all()
    assert np.array_equal(base, before)


def test_every_row_changes_even_where_the_rotation_is_trivial():
    """With one row the rotation does nothing: the late change must make it new all the same."""
    base = np.arange(4096, dtype=np.float32).reshape(1, 4096)
    target = np.empty_like(base)
    changed = 0
    for seed in range(20):
        transform(arg("rotate"), base, target, np.random.default_rng(seed))
        changed += not np.array_equal(target, base)
    assert changed >= 19


def test_rows_of_a_matrix_are_new_in_every_round():
    rng = np.random.default_rng(0)
    base = rng.standard_normal((64, 256)).astype(np.float32)
    seen = set()
    target = np.empty_like(base)
    for _ in range(8):
        transform(arg("rotate"), base, target, rng)
        seen |= {row.tobytes() for row in target}
    assert len(seen) > 0.98 * 8 * 64


@given(shape=SHAPES, seed=st.integers(0, 2**32))
@settings(max_examples=80)
def test_xor_gives_each_row_its_own_key(shape, seed):
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 256, (*shape, 16), dtype=np.uint8)
    target = np.empty_like(base)
    transform(arg("xor", "u8"), base, target, rng)
    rows = (base ^ target).reshape(len(base), -1, 8)
    assert (rows == rows[:, :1]).all()


def test_xor_of_odd_rows_and_empty_arrays():
    rng = np.random.default_rng(0)
    base = rng.integers(0, 256, (5, 3), dtype=np.uint8)
    target = base.copy()
    transform(arg("xor", "u8"), base, target, rng)
    assert not np.array_equal(base, target)
    empty = np.empty((0, 4), np.float32)
    transform(arg("rotate"), empty, empty.copy(), rng)
