"""Without a GPU: programs that change an argument in place compile, and Triton's are run by its interpreter."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from evaluators.build import BuiltProgram
from evaluators.cuda.inspection import DRIVE, lay_out
from evaluators.evaluation import Status, Untimed
from evaluators.judge import open_judge
from tests.evaluators.cuda.in_place import CHEATS, HONEST, TASK

pytestmark = [
    pytest.mark.skipif(not (find_spec("torch") and find_spec("triton")), reason="torch and Triton are not installed"),
    pytest.mark.timeout(600),
]
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")


@pytest.fixture(scope="module")
def judge():
    with open_judge(TASK, sandbox="reduced", lanes=1, target="sm_90") as (opened, _):
        yield opened


def of(language, programs):
    return [name for name, program in programs.items() if program[0] == language]


@needs_nvcc
@pytest.mark.parametrize("name", of("cuda", HONEST | CHEATS))
def test_a_cuda_program_compiles(judge, name):
    evaluation = judge.evaluate((HONEST | CHEATS)[name][1], "cuda")
    assert evaluation.status is Status.PASSED, (evaluation.message, evaluation.detail)


def test_the_triton_seed_is_right_in_the_interpreter(judge):
    evaluation = judge.evaluate(HONEST["seed.py"][1], "triton")
    assert evaluation.status is Status.PASSED, (evaluation.message, evaluation.detail)
    assert isinstance(evaluation.timing, Untimed)
    assert "right on small shapes" in evaluation.timing.reason


@pytest.mark.parametrize("name", of("triton", CHEATS))
def test_a_wrong_triton_program_is_found_by_the_interpreter(judge, name):
    assert judge.evaluate(CHEATS[name][1], "triton").status is Status.WRONG_VALUES


STUB = """
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned f) { return 0; }
int cuDeviceGet(int* device, int ordinal) { return 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) { return 0; }
int cuCtxSetCurrent(void* context) { return 0; }
int cuMemAlloc_v2(unsigned long long* to, size_t size) { *to = (unsigned long long)calloc(size, 1); return 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t size) { memcpy((void*)to, from, size); return 0; }
int cuCtxSynchronize(void) { return 0; }
"""
ADDS = """
#include <stdio.h>
void residual_scale(float* x, const float* y, long long M, long long N, void* stream) {
    x[0] = 0.5f * x[0] + y[0];
    printf("%g\\n", x[0]);
    fflush(stdout);
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler")
def test_every_call_under_a_profiler_meets_what_the_first_one_met(tmp_path):
    for name, source in (("libcuda.so.1", STUB), ("built.so", ADDS)):
        compiler = ["gcc", "-shared", "-fPIC", "-x", "c", "-o", tmp_path / name, "-"]
        subprocess.run(compiler, input=source, text=True, check=True)
    inputs = {"x": np.full((1, 1), 8, np.float32), "y": np.ones((1, 1), np.float32)}
    smallest = next(w for w in TASK.workloads if w.name == "one")
    order = lay_out(tmp_path, BuiltProgram("", "cuda", "", tmp_path / "built.so"), TASK, smallest, inputs)
    (tmp_path / "order.json").write_text(json.dumps(order | {"calls": 3}))
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    driven = [sys.executable, "-s", "-P", str(DRIVE), str(tmp_path)]
    done = subprocess.run(driven, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["5", "5", "5"]
