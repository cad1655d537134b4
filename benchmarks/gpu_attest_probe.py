"""What of a profiler, a sanitizer and the driver's errors can be used on this machine, inside and outside the sandbox.

    python -m benchmarks.gpu_attest_probe OUT_FOLDER [SECTION ...]

Sections as below, each in a process of its own; all by default, about 100 s. Needs an
NVIDIA GPU and nvcc; nothing about the device is changed. Every output is kept whole in OUT_FOLDER.
"""

# ruff: noqa: E501, D102, PLW0120

from __future__ import annotations

import array
import base64
import contextlib
import ctypes
import faulthandler
import fcntl
import mmap
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from evaluators.cuda.counters import DISPATCHES, METRICS, Counters
from evaluators.cuda.cupti import cupti_library

PROGRAM = r"""
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
__global__ void tiny(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
__global__ void other(float* x) { x[threadIdx.x] *= 2; }
__global__ void stream_copy(const float4* x, float4* y, int64_t n) { for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (int64_t)blockDim.x) y[i] = x[i]; }
__global__ void beyond(float* x, int n) { x[n + threadIdx.x] = 1; }
__global__ void races(float* x) { __shared__ float s[64]; s[threadIdx.x] = x[threadIdx.x]; x[threadIdx.x] = s[63 - threadIdx.x]; }
__global__ void illegal() { *(volatile int*)16 = 1; }
__global__ void misaligned(float* x) { *(float4*)((char*)x + 4) = make_float4(1, 1, 1, 1); }
__global__ void asserts() { assert(threadIdx.x > 100); }
__global__ void traps() { asm("trap;"); }
__global__ void endless(volatile float* x) { while (x[0] == 0) {} }
static int say(const char* what) { cudaError_t e = cudaDeviceSynchronize(); printf("%s: %s (%d)\n", what, cudaGetErrorString(e), (int)e); fflush(stdout); return e != 0; }
int main(int argc, char** argv) {
    float* x; float* y; size_t n = 64 << 20;
    const char* mode = argv[1];
    bool large = !strcmp(mode, "copies") || !strcmp(mode, "graph");
    if (say("start")) return 1;
    size_t bytes = large ? 4 * n : 4096;
    cudaMalloc(&x, bytes); cudaMalloc(&y, bytes); cudaMemset(x, 0, bytes); cudaDeviceSynchronize();
    if (!strcmp(mode, "graph")) {  // graph KIND K: replays on every line read
        const char* kind = argv[2]; int k = atoi(argv[3]);
        cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
        cudaGraph_t g; cudaGraphExec_t ready;
        cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
        for (int i = 0; i < k; i++) {
            if (!strcmp(kind, "tiny")) tiny<<<1, 64, 0, s>>>(x);
            if (!strcmp(kind, "wide")) tiny<<<1000, 64, 0, s>>>(x);
            if (!strcmp(kind, "pair")) { tiny<<<4, 64, 0, s>>>(x); other<<<1, 64, 0, s>>>(y); }
            if (!strcmp(kind, "fill")) { cudaMemsetAsync(x, 0, 1024, s); tiny<<<1, 64, 0, s>>>(x); }
            if (!strcmp(kind, "bigfill")) { cudaMemsetAsync(x, 0, 1 << 24, s); tiny<<<1, 64, 0, s>>>(x); }
            if (!strcmp(kind, "copy")) { cudaMemcpyAsync(y, x, 1 << 20, cudaMemcpyDeviceToDevice, s); tiny<<<1, 64, 0, s>>>(x); }
            if (!strcmp(kind, "stream")) stream_copy<<<1056, 256, 0, s>>>((float4*)x, (float4*)y, n / 4);
        }
        cudaStreamEndCapture(s, &g); cudaGraphInstantiateWithFlags(&ready, g, 0);
        cudaGraphLaunch(ready, s); say("warm");
        cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
        char line[16];
        while (fgets(line, sizeof line, stdin)) {
            cudaEventRecord(a, s); cudaGraphLaunch(ready, s); cudaEventRecord(b, s); cudaDeviceSynchronize();
            float ms; cudaEventElapsedTime(&ms, a, b); printf("%f\n", ms); fflush(stdout);
        }
        return 0;
    }
    if (!strcmp(mode, "fine")) tiny<<<1, 64>>>(x);
    if (!strcmp(mode, "copies")) for (int i = 0; i < 3; i++) stream_copy<<<1056, 256>>>((float4*)x, (float4*)y, n / 4);
    if (!strcmp(mode, "beyond")) beyond<<<1, 64>>>(x, 1024);
    if (!strcmp(mode, "races")) races<<<1, 64>>>(x);
    if (!strcmp(mode, "illegal")) illegal<<<1, 1>>>();
    if (!strcmp(mode, "misaligned")) misaligned<<<1, 1>>>(x);
    if (!strcmp(mode, "asserts")) asserts<<<1, 1>>>();
    if (!strcmp(mode, "traps")) traps<<<1, 1>>>();
    if (!strcmp(mode, "toobig")) { tiny<<<1, 2048>>>(x); printf("launch: %s\n", cudaGetErrorString(cudaGetLastError())); }
    if (!strcmp(mode, "endless")) { printf("endless\n"); fflush(stdout); endless<<<1, 1>>>(x); }
    return say(mode);
}
"""
BOX_REPLAYS, BOX_CALLS = 3, 32
SECTIONS = ("tools", "counters", "recorder_section", "boxed", "errors", "sanitizer", "sanitizer_boxed", "ncu")
SECTION_S = 30


