"""Tasks whose answers could be kept from one timed round to the next are told so, and no others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evaluators.check import check_task
from evaluators.reference import load_reference
from evaluators.reuse import reuse_hints
from evaluators.task_loading import load_task

DATA = Path(__file__).parents[2] / "data"
SORTING = DATA / "sort_rows"
ARGS = """args = [
  {{ name = "x", role = "in", dtype = "{dtype}", shape = ["M", "N"], transform = "{transform}" }},
  {{ name = "out", role = "out", dtype = "{dtype}", shape = {shape} }},
]
"""
REFERENCE = """import numpy as np
FAMILIES = ("random",)
def generate(axes, family, rng):
    return {{"x": rng.integers(-90, 90, (axes["M"], axes["N"])).astype("{numpy}")}}
def oracle(inputs, rows=None):
    x = inputs["x"] if rows is None else inputs["x"][rows]
    return {{"out": {formula}}}
def honest_variants(inputs, rows=None):
    return {{}}
def operations(axes):
    return 1
"""


def hints(tmp_path: Path, formula: str, dtype: str, transform: str) -> tuple[str, ...]:
    """What is said of a task that computes one formula of the rows ``x``."""
    text = (SORTING / "task.toml").read_text()
    before, _, after = text.partition("args = ")
    rest = after.partition("\n")[2]
    shape = '["M"]' if "axis=1)" in formula and "sort" not in formula else '["M", "N"]'
    shutil.copy(SORTING / "seed.cpp", tmp_path)
    (tmp_path / "task.toml").write_text(before + ARGS.format(dtype=dtype, transform=transform, shape=shape) + rest)
    numpy = {"fp32": "float32", "i32": "int32"}[dtype]
    (tmp_path / "reference.py").write_text(REFERENCE.format(formula=formula, numpy=numpy))
    return reuse_hints(load_reference(load_task(tmp_path)))


@pytest.mark.parametrize("transform", ["rotate", "xor"])
@pytest.mark.parametrize("dtype", ["i32", "fp32"])
@pytest.mark.parametrize("formula", ["np.sort(x, axis=1)", "x.max(axis=1)", "np.partition(x, 9, axis=1)[:, 9]"])
def test_what_is_sorted_or_selected_is_told_to_be_made_anew(
    tmp_path: Path, formula: str, dtype: str, transform: str
) -> None:
    formula = formula.replace("axis=1)[:, 9]", "axis=1)[:, 9] + 0 * x.sum(axis=1)")
    (said,) = hints(tmp_path, formula, dtype, transform)
    assert said.startswith(f"{tmp_path / 'task.toml'}: arg 'x': ")
    assert 'set transform = "fresh"' in said
    assert "\n" not in said


@pytest.mark.parametrize("formula", ["x.sum(axis=1)", "x * x"])
def test_integers_whose_rows_only_move_are_told_so(tmp_path: Path, formula: str) -> None:
    (said,) = hints(tmp_path, formula, "i32", "rotate")
    assert "rows of it only move" in said
    assert hints(tmp_path, formula, "i32", "xor") == ()
    assert hints(tmp_path, formula, "i32", "fresh") == ()


@pytest.mark.parametrize(
    "formula", ["x", "np.maximum(x, 0)", "x[:, ::-1]", "x - x.max(axis=1)[:, None]", "x.sum(axis=1)"]
)
def test_floats_that_are_copied_cut_or_added_are_none_of_it(tmp_path: Path, formula: str) -> None:
    assert hints(tmp_path, formula, "fp32", "rotate") == ()


@pytest.mark.parametrize("name", ["double", "row_sums", "scale_bf16", "softmax_rows", "sort_rows"])
def test_tasks_that_are_right_get_no_warning(name: str) -> None:
    assert reuse_hints(load_reference(load_task(DATA / name))) == ()


def test_the_check_of_a_sorting_task_that_forgot_it_warns_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "sort_rows"
    shutil.copytree(SORTING, folder)
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace(', transform = "fresh"', ""))
    report = check_task(load_task(folder), freeze=True)
    assert [f"{toml}: arg 'keys': rows of it only move" in hint for hint in report.hints] == [True]
