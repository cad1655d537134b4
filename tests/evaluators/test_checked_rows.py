"""How many rows of an output are compared in one call of a timed round."""

from types import SimpleNamespace

import numpy as np
import pytest

from evaluators.checker import LEAST_ROWS, SAMPLED_ROWS, Checker


class Asked(Exception):
    """Instead of an answer: the rows that the oracle was asked for."""


def rows_of(shape):
    arg = SimpleNamespace(name="out", role="out", dtype="fp32")

    def oracle(given, rows):
        raise Asked(rows)

    reference = SimpleNamespace(task=SimpleNamespace(args=(arg,)), families=("plain",), oracle=oracle)
    checker = Checker(reference, None, np.random.default_rng(0))
    session = SimpleNamespace(arguments=lambda slot: {"out": np.empty(shape, np.float32)})
    with pytest.raises(Asked) as asked:
        checker.check(session, 0, None, "plain")
    return asked.value.args[0]


@pytest.mark.parametrize(
    ("shape", "least", "most"),
    [
        pytest.param((500,), 25, SAMPLED_ROWS, id="numbers"),
        pytest.param((500, 4096), 25, SAMPLED_ROWS, id="rows"),
        pytest.param((500, 5000), 20, 26, id="wide rows"),
        pytest.param((500, 14_336), 12, LEAST_ROWS, id="wider ones"),
        pytest.param((500, 8, 4096), 12, LEAST_ROWS, id="planes"),
    ],
)
def test_of_wide_rows_fewer_are_compared_but_never_next_to_none(shape, least, most):
    rows = rows_of(shape)
    assert least <= len(rows) <= most
    assert len(set(rows.tolist())) == len(rows)


def test_an_output_of_few_rows_is_compared_whole_however_wide_they_are():
    assert rows_of((64, 20_000)) is None