class Probe:
    """Runs sections, each of which may fail, and keeps what they said."""

    def __init__(self, out: Path) -> None:
        self.out = out
        out.mkdir(parents=True, exist_ok=True)
        self.work = Path(tempfile.mkdtemp())
        self.program = self.work / "program"
        self.recorder = self.work / "recorder.so"

    def say(self, *words: object) -> None:
        print(*words, flush=True)

    def shell(self, name: str, command: list[str], seconds: float = 30, rows: int = 12, **more: Any) -> str:
        """Run a command, keep its output, show its first rows."""
        started = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **more)
            text, code = done.stdout + done.stderr, str(done.returncode)
        except (OSError, subprocess.TimeoutExpired) as error:
            text, code = f"{error}\n{getattr(error, 'stdout', b'') or b''!r}", "none"
        (self.out / f"{name}.txt").write_text(text)
        self.say(f"[{name}] code {code}, {time.monotonic() - started:.1f} s")
        for row in text.splitlines()[:rows]:
            self.say("   ", row[:220])
        return text

    def build(self) -> None:
        (self.work / "program.cu").write_text(PROGRAM)
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        self.shell(
            "nvcc",
            [nvcc, "-O2", "-lineinfo", "-arch=sm_90", "-o", str(self.program), str(self.work / "program.cu")],
            60,
        )
        source = Path("evaluators/cuda/recorder.c").resolve()
        real = cupti_library()
        shutil.copy(real, self.work / "libcupti.so.13")
        headers = [p for root in ("/usr/local/cuda", *sys.path) for p in Path(root or ".").glob("**/cupti.h")][:1]
        folders = {str(h.parent) for h in headers} | {"/usr/local/cuda/include"}
        self.say("cupti", real, "headers", headers)
        self.shell(
            "gcc",
            [
                "gcc",
                "-O2",
                "-shared",
                "-fPIC",
                *(f"-I{f}" for f in sorted(folders)),
                str(source),
                "-o",
                str(self.recorder),
                str(self.work / "libcupti.so.13"),
                "-Wl,-rpath,$ORIGIN",
            ],
        )

    # -- sections

    def tools(self) -> None:
        self.shell("nvidia_smi_q", ["nvidia-smi", "-q"], rows=0)
        self.shell(
            "driver_params",
            [
                "bash",
                "-c",
                "cat /proc/driver/nvidia/params | grep -i -E 'profil|admin'; cat /proc/driver/nvidia/version",
            ],
        )
        self.shell(
            "tools",
            [
                "bash",
                "-c",
                "which ncu compute-sanitizer nvcc; ncu --version | tail -1; compute-sanitizer --version | tail -2; readlink -f $(which compute-sanitizer) $(which ncu); id -u; grep Cap /proc/self/status | tr '\\n' ' '",
            ],
        )
        self.shell("sanitizer_help", ["compute-sanitizer", "--help"], rows=0)
        self.shell("ncu_help", ["ncu", "--help"], rows=0)
        self.shell(
            "kmsg",
            [
                "bash",
                "-c",
                "timeout 2 dmesg | grep -i -E 'nvrm|xid|audit' | tail -5; ls -la /dev/kmsg; ls $(dirname $(readlink -f $(which compute-sanitizer)))",
            ],
        )
        self.shell("modules", ["python3", "-c", "import pynvml; print(pynvml.__file__)"])

    @contextlib.contextmanager
    def replayer(self, *arguments: str) -> Iterator[Callable[[], float]]:
        process = subprocess.Popen(
            [self.program, "graph", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        for row in process.stdout:
            if row.startswith("warm"):
                break
        ask, answers = process.stdin, process.stdout

        def replay() -> float:
            ask.write("go\n")
            ask.flush()
            return float(answers.readline())

        try:
            yield replay
        finally:
            process.kill()
            process.wait()

    def counters(self) -> None:
        """Does a process that runs nothing count the launches of another?"""
        ctypes.CDLL("libcuda.so.1").cuInit(0)
        started = time.monotonic()
        counters = Counters()
        self.say(f"counters open in {time.monotonic() - started:.2f} s")
        counters.start()
        time.sleep(0.02)
        self.say("idle", counters.stop())
        for kind, calls in (
            ("tiny", 64),
            ("wide", 64),
            ("pair", 64),
            ("fill", 64),
            ("bigfill", 16),
            ("copy", 64),
            ("stream", 16),
            ("tiny", 1),
            ("tiny", 1024),
        ):
            with self.replayer(kind, str(calls)) as replay:
                alone = [replay() for _ in range(20)]
                watched = []
                for _ in range(3):
                    started = time.monotonic()
                    counters.start()
                    watched.append(replay())
                    counted = counters.stop()
                    took = time.monotonic() - started
                    self.say(
                        kind,
                        calls,
                        {k.split(".")[0]: round(v) for k, v in counted.totals.items()},
                        "samples",
                        counted.samples,
                        f"{1e3 * took:.1f} ms",
                    )
                counters.start()
                many = [replay() for _ in range(10)]
                counted = counters.stop()
                self.say(
                    kind,
                    calls,
                    "ten:",
                    round(counted.totals[DISPATCHES]),
                    f"ms alone {np.median(alone):.4f} watched {np.median(many):.4f}",
                )
        started = time.monotonic()
        counters.close()
        self.say(f"closed in {time.monotonic() - started:.2f} s")
        more = (*METRICS, "sm__cycles_active.avg", "sm__pipe_tensor_cycles_active.avg")
        counters = Counters(metrics=more)
        with self.replayer("stream", "16") as replay:
            counters.start()
            replay()
            self.say("more", counters.stop())
        counters.close()

    def recorder_section(self) -> None:
        """The same program with the recorder, outside the sandbox."""
        self.say("recorder in this process:", self.spawn_recorded())

    def spawn_recorded(self) -> str:
        code = (
            "import sys; sys.path.insert(0, '.'); from benchmarks.gpu_attest_probe import in_box, payload_here; "
            f"in_box(payload_here({str(self.recorder)!r}), {{}})"
        )
        return self.shell("recorded", [sys.executable, "-c", code], rows=40)

    def boxed(self) -> None:
        """The recorder in a runner's own box, watched from outside."""
        from evaluators.gpu_judge import find_gpu  # noqa: PLC0415
        from evaluators.scratch import fresh_folder, scratch_folder  # noqa: PLC0415
        from evaluators.zygote.client import ChildLimits, SpawnRequest, Zygote  # noqa: PLC0415

        gpu = find_gpu()
        counters = Counters()
        with (
            scratch_folder() as scratch,
            Zygote(
                minimum="full",
                scratch=scratch,
                preload=("numpy", "evaluators.cuda.driver", "benchmarks.gpu_attest_probe"),
                devices=gpu.nodes(),
            ) as zygote,
        ):
            for recorded in (False, True):
                folder = fresh_folder(scratch)
                folder.chmod(0o755)
                for name in ("recorder.so", "libcupti.so.13"):
                    shutil.copy(self.work / name, folder / name)
                    (folder / name).chmod(0o644)
                memory = os.memfd_create("record")
                os.ftruncate(memory, 4 << 20)
                payload = payload_here(str(folder / "recorder.so") if recorded else "")
                started = time.monotonic()
                counters.start()
                child = zygote.spawn(
                    SpawnRequest(
                        role="runner",
                        entry="benchmarks.gpu_attest_probe:in_box",
                        payload=payload,
                        fds={"record": memory},
                        readable=(folder,),
                        limits=ChildLimits(memory_bytes=8 << 30, cpu_s=60, file_bytes=0, processes=0),
                        environment={"CUDA_CACHE_DISABLE": "1", "CUDA_MODULE_LOADING": "LAZY"},
                        python_packages=("numpy", "nvidia"),
                        gpu=True,
                    )
                )
                log, status = child.collect(30, 64 << 10)
                counted = counters.stop()
                child.close()
                self.say(f"boxed, recorded={recorded}: {status} in {time.monotonic() - started:.2f} s", counted)
                for row in log.splitlines()[-40:]:
                    self.say("   ", row[:200])
                self.show_record(memory)
        counters.close()

    def show_record(self, memory: int) -> None:
        with mmap.mmap(memory, 4 << 20) as view:
            self.say(*read_record(bytes(view)))

    def errors(self) -> None:
        """NVML events and kernel messages after each kind of error; is the device well afterwards?"""
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.say("nvmlInit", nvml.nvmlInit_v2())
        device, events = ctypes.c_void_p(), ctypes.c_void_p()
        self.say(
            "handle",
            nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)),
            "set",
            nvml.nvmlEventSetCreate(ctypes.byref(events)),
        )
        supported = ctypes.c_ulonglong()
        self.say(
            "supported", nvml.nvmlDeviceGetSupportedEventTypes(device, ctypes.byref(supported)), hex(supported.value)
        )
        self.say("register", nvml.nvmlDeviceRegisterEvents(device, ctypes.c_ulonglong(0x8), events))
        kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK) if os.path.exists("/dev/kmsg") else -1
        if kmsg >= 0:
            os.lseek(kmsg, 0, os.SEEK_END)
        from evaluators.gpu_judge import find_gpu  # noqa: PLC0415

        gpu = find_gpu()
        place = gpu.driver.allocate(1 << 30)
        for mode in ("fine", "illegal", "misaligned", "asserts", "traps", "toobig", "beyond", "endless", "fine"):
            started = time.monotonic()
            if mode == "endless":
                process = subprocess.Popen([self.program, mode], stdout=subprocess.PIPE)
                assert process.stdout is not None
                process.stdout.readline()
                process.stdout.readline()
                time.sleep(0.3)
                killed = time.monotonic()
                process.send_signal(signal.SIGKILL)
                process.wait()
                self.say(f"endless: gone {time.monotonic() - killed:.3f} s after the signal")
            else:
                done = subprocess.run([self.program, mode], capture_output=True, text=True, check=False, timeout=30)
                self.say(
                    mode,
                    done.returncode,
                    (done.stdout + done.stderr).replace("\n", " | ")[:300],
                    f"{time.monotonic() - started:.2f} s",
                )
            gpu.start_clock()
            found = gpu.checksum(place, 1 << 30, 1)
            self.say(f"   the judge's own context: checksum {found:x} in {gpu.stop_clock():.2f} ms")
            for _ in range(3):
                data = (ctypes.c_ubyte * 64)()
                asked = time.monotonic()
                code = nvml.nvmlEventSetWait_v2(events, data, 300)
                if code != 0:
                    break
                _, kind, value, gi, ci = struct.unpack_from("<QQQII", bytes(data))
                self.say(
                    f"   event type {kind:#x} data {value} instance {gi} {ci} after {time.monotonic() - asked:.3f} s"
                )
            self.say("   wait code", code)
            while kmsg >= 0:
                try:
                    row = os.read(kmsg, 8192).decode(errors="replace").strip()
                except OSError as error:
                    if error.errno == 11:
                        break
                    continue
                if "NVRM" in row or "Xid" in row or "audit" in row:
                    self.say("   kmsg", row[:250])
        if kmsg >= 0:
            os.close(kmsg)

    def ncu(self) -> None:
        metrics = "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__throughput.avg.pct_of_peak_sustained_elapsed,sm__inst_executed_pipe_tensor.sum,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active,sm__warps_active.avg.pct_of_peak_sustained_active,launch__registers_per_thread,launch__occupancy_limit_registers,launch__shared_mem_per_block,smsp__inst_executed_op_local_ld.sum,smsp__inst_executed_op_local_st.sum,lts__t_sector_hit_rate.pct,l1tex__t_sector_hit_rate.pct"
        common = ["ncu", "--clock-control", "none", "--csv", "--print-units", "base", "--metrics", metrics]
        self.shell("ncu_copies", [*common, str(self.program), "copies"], 60, rows=60)
        self.shell("ncu_none", [*common, "/bin/true"], 20)
        code = "import torch; x = torch.ones(4096, 4096, device='cuda', dtype=torch.bfloat16); y = x @ x; torch.cuda.synchronize()"
        self.shell(
            "ncu_torch", [*common, "--kernel-name", "regex:gemm|nvjet|cutlass", sys.executable, "-c", code], 40, rows=6
        )

    def sanitizer(self) -> None:
        for tool, mode in (
            ("memcheck", "fine"),
            ("memcheck", "beyond"),
            ("memcheck", "illegal"),
            ("memcheck", "misaligned"),
            ("racecheck", "races"),
            ("racecheck", "fine"),
        ):
            extra = ["--racecheck-report", "all"] if tool == "racecheck" else []
            xml = self.out / f"sanitizer_{tool}_{mode}.xml"
            self.shell(
                f"sanitizer_{tool}_{mode}",
                [
                    "compute-sanitizer",
                    "--tool",
                    tool,
                    *extra,
                    "--error-exitcode",
                    "9",
                    "--print-limit",
                    "20",
                    str(self.program),
                    mode,
                ],
                40,
                rows=14,
            )
            if mode in ("beyond", "races"):
                self.shell(
                    f"sanitizer_{tool}_{mode}_xml",
                    [
                        "compute-sanitizer",
                        "--tool",
                        tool,
                        *extra,
                        "--xml",
                        "--save",
                        str(xml),
                        "--error-exitcode",
                        "9",
                        str(self.program),
                        mode,
                    ],
                    40,
                    rows=6,
                )

    def sanitizer_boxed(self) -> None:
        """In a builder's box with the device: as it is, then with each refused call noted and let through."""
        counters = "dram__bytes_read.sum,gpu__time_duration.sum"
        self.boxed_command("plain", [str(self.program), "fine"])
        self.boxed_command(
            "sanitized", ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9", "PROGRAM", "beyond"]
        )
        self.boxed_command(
            "ncu_boxed", ["ncu", "--clock-control", "none", "--csv", "--metrics", counters, "PROGRAM", "fine"]
        )
        noted_calls(
            self, ["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9", str(self.program), "beyond"]
        )
        noted_calls(self, ["ncu", "--clock-control", "none", "--csv", "--metrics", counters, str(self.program), "fine"])

    def boxed_command(self, name: str, command: list[str]) -> None:
        from evaluators.gpu_judge import find_gpu  # noqa: PLC0415
        from evaluators.sandbox.report import LayerName  # noqa: PLC0415
        from evaluators.scratch import fresh_folder, scratch_folder  # noqa: PLC0415
        from evaluators.zygote.client import ChildLimits, SpawnRequest, Zygote  # noqa: PLC0415

        nodes = find_gpu().nodes()
        for without in (
            (
                frozenset(),
                frozenset({LayerName.SECCOMP}),
                frozenset({LayerName.SECCOMP, LayerName.LANDLOCK, LayerName.NETWORK_NAMESPACE}),
            )
            if name != "plain"
            else (frozenset(),)
        ):
            with (
                scratch_folder() as scratch,
                Zygote(
                    minimum="none",
                    scratch=scratch,
                    preload=("benchmarks.gpu_attest_probe",),
                    devices=nodes,
                    without=without,
                ) as zygote,
            ):
                folder = fresh_folder(scratch)
                shutil.copy(self.program, folder / "program")
                (folder / "program").chmod(0o755)
                words = [str(folder / "program") if w in ("PROGRAM", str(self.program)) else w for w in command]
                started = time.monotonic()
                child = zygote.spawn(
                    SpawnRequest(
                        role="builder",
                        entry="benchmarks.gpu_attest_probe:run_command",
                        payload={"command": words, "folder": str(folder)},
                        writable=(folder,),
                        limits=ChildLimits(memory_bytes=16 << 30, cpu_s=60, file_bytes=64 << 20, processes=256),
                        environment={"PATH": os.environ["PATH"], "TMPDIR": str(folder), "HOME": str(folder)},
                        gpu=True,
                        inspected=name != "plain",
                    )
                )
                log, status = child.collect(10, 64 << 10)
                child.close()
                self.say(f"[{name}] without {sorted(without)}: {status} in {time.monotonic() - started:.1f} s")
                for row in log.splitlines()[:8]:
                    self.say("   ", row[:200])
                if "Invalid __global__ write" in log or "gpu__time_duration" in log:
                    break


