"""NVIDIA's tools over a program: their reports are read, and what fails in them is said in one line."""

import json
import os
import subprocess
import sys
import sysconfig
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from evaluators.build import BuiltProgram
from evaluators.cuda import ncu, sanitizer
from evaluators.cuda.drive import GATE, OPEN, Granted
from evaluators.cuda.inspection import DRIVE, REPORT, Example, Report, Tools, ToolUnavailable, find_tool
from evaluators.cuda.profiling import with_attested, with_ncu, without
from evaluators.cuda.sanitizing import leaves_device_alone, planted_task, small_shapes
from evaluators.errors import SandboxError
from evaluators.evaluation import KernelUse, WorkloadAttestation
from evaluators.profile import Bottleneck, Profile
from evaluators.sandbox.report import Layer, LayerName, SandboxReport
from evaluators.task_loading import load_task
from evaluators.zygote.client import Zygote

TASKS = Path(__file__).parents[2] / "tasks"
DATA = Path(__file__).parents[1] / "data" / "gpu_tools"
"""Recorded on an H200 with driver 580 and the tools of CUDA 13.0."""
MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at beyond(float *, int)+0x50 in program.cu:12
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x7f2d4a001000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2d4a000000 of size 4,096 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cudaLaunchKernel [0x6c318] in program
=========
========= Invalid __global__ write of size 4 bytes
=========     at beyond(float *, int)+0x50 in program.cu:12
=========     by thread (1,0,0) in block (0,0,0)
=========     Access to 0x7f2d4a001004 is out of bounds
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call.
=========
========= ERROR SUMMARY: 3 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at races(float *)+0xb0 in program.cu:13
=========     and Read access at races(float *)+0xc0 in program.cu:13 [64 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
NCU = """\
==PROF== Connected to process 812 (/tmp/program)
==PROF== Profiling "stream_copy" - 0: 0%....50%....100% - 3 passes
==PROF== Disconnected from process 812
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","812","program","127.0.0.1","soft(const float *, float *)","1","7","(256, 1, 1)","(1056, 1, 1)","0","9.0","Command line profiler metrics","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","88.14"
"0","812","program","127.0.0.1","soft(const float *, float *)","1","7","(256, 1, 1)","(1056, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ns","130,112"
"0","812","program","127.0.0.1","soft(const float *, float *)","1","7","(256, 1, 1)","(1056, 1, 1)","0","9.0","Command line profiler metrics","sm__throughput.avg.pct_of_peak_sustained_elapsed","%","21.5"
"1","812","program","127.0.0.1","soft(const float *, float *)","1","7","(256, 1, 1)","(1056, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ns","130,114"
"2","812","program","127.0.0.1","tail(float *)","1","7","(32, 1, 1)","(1, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ns","2,048"
"2","812","program","127.0.0.1","tail(float *)","1","7","(32, 1, 1)","(1, 1, 1)","0","9.0","Command line profiler metrics","lts__t_sector_hit_rate.pct","%","n/a"
"""  # noqa: E501


def report(text: str, log: str = "", code: int | None = 0) -> Report:
    return Report(text, log, code)


def test_an_access_beyond_a_buffer_is_told_with_kernel_and_place():
    found = sanitizer.parse(report(MEMCHECK))
    assert found.errors == 3
    assert found.findings[0].startswith("Invalid __global__ write of size 4 bytes at beyond(float *, int)+0x50")
    assert "1 bytes after the nearest allocation" in found.findings[0]
    assert "Host Frame" not in found.findings[0]


def recorded(name: str) -> Report:
    return report((DATA / name).read_text())


@pytest.mark.parametrize(
    ("name", "errors", "words"),
    [
        ("sanitizer_memcheck_illegal.txt", 2, "write of size 4 bytes at illegal()+0x40 in program.cu:12"),
        ("sanitizer_memcheck_misaligned.txt", 2, "Access to 0x7f90c6800004 is misaligned"),
        ("sanitizer_racecheck_races.txt", 64, "hazard detected at __shared__ 0x47c in block (0,0,0)"),
        ("sanitizer_racecheck_fine.txt", 0, ""),
    ],
)
def test_what_a_sanitizer_said_on_a_device_is_read(name, errors, words):
    found = sanitizer.parse(recorded(name))
    assert (found.errors > 0) == (errors > 0)
    assert words in " ".join(found.findings)


def test_what_ncu_said_on_a_device_is_read():
    (kernel,) = ncu.parse(recorded("ncu_copies.txt"))
    assert kernel.name == "stream_copy(const float4 *, float4 *, long)"
    assert kernel.launches == 3
    assert kernel.value(ncu.DURATION) == 131_744
    assert kernel.values["dram__bytes_read.sum"] == (268_451_840, "byte")
    assert kernel.values["launch__registers_per_thread"] == (32, "register/thread")


def test_a_race_is_told_with_both_its_ends():
    found = sanitizer.parse(report(RACECHECK))
    assert found.errors == 1
    assert found.findings == (
        "Race reported between Write access at races(float *)+0xb0 in program.cu:13 "
        "and Read access at races(float *)+0xc0 in program.cu:13 [64 hazards]",
    )


@pytest.mark.parametrize(
    "summary", ["ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"]
)
def test_a_clean_program_has_no_errors(summary):
    assert sanitizer.parse(report(f"========= COMPUTE-SANITIZER\n========= {summary}\n")).errors == 0


def test_a_sanitizer_that_did_not_end_says_why():
    words = "Error: Target application terminated before first instrumented API call"
    text = f"========= COMPUTE-SANITIZER\n========= {words}\n"
    with pytest.raises(ToolUnavailable, match="terminated before"):
        sanitizer.parse(report(text))
    with pytest.raises(ToolUnavailable, match="cannot bind"):
        sanitizer.parse(report("", "cannot bind\n"))
    with pytest.raises(ToolUnavailable, match="wrote nothing"):
        sanitizer.parse(report(""))


def test_a_program_that_did_not_run_under_it_is_neither_clean_nor_wrong():
    text = "========= Target application returned an error\n========= ERROR SUMMARY: 1 error\n"
    with pytest.raises(ToolUnavailable, match="did not run under compute-sanitizer: ImportError"):
        sanitizer.parse(report(text, "Traceback\nImportError: no triton\n", 1))


def test_findings_are_few_and_short():
    many = "".join(
        f"========= Invalid __global__ read of size 4 bytes\n=========     at {'k' * 500}{i}()\n=========\n"
        for i in range(50)
    )
    found = sanitizer.parse(report(f"{many}========= ERROR SUMMARY: 50 errors\n"))
    assert len(found.findings) <= sanitizer.MOST_FINDINGS
    assert all(len(row) <= 240 for row in found.findings)


def test_counters_are_the_median_of_a_kernels_launches_the_longest_first():
    kernels = ncu.parse(report(NCU))
    assert [k.name for k in kernels] == ["soft(const float *, float *)", "tail(float *)"]
    assert kernels[0].value(ncu.DURATION) == 130_113
    assert kernels[0].launches == 2
    assert kernels[1].value("lts__t_sector_hit_rate.pct") is None


def test_ncu_without_counters_says_why():
    with pytest.raises(ToolUnavailable, match="ERR_NVGPUCTRPERM"):
        ncu.parse(report("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission to access counters\n"))


PROFILE = Profile(tool="rounds", device_class="sm_90:NVIDIA H200", workload="w", call_us=131.0)


def test_a_profile_with_ncus_counters_says_what_limits_the_kernel():
    found = with_ncu(PROFILE, ncu.parse(report(NCU)))
    assert (found.tool, found.bottleneck) == ("ncu", Bottleneck.BANDWIDTH)
    assert "88 %" in found.reason
    assert found.counters[ncu.DURATION].unit == "ns"


@pytest.mark.parametrize(
    ("dram", "sm", "tensor", "warps", "ns", "bottleneck"),
    [
        (20, 85, 80, 20, 3e5, Bottleneck.COMPUTE),
        (20, 40, 75, 12, 3e5, Bottleneck.COMPUTE),
        (5, 4, 0, 30, 1800, Bottleneck.LAUNCH),
        (30, 20, 0, 11, 9e4, Bottleneck.OCCUPANCY),
        (30, 20, 0, 70, 9e4, Bottleneck.LATENCY),
    ],
)
def test_what_limits_a_kernel_follows_from_its_counters(dram, sm, tensor, warps, ns, bottleneck):
    values = {ncu.DRAM: dram, ncu.SM: sm, ncu.TENSOR: tensor, ncu.OCCUPANCY: warps, ncu.DURATION: ns}
    kernel = ncu.KernelCounters("k", 1, {name: (float(value), "%") for name, value in values.items()})
    assert with_ncu(PROFILE, [kernel]).bottleneck is bottleneck


def test_a_profile_holds_each_kernels_share_and_the_traffic_that_was_measured():
    uses = tuple(
        KernelUse(name=n, launches=1, us=us, blocks=8, threads=256, registers=40, shared_bytes=0, local_bytes=16)
        for n, us in (("soft", 90.0), ("tail", 10.0))
    )
    attested = WorkloadAttestation(
        workload="w", calls=64, launches=2, kernel_us=100, overlap=0, kernels=uses, read_bytes=2e8, written_bytes=2e8
    )
    found = with_attested(PROFILE, attested, bandwidth=4.2e12)
    assert [(s.function, round(s.share, 3)) for s in found.hot_spots] == [("soft", 0.9), ("tail", 0.1)]
    assert found.ceilings[0].share == pytest.approx(4e8 / 131e-6 / 4.2e12)
    assert found.counters["local_bytes"].value == 16
    assert "ncu: no\nluck".replace("\n", " ") in without(found, "ncu", "no\nluck").missing


def test_a_tool_that_is_not_installed_is_named():
    with pytest.raises(ToolUnavailable, match="no compute-sanitizer-of-another-planet found"):
        find_tool("compute-sanitizer-of-another-planet")


def test_a_tool_is_not_used_where_its_box_would_reach_the_hosts_sockets(tmp_path):
    layers = SandboxReport(tuple(Layer(name, name is not LayerName.MOUNT_NAMESPACE) for name in LayerName))
    tools = Tools(SimpleNamespace(layers=layers), tmp_path)
    task = load_task(TASKS / "softmax")
    program, workload = BuiltProgram("", "triton", "0" * 64), small_shapes(task)[0]
    with pytest.raises(ToolUnavailable, match="no mount namespace"):
        tools.run(["true"], program, task, [Example(workload, {})])


def test_the_smallest_shapes_are_looked_at():
    shapes = small_shapes(load_task(TASKS / "softmax"))
    assert 1 <= len(shapes) <= 2
    assert min(load_task(TASKS / "softmax").search_workloads(), key=lambda w: w.axes["M"] * w.axes["N"]) in shapes


@pytest.fixture
def box(tmp_path_factory):
    """Starts a shell script in a tool's box; ``"$@"`` there is Python over a program, as a profiler would start it."""
    scratch = tmp_path_factory.mktemp("scratch")
    preload = ("numpy", "evaluators.cuda.become")
    try:
        zygote = Zygote(minimum="full", scratch=scratch, preload=preload, devices=(Path("/dev/zero"),))
    except SandboxError as error:
        pytest.skip(str(error))
    task = planted_task(load_task(TASKS / "softmax"))
    artifact = scratch / "planted.so"
    artifact.write_bytes(b"no object at all")
    program = BuiltProgram("", "cuda", "0" * 64, artifact)
    with zygote:
        tools = Tools(zygote, scratch)
        example = Example(task.workloads[0], {"x": np.ones(64, np.float32)})
        yield lambda script: tools.start(("sh", "-c", script, "sh"), program, task, [example, example])


@pytest.fixture
def in_box(box):
    """What such a script says."""

    def run(script):
        with closing(box(script)) as started:
            return started.report()

    return run


def test_a_tool_starts_the_program_in_the_box_and_its_report_is_read_from_there(in_box):
    found = in_box(f"cp order.json {REPORT}; ls; exec cat /etc/passwd")
    assert '"entry": "planted"' in found.text
    assert '"nbytes": 256' in found.text
    assert {"candidate.so", "drive.py", "0", "1"} <= set(found.log.split())
    assert "root:" not in found.log
    assert found.code != 0


def test_the_interpreter_and_its_headers_are_in_the_box_wherever_python_lies(in_box):
    compiled = f"echo '#include <Python.h>' > m.c; cc -c m.c -o m.o -I{sysconfig.get_path('include')} && ls m.o"
    found = in_box(f'"$1" -c "print(6 * 7)"; {compiled}')
    assert found.log.split() == ["42", "m.o"]


def test_what_is_open_at_the_gate_is_seen_in_every_process_of_the_box(in_box):
    assert "/dev/zero" in in_box('exec 9< /dev/zero; "$@" 9<&-; true').devices
    assert "/dev/zero" not in in_box('"$@"; true').devices
    assert in_box("true").devices is None


def test_what_leaves_the_device_alone_has_no_node_of_it_open():
    seen = [None, frozenset({"/dev/null", "/dev/nvidiactl"}), frozenset({"/dev/null"})]
    assert [leaves_device_alone(Report("", "", 0, devices)) for devices in seen] == [False, False, True]


@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize(("word", "goes_on"), [(b"x", False), (OPEN, True)])
def test_a_program_is_imported_and_the_device_touched_behind_the_gate_alone(tmp_path, language, word, goes_on):
    """On a machine without a driver it fails at its first touch of the device; who does not get there says nothing."""
    name = "candidate.so" if language == "cuda" else "candidate.py"
    if language == "triton":
        pytest.importorskip("torch")
        pytest.importorskip("triton")
    (tmp_path / name).write_text("print('imported')\ndef entry():\n    print('called')\n")
    example = {"arguments": [], "scalars": []}
    order = {"language": language, "entry": "entry", "program": name, "examples": [example], "packages": []}
    order["packages"] = [path.name.partition(".")[0] for path in Path(sysconfig.get_path("purelib")).iterdir()]
    (tmp_path / "order.json").write_text(json.dumps(order))
    os.mkfifo(tmp_path / GATE)
    gate = os.open(tmp_path / GATE, os.O_RDWR)
    os.write(gate, word)
    done = subprocess.run(
        [sys.executable, "-s", "-P", DRIVE, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    os.close(gate)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert bool(said) == goes_on, said
    assert ("libcuda" in said) == (goes_on and language == "cuda")
    assert ("imported" in said and "called" in said) == (goes_on and language == "triton")


def test_a_tool_that_waits_is_ended_with_whatever_it_started(box, tmp_path):
    started = box('"$@" & wait')
    folder, pid = started._folder, started._child.pid
    assert (folder / GATE).is_fifo()
    started.close()
    assert not folder.exists()
    assert not Path(f"/proc/{pid}").exists()


def test_what_may_not_be_read_in_the_box_is_not_found_rather_than_refused():
    finder = Granted(["numpy", "candidate"])
    assert finder.find_spec("numpy.linalg") is None
    assert finder.find_spec("json") is None
    with pytest.raises(ModuleNotFoundError):
        finder.find_spec("opt_einsum")
