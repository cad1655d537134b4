from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.dtypes import DTYPES, decode, encode, ulp

SMALL_FLOATS = ["bf16", "fp8_e4m3", "fp8_e5m2"]


@pytest.mark.parametrize("dtype", [*SMALL_FLOATS, "fp16"])
def test_every_bit_pattern_survives_decoding_and_encoding(dtype):
    storage = DTYPES[dtype].storage
    bits = np.arange(1 << (8 * storage.itemsize)).astype(f"uint{8 * storage.itemsize}").view(storage)
    values = decode(bits, dtype)
    again = decode(encode(values, dtype), dtype)
    np.testing.assert_array_equal(again, values)
    assert (np.signbit(again) == np.signbit(values))[~np.isnan(values)].all()


@pytest.mark.parametrize(
    ("dtype", "bits", "value"),
    [
        ("bf16", 0x3F80, 1.0),
        ("bf16", 0xFF80, -np.inf),
        ("bf16", 0x0001, 2.0**-133),
        ("fp8_e4m3", 0x7E, 448.0),
        ("fp8_e4m3", 0x7F, np.nan),
        ("fp8_e4m3", 0x01, 2.0**-9),
        ("fp8_e4m3", 0xB8, -1.0),
        ("fp8_e5m2", 0x7B, 57344.0),
        ("fp8_e5m2", 0x7C, np.inf),
        ("fp8_e5m2", 0x01, 2.0**-16),
    ],
)
def test_known_bit_patterns(dtype, bits, value):
    found = decode(np.array([bits], dtype=DTYPES[dtype].storage), dtype)[0]
    assert found == value or (np.isnan(found) and np.isnan(value))


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
@settings(deadline=None)
@given(st.floats(allow_nan=False, width=64))
def test_encoding_rounds_to_the_nearest_and_to_even(dtype, value):
    info = DTYPES[dtype]
    found = float(decode(encode(np.array([value]), dtype), dtype)[0])
    with np.errstate(invalid="ignore"):
        values = decode(np.arange(1 << (8 * info.storage.itemsize)).astype(info.storage), dtype).astype(np.float64)
    finite = np.unique(np.abs(values[np.isfinite(values)]))
    top, below = finite[-1], finite[-2]
    if abs(value) >= top + (top - below) / 2:
        assert found == np.copysign(np.inf, value) if info.has_inf else np.isnan(found)
        return
    at = np.searchsorted(finite, abs(value))
    near = [finite[i] for i in (at - 1, at) if 0 <= i < len(finite)]
    distances = [abs(Fraction(float(n)) - Fraction(abs(value))) for n in near]
    best = [n for n, d in zip(near, distances, strict=True) if d == min(distances)]
    assert abs(found) in best
    if len(best) == 2:
        index = int(np.searchsorted(finite, abs(found)))
        assert index % 2 == 0


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "fp16"])
@settings(deadline=None)
@given(data=st.data())
def test_ulp_is_the_distance_to_the_next_value(dtype, data):
    kind = DTYPES[dtype].storage.type
    value = kind(data.draw(st.floats(min_value=0, max_value=6e4, width=16)))
    if value > 0:
        assert ulp(np.array([value], dtype=np.float64), dtype)[0] == float(np.spacing(value))


def test_ulp_of_zero_is_zero_and_of_what_is_not_finite_is_nan():
    np.testing.assert_array_equal(ulp(np.array([0.0, np.inf, np.nan]), "fp32"), [0.0, np.nan, np.nan])


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=200))
def test_bf16_from_fp32_is_what_it_is_from_fp64(patterns):
    values = np.array(patterns, np.uint32).view(np.float32)
    quick, careful = encode(values, "bf16"), encode(values.astype(np.float64), "bf16")
    nan = np.isnan(values)
    np.testing.assert_array_equal(quick[~nan], careful[~nan])
    assert np.isnan(decode(quick[nan], "bf16")).all()
