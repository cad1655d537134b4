"""Every element type a task may use goes through a real judge: checked, told apart, and right by the bits."""

from __future__ import annotations

import numpy as np
import pytest

from evaluators.buffers import poison_element
from evaluators.check import check_task
from evaluators.dtypes import DTYPES, decode
from evaluators.errors import TaskError
from evaluators.evaluation import Status
from evaluators.judge import open_judge
from evaluators.task_loading import load_task
from tests.quick_judge import quick_judges

FLOATS = [name for name, info in DTYPES.items() if not info.exact]
EXACT = [name for name, info in DTYPES.items() if info.exact]
N = 1000

REFERENCE = """
import numpy as np
from evaluators.dtypes import DTYPES, decode, encode

FAMILIES = ("normal", "special")
ROW_AXIS = "N"
DTYPE_NAMES = {names!r}


def generate(axes, family, rng):
    made = {{}}
    for name in DTYPE_NAMES:
        if DTYPES[name].exact:
            made[f"a_{{name}}"] = rng.integers(0, 2 if name == "bool" else 100, axes["N"]).astype(DTYPES[name].storage)
        else:
            x = rng.standard_normal(axes["N"]) * 4
            if family == "special":
                x[:4] = [np.nan, np.inf, -0.0, np.ldexp(1.0, DTYPES[name].min_exponent - 1)][: len(x)]
            made[f"a_{{name}}"] = encode(x, name)
    return made


def _changed(name, values):
    if name == "bool":
        return ~values
    return values + 1 if DTYPES[name].exact else -decode(values, name)


def oracle(inputs, rows=None):
    outputs = {{}}
    for name in DTYPE_NAMES:
        values = inputs[f"a_{{name}}"] if rows is None else inputs[f"a_{{name}}"][rows]
        made = _changed(name, values)
        wide = made.dtype if DTYPES[name].exact else np.longdouble if name == "fp64" else np.float64
        outputs[f"o_{{name}}"] = made.astype(wide)
    return outputs


def honest_variants(inputs, rows=None):
    right = oracle(inputs, rows)
    return {{"only": {{f"o_{{name}}": encode(right[f"o_{{name}}"], name) for name in DTYPE_NAMES}}}}


def traffic_bytes(axes):
    return 16 * axes["N"]


def operations(axes):
    return axes["N"]
"""
WORDS = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}


def word(name):
    return WORDS[DTYPES[name].storage.itemsize]


def change(name):
    """The C++ that makes an output's bits of an input's."""
    if name == "bool":
        return "a_bool[i] ^ 1"
    if DTYPES[name].exact:
        return f"a_{name}[i] + 1"
    return f"a_{name}[i] ^ ({word(name)}(1) << {8 * DTYPES[name].storage.itemsize - 1})"


def program(names, wrong=None, instead=""):
    pointers = [f"const {word(n)}* a_{n}" for n in names] + [f"{word(n)}* o_{n}" for n in names]
    body = "".join(f"o_{n}[i] = {instead if n == wrong else change(n)}; " for n in names)
    return (
        "#include <cstdint>\n"
        f'extern "C" void change({", ".join(pointers)}, int64_t N) {{ for (int64_t i = 0; i < N; i++) {{ {body}}} }}\n'
    )


def task_of(folder, names):
    args = [f'{{ name = "a_{n}", role = "in", dtype = "{n}", shape = ["N"] }}' for n in names]
    args += [f'{{ name = "o_{n}", role = "out", dtype = "{n}", shape = ["N"] }}' for n in names]
    text = (
        f'name = "change"\nlanguages = ["cpp", "python"]\nentry = "change"\npython_packages = ["numpy"]\n'
        f'seed_program = "seed.cpp"\nbaselines = [{{ name = "seed", file = "seed.cpp", language = "cpp" }}]\nargs = [\n{",".join(args)}\n]\n'
        f'workloads = [{{ axes = {{ N = {N} }} }}, {{ axes = {{ N = 1 }}, split = "edge" }}]\n'
    )
    (folder / "task.toml").write_text(text)
    (folder / "reference.py").write_text(REFERENCE.format(names=list(names)))
    (folder / "seed.cpp").write_text(program(names))
    return check_task(load_task(folder), freeze=True).task


@pytest.fixture(scope="module", params=[FLOATS, EXACT], ids=["floats", "exact"])
def judge(request, tmp_path_factory):
    names = request.param
    task = task_of(tmp_path_factory.mktemp("change"), names)
    with quick_judges(), open_judge(task, sandbox="full", lanes=1) as (opened, _):
        opened.calibrate()
        yield opened, names


def test_a_right_program_passes_in_every_type(judge):
    opened, names = judge
    evaluation = opened.evaluate(program(names), "cpp")
    assert evaluation.status is Status.PASSED, evaluation.message


def test_python_sees_the_storage_types(judge):
    opened, names = judge
    kinds = {n: str(DTYPES[n].storage) for n in names}
    checks = "\n".join(f"    assert str(a_{n}.dtype) == {kinds[n]!r}, a_{n}.dtype" for n in names)
    moves = "\n".join(
        f"    o_{n}.view('u1')[:] = a_{n}.view('u1') ^ 1"
        if n == "bool"
        else f"    o_{n}[:] = a_{n} + 1"
        if DTYPES[n].exact
        else f"    o_{n}.view('u{DTYPES[n].storage.itemsize}')[:] = a_{n}.view('u{DTYPES[n].storage.itemsize}') ^ "
        f"{1 << (8 * DTYPES[n].storage.itemsize - 1)}"
        for n in names
    )
    entry = ", ".join([*(f"a_{n}" for n in names), *(f"o_{n}" for n in names), "N"])
    evaluation = opened.evaluate(f"def change({entry}):\n{checks}\n{moves}\n", "python")
    assert evaluation.status is Status.PASSED, evaluation.message


def test_one_wrong_output_is_told_by_its_name(judge):
    opened, names = judge
    for name in names:
        evaluation = opened.evaluate(program(names, wrong=name, instead=f"a_{name}[i]"), "cpp")
        assert evaluation.status is Status.WRONG_VALUES, evaluation.message
        assert f"o_{name}[" in evaluation.message


def test_an_output_that_is_never_written_does_not_pass(judge):
    opened, names = judge
    for name in names:
        evaluation = opened.evaluate(program(names, wrong=name, instead=f"o_{name}[i]"), "cpp")
        assert evaluation.status in (Status.WRONG_VALUES, Status.NOT_FINITE), evaluation.message


@pytest.mark.parametrize("missing", ["u32", "u64", "fp4", "complex64"])
def test_a_type_that_there_is_not_is_one_line(tmp_path, missing):
    task_of(tmp_path, ["fp32"])
    path = tmp_path / "task.toml"
    path.write_text(path.read_text().replace('dtype = "fp32"', f'dtype = "{missing}"'))
    with pytest.raises(TaskError) as caught:
        load_task(tmp_path)
    assert "\n" not in str(caught.value)
    assert missing in str(caught.value)
    assert "fp8_e4m3" in str(caught.value)


def test_no_float_poison_is_a_number():
    """An output that was never written would else pass where the right answer happens to be that number."""
    rng = np.random.default_rng(0)
    for name in FLOATS:
        for _ in range(50):
            bits = np.array([poison_element(name, rng)]).view(DTYPES[name].storage)
            assert np.isnan(decode(bits, name)).all(), name
