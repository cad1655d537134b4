from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from evaluators.check import check_task
from evaluators.compare import compare_outputs
from evaluators.reference import check_reference, load_reference
from evaluators.task_loading import find_task, load_task
from evaluators.tolerance import load_lock

TASK = load_task(find_task("q4_matvec_cpu"))
REFERENCE = load_reference(TASK)
LOCK = load_lock(TASK)
EDGE = [w for w in TASK.workloads if w.split == "edge"]

needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


class Compiled:
    """A C++ program of this task, called in this process: only for sources of the repository."""

    def __init__(self, source: str, folder: Path, *flags: str) -> None:
        (folder / "program.cpp").write_text(source)
        library = folder / "program.so"
        command = [
            "g++",
            "-shared",
            "-fPIC",
            *(flags or ("-O3",)),
            *TASK.build_flags,
            folder / "program.cpp",
            "-o",
            library,
        ]
        subprocess.run(command, check=True)
        self._entry = getattr(ctypes.CDLL(str(library)), TASK.entry)

    def __call__(self, inputs, out, axes):
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (inputs["nibbles"], inputs["scales"], inputs["x"], out)]
        self._entry(*pointers, ctypes.c_int64(axes["M"]), ctypes.c_int64(axes["K"]))


def blas(inputs, out, axes):
    space: dict[str, object] = {}
    exec((TASK.folder / "baselines/blas.py").read_text(), space)
    space["q4_matvec"](inputs["nibbles"], inputs["scales"], inputs["x"], out, axes["M"], axes["K"])


def failures(program, workloads, families=REFERENCE.families):
    """Where a program's answers are not within the committed limits."""
    found = []
    for workload in workloads:
        for family in families:
            inputs = REFERENCE.generate(workload, family, np.random.default_rng([7, workload.axes["M"]]))
            out = np.full(workload.axes["M"], np.nan, dtype=np.float32)
            program(inputs, out, workload.axes)
            rows = REFERENCE.sample_rows(workload, 300, np.random.default_rng(0))
            oracle, scale = REFERENCE.oracle(inputs, rows), REFERENCE.scale(inputs, rows)
            limits = LOCK.of(workload.name, family)
            result = compare_outputs({"out": out[rows]}, oracle, scale, limits, REFERENCE.outputs, rows=rows)
            if not result.passed:
                found.append(f"{workload.name} {family}: {result.message}")
    return found


def test_the_reference_agrees_with_itself():
    check_reference(REFERENCE)


def test_a_block_by_hand():
    """The layout in the description, spelled out for one row of two blocks."""
    nibbles = np.arange(32, dtype=np.uint8)[None] * 7
    scales = np.array([[0.5, 2.0]], dtype=np.float16)
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    total = 0.0
    for block, scale in enumerate((0.5, 2.0)):
        for j in range(16):
            byte = int(nibbles[0, 16 * block + j])
            total += (byte % 16 - 8) * scale * float(x[32 * block + j])
            total += (byte // 16 - 8) * scale * float(x[32 * block + 16 + j])
    inputs = {"nibbles": nibbles, "scales": scales, "x": x}
    assert REFERENCE.oracle(inputs)["out"][0] == pytest.approx(total, rel=1e-14)


@needs_gcc
@pytest.mark.parametrize("file", ["seed.cpp", "baselines/plain.cpp", "baselines/vectorised.cpp"])
def test_seed_and_baselines_are_within_the_limits(file, tmp_path):
    program = Compiled((TASK.folder / file).read_text(), tmp_path)
    assert failures(program, [*EDGE, TASK.workloads[0]]) == []


def test_the_blas_baseline_is_within_the_limits():
    assert failures(blas, [*EDGE, TASK.workloads[0]]) == []


@needs_gcc
def test_the_vectorised_baseline_is_right_without_avx2_too(tmp_path):
    source = (TASK.folder / "baselines/vectorised.cpp").read_text()
    assert "defined(__AVX2__)" in source
    assert failures(Compiled(source.replace("defined(__AVX2__)", "0"), tmp_path), EDGE) == []


@needs_gcc
def test_flags_that_a_candidate_may_choose_keep_the_limits(tmp_path):
    chosen = ("-O3", "-funroll-loops", "-fassociative-math -fno-signed-zeros -fno-trapping-math")
    assert set(chosen) <= {flag for group in TASK.flag_choices for flag in group}
    flags = [word for words in chosen for word in words.split()]
    program = Compiled((TASK.folder / "baselines/plain.cpp").read_text(), tmp_path, *flags)
    assert failures(program, [*EDGE, TASK.workloads[0]]) == []


PLAIN = (TASK.folder / "baselines/plain.cpp").read_text()
WRONG = {
    "vector in fp16": ("* v[j]", "* static_cast<float>(static_cast<_Float16>(v[j]))"),
    "sums in fp16": ("float dot = 0", "_Float16 dot = 0"),
    "last row not written": ("m < M", "m < M - 1"),
    "tail block not read": ("b < K / 32", "b < K / 64 * 2"),
    "scale dropped": ("scale * dot", "dot"),
    "stride of another shape": ("m * (K / 2)", "m * 160"),
}


@needs_gcc
@pytest.mark.parametrize("name", WRONG)
def test_shortcuts_are_caught(name, tmp_path):
    old, new = WRONG[name]
    assert old in PLAIN
    padded = [w for w in EDGE if w.axes["K"] // 32 % 2 and w.axes["M"] > 100]
    assert failures(Compiled(PLAIN.replace(old, new), tmp_path), padded, ["normal"])


@needs_gcc
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="sets a control register of x86")
def test_flushing_denormals_to_zero_is_caught(tmp_path):
    start = "    for (int64_t m = 0; m < M; m++) {"
    source = "#include <immintrin.h>\n" + PLAIN.replace(
        start, "    const unsigned mode = _mm_getcsr();\n    _mm_setcsr(mode | 0x8040);\n" + start
    )
    end = source.rindex("}")
    program = Compiled(source[:end] + "    _mm_setcsr(mode);\n}\n", tmp_path)
    found = failures(program, [TASK.workloads[5]])
    assert found
    assert all("denormal_x" in line for line in found)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_shipped_task_passes_its_check():
    report = check_task(TASK)
    assert not report.frozen
    assert {row.workload for row in report.rows if row.subject == "mutant vector cut to 16 bits"} == {
        workload.name for workload in TASK.search_workloads()
    }
