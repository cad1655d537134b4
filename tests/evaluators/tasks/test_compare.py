from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evaluators.compare import Limit, compare, compare_outputs
from evaluators.dtypes import DTYPES, encode
from evaluators.evaluation import Status
from tests.exact_compare import exact_verdict

TIGHT = Limit(2.0, 1.0)


def fp32(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def fp64(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


@st.composite
def comparisons(draw):
    dtype = draw(st.sampled_from(["fp64", "fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2"]))
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    anything = st.floats(width=64) | st.sampled_from(
        [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 1e-42, 65504.0, 1e39]
    )
    oracle = draw(hnp.arrays(np.float64, (rows, columns), elements=anything))
    actual = encode(oracle, dtype)
    for _ in range(draw(st.integers(0, 3))):  # a few elements wrong: a little, or by anything
        at = draw(st.integers(0, rows - 1)), draw(st.integers(0, columns - 1))
        factor = draw(st.sampled_from([1 - 2**-52, 1 + 2**-23, 1 + 2**-20, 1.01]))
        with np.errstate(over="ignore"):
            nudged = encode(oracle[at] * factor, dtype)
        actual[at] = nudged if draw(st.booleans()) else encode(np.array(draw(anything)), dtype)
    scale = draw(
        hnp.arrays(
            np.float64, rows, elements=st.floats(min_value=0, allow_nan=False) | st.sampled_from([0.0, 1.0, 1e-40])
        )
    )
    return dtype, actual, oracle, scale


@settings(max_examples=400, deadline=None)
@given(comparisons())
def test_agrees_with_an_exact_comparator(case):
    dtype, actual, oracle, scale = case
    limit = Limit(2.0, 1.5)
    result = compare(actual, oracle, scale, limit, dtype)
    assert list(exact_verdict(actual, oracle, scale[:, None], dtype).disagreements(result, limit)) == []


def test_the_exact_comparator_disagrees_with_a_wrong_verdict():
    oracle, scale, limit = fp64(1, 2).reshape(1, 2), fp64(2), Limit(2.0, 1.5)
    verdict = exact_verdict(fp32(1, 2.5).reshape(1, 2), oracle, scale[:, None], "fp32")
    right = compare(fp32(1, 2.5).reshape(1, 2), oracle, scale, limit, "fp32")
    lenient = compare(fp32(1, 2).reshape(1, 2), oracle, scale, limit, "fp32")
    assert list(verdict.disagreements(right, limit)) == []
    assert list(verdict.disagreements(lenient, limit)) != []


# What an attacker or a user notices.


def test_the_error_counts_against_the_scale_of_the_row_not_the_element():
    oracle, scale = fp64(1e-6, 1e-6), fp64(1.0, 1e-6)
    actual = fp32(1e-6 + 1e-7, 1e-6 + 1e-7)
    assert compare(actual[:1], oracle[:1], scale[:1], TIGHT, "fp32").passed
    result = compare(actual, oracle, scale, TIGHT, "fp32")
    assert result.status is Status.WRONG_VALUES
    assert result.message.startswith("out[1]: got 1.09999996e-06, expected 1e-06")


def test_the_message_names_the_row_in_the_whole_output_and_the_limit():
    result = compare(
        fp32(1, 2, 3, 4).reshape(2, 2),
        fp64(1, 2, 3, 5).reshape(2, 2),
        fp64(4, 8),
        TIGHT,
        "fp32",
        name="y",
        rows=np.array([17, 90]),
    )
    assert result.message == "y[90, 1]: got 4, expected 5, off by 1.049e+06 ulp of the row's scale, limit 2"


def test_a_uniformly_less_precise_answer_fails_by_the_rms_although_each_element_is_within_the_maximum():
    rng = np.random.default_rng(0)
    oracle = rng.standard_normal(1000)
    step = 2.0**-23 * 4  # ulp of a scale of 4
    off = oracle + step * rng.choice([-0.9, 0.9], 1000)
    limit = Limit(max_ulp=2.0, rms_ulp=0.5, elements=64)
    assert compare(oracle.astype(np.float32), oracle, np.full(1000, 4.0), limit, "fp32").passed
    result = compare(off.astype(np.float32), oracle, np.full(1000, 4.0), limit, "fp32")
    assert result.status is Status.WRONG_VALUES
    assert "rms error is 0.9" in result.message


def test_the_rms_of_a_handful_of_elements_is_not_held_against_a_limit_measured_over_more():
    scale, limit = np.full(31, 4.0), Limit(max_ulp=1.0, rms_ulp=0.5, elements=64)
    off = np.full(31, 1.0) + 2.0**-23 * 4 * 0.75
    assert compare(off.astype(np.float32), np.full(31, 1.0), scale, limit, "fp32").passed
    assert not compare(np.tile(off, 2).astype(np.float32), np.full(62, 1.0), np.tile(scale, 2), limit, "fp32").passed
    assert not compare(off.astype(np.float32), np.full(31, 1.0), scale, Limit(1.0, 0.5, elements=3), "fp32").passed


@pytest.mark.parametrize("got", [math.nan, math.inf, -math.inf])
def test_nan_is_no_wildcard_and_neither_is_inf(got):
    assert compare(fp32(1, got), fp64(1, 2), fp64(1, 2), Limit(1e30, 1e30), "fp32").status is Status.NOT_FINITE


@pytest.mark.parametrize(
    ("got", "wanted", "passes"),
    [
        (math.inf, math.inf, True),
        (-math.inf, math.inf, False),
        (math.nan, math.nan, True),
        (math.nan, math.inf, False),
        (3e38, math.inf, False),
        (math.inf, 1e39, True),
        (-math.inf, 1e39, False),
    ],
)
def test_what_is_not_finite_must_match_in_place_and_sign(got, wanted, passes):
    assert compare(fp32(1, got), fp64(1, wanted), fp64(1, 1), TIGHT, "fp32").passed == passes


def test_a_row_of_scale_zero_must_be_exactly_zero_of_either_sign():
    zero = fp64(0, 0)
    assert compare(fp32(0.0, -0.0), zero, zero, TIGHT, "fp32").passed
    result = compare(fp32(0.0, 1e-45), zero, zero, Limit(1e30, 1e30), "fp32")
    assert result.status is Status.WRONG_VALUES
    assert "only 0 is right" in result.message


def test_flushing_denormals_to_zero_shows():
    tiny = 3e-39
    assert compare(fp32(tiny), fp64(float(np.float32(tiny))), fp64(tiny), TIGHT, "fp32").passed
    assert not compare(fp32(0.0), fp64(float(np.float32(tiny))), fp64(tiny), TIGHT, "fp32").passed


@pytest.mark.parametrize(("dtype", "wrong"), [("i32", 7), ("u8", 255), ("bool", True), ("i64", -(2**60) - 1)])
def test_integers_and_bools_are_exact_whatever_the_limit(dtype, wrong):
    kind = DTYPES[dtype].storage
    right = np.array([0, 1, -(2**60)]).astype(kind)
    actual = right.copy()
    assert compare(actual, right, np.ones(3), Limit(1e9, 1e9), dtype).passed
    actual[2 if dtype == "i64" else 0] = wrong
    result = compare(actual, right, np.ones(3), Limit(1e9, 1e9), dtype)
    assert result.status is Status.WRONG_VALUES
    assert result.errors.max_limit_ulp == 0


def test_several_outputs_the_first_wrong_one_decides_else_the_nearest_to_its_limit_is_shown():
    oracle = {"a": fp64(1, 1), "b": fp64(1, 1), "n": np.array([3])}
    scale = {"a": fp64(1, 1), "b": fp64(1, 1), "n": np.ones(1)}
    limits = {"a": Limit(10, 10), "b": Limit(10, 10)}
    dtypes = {"a": "fp32", "b": "fp32", "n": "i32"}
    near = {"a": fp32(1, 1), "b": fp32(1, 1 + 2**-23), "n": np.array([3], dtype=np.int32)}
    passed = compare_outputs(near, oracle, scale, limits, dtypes)
    assert passed.passed
    assert passed.errors.max_ulp == 1.0
    wrong = {**near, "n": np.array([4], dtype=np.int32)}
    assert compare_outputs(wrong, oracle, scale, limits, dtypes).message == "n[0]: got 4, expected 3 (1 of 1 differ)"


def test_other_shapes_are_our_mistake():
    with pytest.raises(ValueError, match="shape"):
        compare(fp32(1, 2), fp64(1), fp64(1), TIGHT, "fp32")


def test_an_empty_output_passes():
    assert compare(fp32(), fp64(), fp64(), TIGHT, "fp32").passed
