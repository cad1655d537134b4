"""Parts of the GPU judge that need no GPU: round plans, resource reports, what a sandboxed driver may ask."""

import errno

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.builders.resources import count_instructions, occupancy, parse_usage
from evaluators.cuda.arena import OTHER_RUNNERS, pool_bytes
from evaluators.cuda.plan import MAX_CALLS, device_plan
from evaluators.layout import Layout
from evaluators.plan import COLD_FACTOR
from evaluators.sandbox import seccomp, syscalls
from evaluators.sandbox.bpf import ALLOW, refuse
from evaluators.task import Arg, Baseline, Task, Workload
from tests.evaluators.sandbox.test_bpf import interpret

CACHE, POOL = 60 << 20, 8 << 30
USAGE = """
Fatbin elf code:
 Function _Z4softPKf:
  REG:32 STACK:16 SHARED:1056 LOCAL:8 CONSTANT[0]:552 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
SASS = """
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4] ;
        /*0020*/                   STL [R1], R2 ;
        /*0030*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
"""


def task(m: int, n: int) -> tuple[Task, Workload]:
    args = tuple(
        Arg(name=name, role=role, dtype="fp32", shape=("M", "N")) for name, role in (("x", "in"), ("out", "out"))
    )
    workload = Workload(name="w", axes={"M": m, "N": n})
    nowhere = {"seed_program": "s", "folder": ".", "hash": "", "inputs_hash": ""}
    made = Task(name="t", languages=("cuda",), entry="f", args=args, workloads=(workload,), **nowhere)
    return made, workload


@given(st.integers(1, 8192), st.integers(1, 8192), st.floats(1e-6, 0.1), st.integers(0, 99))
def test_a_round_is_cold_or_says_so_and_its_orders_are_drawn_from_more_slots_than_it_calls(m, n, call_s, seed):
    made, workload = task(m, n)
    plan = device_plan(made, workload, CACHE, POOL, call_s, np.random.default_rng(seed))
    layout = plan.layout
    assert 1 <= plan.calls <= MAX_CALLS
    assert layout.slots > plan.calls
    for order in layout.sequences:
        assert len(set(order)) == len(order) == plan.calls
        assert set(order) <= set(range(layout.slots))
    used = plan.calls * (layout.input_stride + layout.output_stride)
    assert plan.cold == (used >= COLD_FACTOR * CACHE)
    assert used <= max(POOL, layout.input_stride + layout.output_stride)


def test_a_layout_with_orders_survives_its_frame():
    made, workload = task(64, 64)
    layout = device_plan(made, workload, CACHE, POOL, 1e-5, np.random.default_rng(1)).layout
    assert Layout.from_json(layout.to_json()) == layout


@given(
    shapes=st.lists(
        st.tuples(st.integers(1, 4096), st.integers(1, 4096), st.integers(1, 4096)), min_size=1, max_size=3
    ),
    baselines=st.integers(0, 3),
    heldout=st.booleans(),
    memory_gib=st.sampled_from([16, 24, 80, 141]),
    role=st.sampled_from(["out", "inout"]),
)
def test_the_slots_of_all_runners_fit_into_the_device_together(shapes, baselines, heldout, memory_gib, role):
    """Whatever is larger, inputs or outputs, and with an arena of the held-out workloads beside.

    Of what is changed in place the judge has a copy, as large as a runner's outputs.
    """
    made, _ = task(1, 1)
    args = (
        Arg(name="x", role="in", dtype="fp32", shape=("M", "K")),
        Arg(name="out", role=role, dtype="fp32", shape=("M", "N")),
    )
    split = {"split": "heldout"} if heldout else {}
    workloads = [Workload(name=f"w{i}", axes={"M": m, "N": n, "K": k}) for i, (m, n, k) in enumerate(shapes)]
    names = [Baseline(name=f"b{i}", file="b.py", language="torch") for i in range(baselines)]
    made = made.model_copy(
        update={
            "args": args,
            "baselines": tuple(names),
            "workloads": (*workloads, *(Workload(name=f"h{w.name}", axes=w.axes, **split) for w in workloads)),
        }
    )
    memory, rng = memory_gib << 30, np.random.default_rng(0)
    plans = [device_plan(made, w, CACHE, pool_bytes(memory, made, w), 1e-6, rng).layout for w in workloads]
    one_more = sum(max(getattr(plan, f"{kind}_stride") for plan in plans) for kind in ("input", "output"))
    runners = baselines + OTHER_RUNNERS + (role == "inout")
    arena = max(p.input_bytes for p in plans) + runners * max(p.output_bytes for p in plans)
    assert (1 + heldout) * (arena - 2 * runners * one_more) <= 0.6 * memory


def test_resources_are_read_from_the_tools_words():
    (usage,) = parse_usage(USAGE)
    assert (usage.registers, usage.local_bytes, usage.shared_bytes) == (32, 24, 1056)
    counts = count_instructions(SASS.splitlines())
    assert (counts["total"], counts["tensor_core"], counts["local_memory"]) == (4, 2, 1)


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "share", "limiter"),
    [(32, 0, 8, 1.0, "registers"), (255, 0, 8, 0.125, "registers"), (32, 100 << 10, 8, 0.25, "shared memory")],
)
def test_occupancy_and_its_limiter(registers, shared, warps, share, limiter):
    assert occupancy("sm_90", registers, shared, warps) == (share, limiter)


@pytest.mark.parametrize(
    ("request_code", "allowed"),
    [(0xC008_46D6, True), (0x27, True), (0x3000_0001, True), (0x5412, False), (0x5414, False)],
)
def test_a_gpu_runner_may_ask_the_driver_and_nothing_of_terminals(request_code, allowed):
    ioctl = syscalls.numbers("x86_64")["ioctl"]
    program = seccomp.instructions("runner", 1, "x86_64", gpu=True)
    assert interpret(program, ioctl, (3, request_code)) == (ALLOW if allowed else refuse(errno.ENOTTY))
    plain = seccomp.instructions("runner", 1, "x86_64")
    assert interpret(plain, ioctl, (3, 0xC008_46D6)) == refuse(errno.ENOTTY)


def test_a_gpu_runner_may_open_no_socket_but_a_unix_one_and_connect_none():
    numbers = syscalls.numbers("x86_64")
    program = seccomp.instructions("runner", 1, "x86_64", gpu=True)
    assert interpret(program, numbers["socket"], (1, 1, 0)) == ALLOW
    assert interpret(program, numbers["socket"], (2, 1, 0)) == refuse(errno.EPERM)
    assert interpret(program, numbers["connect"], (3, 0, 0)) == refuse(errno.EPERM)
