"""What is made of an author's words."""

import pytest

from evolve.edits.text import first_words


@pytest.mark.parametrize(
    ("prose", "said"),
    [
        ("ZERO_POINT_ONCE is 1: `sum_of_x` once a row", "ZERO_POINT_ONCE is 1: sum_of_x once a row"),
        ("**Change**: use __restrict__ and *two* accumulators", "Change: use __restrict__ and two accumulators"),
        ("## Reason\n\nTiles", "Reason"),
        ("> - **_mm256_fmadd_ps** in place of a*b + c*d", "_mm256_fmadd_ps in place of a*b + c*d"),
        (
            "* `#pragma omp simd` over *p, where int *p, *q and n > 4",
            "#pragma omp simd over *p, where int *p, *q and n > 4",
        ),
        ("-O3 unrolls x**2 + y**2 and (*p)*(*q)", "-O3 unrolls x**2 + y**2 and (*p)*(*q)"),
        ("***Both*** of **a *b* c**", "Both of a b c"),
        ("#define N 4 goes, ->next stays", "#define N 4 goes, ->next stays"),
        ("---\n***\n\nTiles of 8:", "Tiles of 8"),
        ("-----\n\nok.", ""),
    ],
)
def test_emphasis_goes_and_names_stay(prose, said):
    assert first_words(prose) == said


def test_a_long_line_is_cut():
    assert first_words("*x " * 200_000, 20) == "*x *x *x *x *x *x *…"
