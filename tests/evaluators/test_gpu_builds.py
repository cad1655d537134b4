"""Without a GPU: every shipped GPU program compiles for real targets, and what it uses is reported."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from evaluators.build import Builds, BuiltProgram
from evaluators.compiling import CompilingJudge
from evaluators.cuda.attesting import declared_kernels
from evaluators.cuda.inspection import Example, lay_out
from evaluators.device import find_cpu
from evaluators.environment import describe_environment
from evaluators.evaluation import Status, Untimed
from evaluators.failure import CandidateFailure
from evaluators.gpu_judge import GPU_LANGUAGES, preload
from evaluators.task_loading import load_task
from evaluators.zygote.client import Zygote
from tests.exploits.gpu.corpus import exploits, honest_programs

pytestmark = [
    pytest.mark.skipif(not (find_spec("torch") and find_spec("triton")), reason="torch and Triton are not installed"),
    pytest.mark.timeout(600),
]
FOLDER = Path(__file__).parents[2] / "tasks"
TASKS = {p.parent.name: load_task(p.parent) for p in sorted(FOLDER.glob("*/task.toml"))}
GPU_TASKS = {name: task for name, task in TASKS.items() if GPU_LANGUAGES & set(task.languages)}
SUFFIXES = {"triton": "seed.py", "cuda": "seed.cu"}
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")


@pytest.fixture(scope="module")
def zygote(tmp_path_factory):
    scratch = tmp_path_factory.mktemp("scratch")
    with Zygote(minimum="reduced", scratch=scratch, preload=preload(GPU_TASKS["softmax"])) as opened:
        yield opened, scratch


def build(zygote, task, language, arch, source=None) -> BuiltProgram:
    opened, scratch = zygote
    folder = scratch / f"{arch}-{task.name}-{language}"
    folder.mkdir(exist_ok=True)
    source = source or (task.folder / SUFFIXES[language]).read_text()
    return Builds(opened, folder, None, arch).build(task, source, language, ())


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
@pytest.mark.parametrize("name", GPU_TASKS)
def test_every_shipped_triton_seed_compiles_for_nvidia_and_amd(zygote, name, arch):
    program = build(zygote, GPU_TASKS[name], "triton", arch)
    assert program.measures["kernels"] >= 1
    assert 0 < program.measures["registers"] <= 512
    binaries = list(program.artifact.rglob("*.cubin" if arch.startswith("sm") else "*.hsaco"))
    assert binaries
    assert not [p for p in program.artifact.rglob("*") if p.suffix in (".ptx", ".llir", ".ttgir")]


def test_a_program_may_calculate_with_its_tensors_beside_the_kernels(zygote):
    """They lie on the host while it is compiled, where torch asks which processor this is before it converts any."""
    task = GPU_TASKS["softmax"]
    source = (task.folder / SUFFIXES["triton"]).read_text()
    head, call = source.rsplit("    softmax_kernel[", 1)
    halved = f"{head}    x = x[:8].to(torch.float16).to(torch.float32)\n    softmax_kernel[{call}"
    assert build(zygote, task, "triton", "sm_90", halved).measures["kernels"] >= 1


def test_a_profiled_process_finds_the_kernels_that_were_compiled_before(zygote, tmp_path, monkeypatch):
    from triton import knobs  # noqa: PLC0415 - not installed everywhere
    from triton.runtime.cache import FileCacheManager  # noqa: PLC0415

    task = GPU_TASKS["softmax"]
    program = build(zygote, task, "triton", "sm_90")
    (program.artifact / "odd" / "__grp__folder").mkdir(parents=True, exist_ok=True)
    workload = task.search_workloads()[0]
    inputs = {"x": np.ones(tuple(workload.axes.values()), np.float32)}
    lay_out(tmp_path, program, task, [Example(workload, inputs)])
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "triton"))
    metadata = [path for path in (tmp_path / "triton").glob("*/*.json") if not path.name.startswith("__grp__")]
    assert metadata
    for path in metadata:
        found = FileCacheManager(path.parent.name).get_group(path.name)
        assert found
        assert {path.suffix for path in map(Path, found.values())} >= {".json", ".cubin"}
        assert all(Path(place).is_relative_to(tmp_path) for place in found.values())


def test_a_runner_refuses_a_kernel_that_was_not_compiled_before_at_once(tmp_path, monkeypatch):
    from triton import knobs  # noqa: PLC0415 - not installed everywhere

    from evaluators.programs.triton import BuiltKernels  # noqa: PLC0415

    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path))
    with pytest.raises(RuntimeError, match="not among the kernels that were compiled before"):
        BuiltKernels("A" * 52).get_group("softmax_kernel.json")


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", GPU_TASKS)
def test_every_shipped_cuda_seed_compiles(zygote, name, arch):
    program = build(zygote, GPU_TASKS[name], "cuda", arch)
    assert program.artifact.read_bytes()[:4] == b"\x7fELF"
    assert 0 < program.measures["registers"] <= 255


@needs_nvcc
def test_matrix_instructions_are_seen(zygote):
    assert build(zygote, GPU_TASKS["matmul_bf16"], "cuda", "sm_90").measures["tensor_core_instructions"] > 0
    assert build(zygote, GPU_TASKS["softmax"], "cuda", "sm_90").measures["tensor_core_instructions"] == 0


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def softmax(:", "SyntaxError"),
        ("x = 1", "no function softmax"),
        ("def softmax(x, out, M, N):\n    out.copy_(x)", "launched no Triton kernel"),
        ("def softmax(x, out, M, N):\n    raise KeyError('lost')", "lost"),
    ],
)
def test_a_program_without_kernels_is_a_build_error(zygote, source, words):
    with pytest.raises(CandidateFailure) as caught:
        build(zygote, GPU_TASKS["softmax"], "triton", "sm_90", source)
    assert caught.value.status is Status.BUILD_ERROR
    assert words in str(caught.value.message) + caught.value.detail


def test_a_program_that_forges_its_report_gets_that_of_its_kernels(zygote):
    task = GPU_TASKS["softmax"]
    small = task.model_copy(update={"workloads": tuple(w for w in task.workloads if w.axes == {"M": 3, "N": 7})})
    forged, plain = (
        build(zygote, small, "triton", "sm_90", program.source({}))
        for program in (*exploits(), *honest_programs())
        if program.name in ("forged_report.py", "plain.py")
    )
    assert forged.measures == plain.measures
    assert declared_kernels(forged) == declared_kernels(plain)
    listed = [[a for a in program.artifacts if a.name == "resources.txt"] for program in (forged, plain)]
    assert listed[0] == listed[1]


def test_without_a_gpu_nothing_is_claimed_but_that_it_compiles(zygote, tmp_path):
    opened, scratch = zygote
    task = GPU_TASKS["softmax"]
    environment = describe_environment(task, find_cpu(), "full", "ordinary")
    judge = CompilingJudge(task, Builds(opened, scratch / "none", None, None), environment)
    evaluation = judge.evaluate((task.folder / "seed.py").read_text(), "triton")
    assert evaluation.status is Status.PASSED, evaluation.detail
    assert evaluation.score is None
    assert isinstance(evaluation.timing, Untimed)
    assert "no GPU" in evaluation.timing.reason
    assert {"kernels.ptx", "resources.txt"} <= {a.name for a in evaluation.artifacts}