def payload_here(recorder: str) -> dict[str, Any]:
    """What :func:`in_box` needs: a kernel of ours, and the recorder, if any."""
    from evaluators.cuda.device import KERNELS  # noqa: PLC0415
    from evaluators.cuda.nvrtc import compile_cubin  # noqa: PLC0415

    return {"cubin": base64.b64encode(compile_cubin(KERNELS, "sm_90")).decode(), "recorder": recorder}


def in_box(payload: dict[str, Any], fds: dict[str, int]) -> None:
    """Replay a graph of our own kernel, with the recorder where there is one."""
    from evaluators.cuda.driver import Driver  # noqa: PLC0415

    memory = fds.get("record", -1)
    if memory < 0:
        memory = os.memfd_create("record")
        os.ftruncate(memory, 4 << 20)
    recorder = None
    if payload["recorder"]:
        started = time.monotonic()
        recorder = ctypes.CDLL(payload["recorder"])
        print("recorder_open", recorder.recorder_open(memory), f"{time.monotonic() - started:.3f} s", flush=True)
    started = time.monotonic()
    driver = Driver.load(0, primary=True)
    print(f"driver {time.monotonic() - started:.3f} s", flush=True)
    function = driver.function(driver.module(base64.b64decode(payload["cubin"])), "multiply_add")
    out, stream = driver.allocate(4096), driver.stream()
    arguments = [ctypes.c_ulonglong(out), ctypes.c_ulonglong(300)]
    pointers = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in arguments))
    sizes = [ctypes.c_uint(v) for v in (7, 1, 1, 64, 1, 1, 0)]
    driver.begin_capture(stream)
    for _ in range(BOX_CALLS):
        driver.call("cuLaunchKernel", function, *sizes, ctypes.c_void_p(stream), pointers, ctypes.c_void_p(0))
    graph = driver.end_capture(stream)
    for _ in range(BOX_REPLAYS):
        started = time.perf_counter_ns()
        driver.launch_graph(graph, stream)
        driver.synchronize()
        took = time.perf_counter_ns() - started
        started = time.perf_counter_ns()
        code = recorder.recorder_flush() if recorder else None
        print(f"replay {took / 1e3:.1f} us, flush {code} {(time.perf_counter_ns() - started) / 1e3:.1f} us", flush=True)
    if not fds and recorder:
        with mmap.mmap(memory, 4 << 20) as view:
            print(*read_record(bytes(view)), sep="\n", flush=True)


