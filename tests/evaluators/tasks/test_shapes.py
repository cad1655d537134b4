from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.shapes import ShapeError, axis_names, evaluate_expression, evaluate_shape
from evaluators.task import Arg

AXES = {"M": 7, "N": 4096, "K_2": 1}


def expressions() -> st.SearchStrategy[str]:
    leaves = st.one_of(st.sampled_from(sorted(AXES)), st.integers(0, 99).map(str))
    return st.recursive(
        leaves,
        lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "//"]), inner).map(
            "({0[0]} {0[1]} {0[2]})".format
        ),
        max_leaves=8,
    )


@settings(deadline=None)
@given(expressions())
def test_an_expression_means_what_it_means_in_python(text):
    try:
        wanted = eval(text, {"__builtins__": {}}, dict(AXES))
    except ZeroDivisionError:
        wanted = -1
    if wanted < 0:
        with pytest.raises(ShapeError):
            evaluate_expression(text, AXES)
    else:
        assert evaluate_expression(text, AXES) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "M / 2",
        "M ** 9",
        "-M",
        "f(M)",
        "M.x",
        "M[0]",
        "1.5",
        "True",
        "'a'",
        "M if N else 1",
        "(M",
        "M; N",
        "__import__('os')",
        "9" * 201,
        "(" * 190,
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ShapeError):
        evaluate_expression(text, AXES)


def test_axes_come_in_order_of_first_appearance():
    args = [
        Arg(name="a", role="in", dtype="fp32", shape=("N // 2 + K", 3, "M")),
        Arg(name="b", role="out", dtype="fp32", shape=("M", "B * K")),
    ]
    assert axis_names(args) == ("N", "K", "M", "B")
    assert evaluate_shape(args[0], {"N": 8, "K": 1, "M": 5}) == (5, 3, 5)


class Cyclic:
    """Has the collector run Python, and with it other threads, in the middle of what allocates."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        for _ in range(100):
            pass


def test_threads_may_parse_side_by_side():
    """Python 3.11 alone fails here without care: nearly always within so many expressions."""
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(5, 2, 2)
    sys.setswitchinterval(1e-6)

    def parse(start):
        for n in range(start, start + 1000):
            Cyclic()
            assert evaluate_expression(f"(M + {n}) * (N // 2) - (1 + (2 + (3 + 4)))", {"M": 0, "N": 2}) == n - 10
        return True

    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(parse, range(10, 40010, 10000)))
    finally:
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
