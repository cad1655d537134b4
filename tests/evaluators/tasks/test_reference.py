from __future__ import annotations

import numpy as np
import pytest

from evaluators.errors import TaskError
from evaluators.reference import check_reference, load_reference
from evaluators.task_loading import load_task


def refused(folder, *edits) -> str:
    with pytest.raises(TaskError) as caught:
        check_reference(folder.reference(*edits))
    text = str(caught.value)
    assert "\n" not in text
    assert str(folder.path / "reference.py") in text
    return text


def test_a_right_reference_passes(reference):
    check_reference(reference)


def test_the_scale_defaults_to_the_largest_magnitude_of_the_row(folder):
    reference = folder.reference(("def scale(", "def unused("))
    inputs = reference.generate(reference.task.workloads[0], "normal", np.random.default_rng(0))
    np.testing.assert_array_equal(reference.scale(inputs)["out"], np.abs(reference.oracle(inputs)["out"]))


DRAW_X = 'rng.standard_normal(axes["K"], dtype=np.float32)'
ORACLE_SUM = '"out": (_pick(inputs, rows) * inputs["x"]).sum(axis=1)'
SCALE_SUM = '"out": np.abs(_pick(inputs, rows) * inputs["x"]).sum(axis=1)'
PAIRWISE = "terms.sum(axis=1, dtype=np.float32)"
VARIANTS = '    return {\n        "sequential"'

MISTAKES = [
    ("def oracle(", "def orakle(", ["function 'oracle' is missing"]),
    ('FAMILIES = ("normal", "zeros")', "FAMILIES = ()", ["FAMILIES"]),
    ('ROW_AXIS = "M"', 'ROW_AXIS = "R"', ["ROW_AXIS = 'R'"]),
    ("import numpy as np", "import numpi as np", ["ModuleNotFoundError in line 1", "numpi"]),
    ("import numpy as np", "import numpy as np(", ["SyntaxError in line 1"]),
    (DRAW_X, 'rng.standard_normal(axes["K"])', ["generate", "'x' is float64[1], must be float32[1]"]),
    ('return {"w": w,', 'return {"v": w,', ["generate", "['v', 'x']", "['w', 'x']"]),
    (DRAW_X, DRAW_X.replace("rng", "np.random.default_rng()"), ["generate gives two contents"]),
    (ORACLE_SUM, ORACLE_SUM + " + np.random.random()", ["oracle gives two answers"]),
    ('inputs["w"][rows])', 'inputs["w"][rows - 1])', ["for some rows disagrees"]),
    (ORACLE_SUM, ORACLE_SUM.replace("axis=1", ""), ["oracle", "'out' is float64, must be an array"]),
    (SCALE_SUM, SCALE_SUM.replace("np.abs", "-np.abs"), ["scale of 'out'"]),
    (VARIANTS, '    inputs["x"][0] = 3\n' + VARIANTS, ["changes its inputs"]),
    (PAIRWISE, PAIRWISE + " * np.float32(1.001)", ["honest variant 'pairwise' is far off", "limit"]),
    (PAIRWISE, PAIRWISE + " + np.float32('nan')", ["honest variant 'pairwise' is far off", "nan"]),
    (PAIRWISE, "terms.sum(axis=1, dtype=np.float64)", ["honest_variants['pairwise']", "float64, must be float32"]),
    (VARIANTS, "    return {}\n" + VARIANTS, ["at least one variant"]),
]


@pytest.mark.parametrize(("old", "new", "parts"), MISTAKES)
def test_a_reference_that_cannot_be_trusted_is_refused_in_one_line(folder, old, new, parts):
    text = refused(folder, (old, new))
    for part in parts:
        assert part in text


def test_what_a_reference_raises_is_one_line_with_its_place(folder):
    reference = folder.reference(('return 2 * axes["M"]', 'return 2 * axes["Q"]'))
    with pytest.raises(TaskError, match=r"reference\.py: operations: raised KeyError in line \d+: 'Q'$"):
        reference.operations(reference.task.workloads[0])


def test_a_missing_reference_is_named(folder):
    task = load_task(folder.path)
    (folder.path / "reference.py").unlink()
    with pytest.raises(TaskError, match=r"reference\.py: No such file"):
        load_reference(task)


def test_loading_leaves_nothing_beside_the_reference(folder):
    before = sorted(folder.path.rglob("*"))
    folder.reference()
    assert sorted(folder.path.rglob("*")) == before