def read_record(data: bytes) -> list[str]:
    magic, version, capacity, count, left_out, dropped, flushes = struct.unpack_from("<QIIIIQI", data)
    rows = [
        f"magic {magic:#x} version {version} capacity {capacity} count {count} left out {left_out} dropped {dropped} flushes {flushes}"
    ]
    durations = []
    for index in range(min(count, capacity)):
        kind, stream, graph, registers, start, end, size, *rest = struct.unpack_from(
            "<4I3Q8I160s", data, 64 + 232 * index
        )
        durations.append(end - start)
        if index < 4 or index == count - 1:
            rows.append(
                f"kind {kind} stream {stream} graph {graph} registers {registers} start {start} took {end - start} bytes {size} rest {rest[:8]} {rest[8].rstrip(bytes(1))!r}"
            )
    if durations:
        rows.append(f"durations ns: median {np.median(durations)} sum {sum(durations)}")
    return rows


def run_command(payload: dict[str, Any], fds: dict[str, int]) -> None:
    """In a builder's box: become a command."""
    del fds
    os.chdir(payload["folder"])
    program = shutil.which(payload["command"][0]) or payload["command"][0]
    os.execv(program, payload["command"])


def noted_calls(probe: Probe, command: list[str]) -> None:
    """Run a command under the builder's filter, with every refused call noted and let through."""
    from evaluators.sandbox import kernel, seccomp, syscalls  # noqa: PLC0415

    names = {number: name for name, number in syscalls.here().items()}
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        seccomp._DENIED = 0x7FC0_0000
        seccomp._when.__kwdefaults__ = {"otherwise": 0x7FC0_0000}
        kernel.prctl(38, 1)
        program = seccomp.Program(seccomp.instructions("builder", os.getpid(), gpu=True, inspected=True))
        number = syscalls.here()["seccomp"]
        fd = ctypes.CDLL(None, use_errno=True).syscall(number, 1, 8 | 4, program._descriptor)
        theirs.send(str(fd).encode())
        theirs.recv(1)  # the listener closes when this process becomes another
        os.dup2(os.open(probe.out / "noted.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        os.execvp(command[0], command)
    theirs.close()
    theirs_fd = int(ours.recv(16) or b"-1")
    call = ctypes.CDLL(None, use_errno=True).syscall
    fds = [call(syscalls.here()["pidfd_getfd"], os.pidfd_open(pid), theirs_fd, 0)] if theirs_fd >= 0 else []
    if not fds or fds[0] < 0:
        probe.say("no listener for seccomp here", theirs_fd, fds, os.strerror(ctypes.get_errno()))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return
    ours.send(b"x")
    seen: dict[str, int] = {}
    deadline = time.monotonic() + 12
    while time.monotonic() < deadline and os.waitpid(pid, os.WNOHANG)[0] == 0:
        if not _ready(fds[0]):
            continue
        try:
            note = array.array("B", bytes(80))
            fcntl.ioctl(fds[0], 0xC0502100, note)
            identity, _, _, call = struct.unpack_from("<QIIi", note)
            arguments = struct.unpack_from("<6Q", note, 32)
            key = (
                f"{names.get(call, call)}({', '.join(hex(a) for a in arguments[:3])})"
                if names.get(call)
                in ("socket", "clone", "prctl", "ioctl", "fcntl", "madvise", "kill", "tgkill", "prlimit64")
                else str(names.get(call, call))
            )
            seen[key] = seen.get(key, 0) + 1
            fcntl.ioctl(fds[0], 0xC0182101, array.array("B", struct.pack("<QqiI", identity, 0, 0, 1)))
        except OSError:
            continue
    else:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    probe.say("[noted]", " ".join(command[:3]), "refused calls:", seen)
    for row in (probe.out / "noted.txt").read_text().splitlines()[:6]:
        probe.say("   ", row[:200])


def _ready(fd: int) -> bool:
    import select  # noqa: PLC0415

    return bool(select.select([fd], [], [], 0.2)[0])


def main() -> None:
    out, wanted = Path(sys.argv[1]), sys.argv[2:]
    faulthandler.enable()
    if len(wanted) == 1:  # one section: in this process, which it may take with it
        probe = Probe(out)
        try:
            probe.build()
            getattr(probe, wanted[0])()
        finally:
            shutil.rmtree(probe.work, ignore_errors=True)
        return
    for name in wanted or SECTIONS:
        started = time.monotonic()
        print(f"=== {name}", flush=True)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.gpu_attest_probe", str(out), name], timeout=SECTION_S, check=False
            )
            print(f"=== {name}: code {done.returncode}, {time.monotonic() - started:.1f} s", flush=True)
        except subprocess.TimeoutExpired:
            print(f"=== {name}: no end after {SECTION_S} s", flush=True)


if __name__ == "__main__":
    main()
