"""Sampling a sandboxed process from outside: what is seen, and that nothing is left stopped or attached."""

from __future__ import annotations

import mmap
import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from evaluators.errors import JudgeError
from evaluators.hot_spots import hot_spots, place_samples
from evaluators.instructions import Kind, kinds_of, vector_bits
from evaluators.listing import COMMAND, Listing
from evaluators.mappings import ANONYMOUS, AddressSpace, Place
from evaluators.sampling import Account, Doing, Moment, Sampler, Samples, Unreadable, parse_moment
from evaluators.zygote.client import Child
from tests.evaluators.sandbox_support import request

PATIENCE_S = 10.0


def state(child: Child) -> str:
    return Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def tracer(child: Child) -> str:
    lines = Path(f"/proc/{child.pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("TracerPid"))


def until_it_runs(child: Child) -> None:
    line = b""
    while b"go" not in line:
        line += os.read(child.log, 100)


def sampled(child: Child, most: int) -> Samples:
    sampler = Sampler(child, np.random.default_rng(1), most, time.monotonic() + PATIENCE_S)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sampler.watch(ours)
    sampler.read_maps()
    return sampler.samples


def test_a_busy_process_is_seen_and_left_running_with_nothing_attached(zygote):
    with zygote.spawn(request("print('go')\nwhile True: pass", observed=True)) as child:
        until_it_runs(child)
        samples = sampled(child, 40)
        assert len(samples.moments) == 40
        placed = place_samples(samples, None, None)
        assert placed.interpreter_share > 0.9
        assert placed.busy_threads(2) == (1.0, 0.0)
        assert state(child) == "R"
        assert tracer(child) == "0"


def test_a_thread_that_waits_is_told_from_one_that_works(zygote):
    code = """
        import threading
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        print('go')
        while True: pass
    """
    with zygote.spawn(request(code, observed=True)) as child:
        until_it_runs(child)
        placed = place_samples(sampled(child, 30), None, None)
        assert placed.waiting >= 25
        assert placed.busy_threads(2)[0] > 0.8


def test_once_there_is_an_answer_nothing_is_stopped_any_more(zygote):
    with zygote.spawn(request("print('go')\nwhile True: pass", observed=True)) as child:
        until_it_runs(child)
        sampler = Sampler(child, np.random.default_rng(1), 10, time.monotonic() + PATIENCE_S)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.send(b"answer")
            sampler.watch(ours)
        assert sampler.samples.moments == []
        assert state(child) == "R"


def test_a_process_that_dies_meanwhile_ends_the_sampling(zygote):
    with zygote.spawn(request("print('go')\nwhile True: pass", observed=True)) as child:
        until_it_runs(child)
        sampler = Sampler(child, np.random.default_rng(1), 10**9, time.monotonic() + PATIENCE_S)
        threading.Timer(0.2, child.kill).start()
        ours, theirs = socket.socketpair()
        started = time.monotonic()
        with ours, theirs, pytest.raises((Unreadable, JudgeError)):
            sampler.watch(ours)
        assert time.monotonic() - started < PATIENCE_S


def test_who_is_not_shown_where_a_process_is_says_so_and_lets_it_go_on(zygote, monkeypatch):
    def refuse(path: str, *arguments: object, **named: object) -> object:
        raise PermissionError(13, "Permission denied", path)

    with zygote.spawn(request("print('go')\nwhile True: pass", observed=True)) as child:
        until_it_runs(child)
        monkeypatch.setattr("evaluators.sampling.open", refuse, raising=False)
        with pytest.raises(Unreadable, match="to root only"):
            sampled(child, 5)
        assert state(child) == "R"


@pytest.mark.parametrize(
    ("words", "machine", "doing"),
    [
        ("-1 0x7ffd 0x55aa", "x86_64", Doing.OWN),
        ("202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd 0x55aa", "x86_64", Doing.WAITING),
        ("98 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd 0x55aa", "aarch64", Doing.WAITING),
        ("45 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd 0x55aa", "x86_64", Doing.CHANNEL),
        ("28 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd 0x55aa", "x86_64", Doing.SYSTEM),
        ("202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd 0x55aa", "riscv64", Doing.SYSTEM),
    ],
)
def test_the_kernels_line_on_a_stopped_thread(words, machine, doing):
    assert parse_moment(7, words.split(), machine) == Moment(7, 0x55AA, doing)


def test_a_thread_that_was_not_stopped_is_left_out():
    assert parse_moment(7, ["running"], "x86_64") is None


def test_the_account_of_a_process_counts_its_page_faults_whatever_it_calls_itself(tmp_path):
    before = Account.of(os.getpid())
    with mmap.mmap(-1, 8 << 20) as memory:
        memory.write(bytes(8 << 20))
    assert Account.of(os.getpid()).since(before).page_faults > 0
    name = tmp_path / ") R 1 ("
    name.symlink_to(shutil.which("sleep") or "/bin/sleep")
    with subprocess.Popen([name, "9"]) as other:
        assert Account.of(other.pid).page_faults > 0
        other.kill()
    assert Account.of(other.pid) == Account(0.0, 0.0, 0)


MAPS = """55a000-55b000 r--p 00000000 fe:00 26723                      /usr/bin/python3.11
55b000-55f000 r-xp 00001000 fe:00 26723                      /usr/bin/python3.11
7f0000-7f4000 r-xp 00002000 fe:00 99 /scratch/with blank/abc.so
7f4000-7f8000 rwxp 00000000 00:00 0
ffe000-fff000 r-xp 00000000 00:00 0                          [vdso]
garbage from somebody
"""


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (0x55B010, Place("python3.11", 0x1010)),
        (0x7F0020, Place("abc.so", 0x2020)),
        (0x7F4000, Place(ANONYMOUS, 0)),
        (0xFFE000, Place("[vdso]", 0)),
        (0x55A000, Place(ANONYMOUS, 0x55A000)),
        (0, Place(ANONYMOUS, 0)),
        (1 << 60, Place(ANONYMOUS, 1 << 60)),
    ],
)
def test_where_an_address_lies(address, place):
    assert AddressSpace(MAPS).place(address) == place


SOURCE = """#include <cstdint>
static inline float square(float x) {
    return x * x;
}
extern "C" void f(const float* x, float* out, int64_t N) {
    float sum = 0;
    for (int64_t i = 0; i < N; i++)
        sum += square(x[i]);
    *out = sum;
}
#line 1 "/etc/passwd"
extern "C" int elsewhere(int x) { return x * 3 / 7; }
"""


@pytest.fixture(scope="module")
def listing(tmp_path_factory: pytest.TempPathFactory) -> str:
    if not shutil.which("g++") or not shutil.which("objdump"):
        pytest.skip("needs g++ and objdump")
    folder = tmp_path_factory.mktemp("listing")
    (folder / "candidate.cpp").write_text(SOURCE)
    command = ["g++", "-O2", "-g1", "-shared", "-fPIC", "-o", "candidate.so", "candidate.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run([*COMMAND, "candidate.so"], cwd=folder, check=True, capture_output=True, text=True).stdout


def lines_of(listing: str, function: str) -> set[int | None]:
    found = Listing(listing, "candidate.cpp")
    places = (found.at(offset) for offset in range(0, 1 << 14))
    return {i.line for i in places if i is not None and i.function == function}


def test_instructions_have_the_line_they_were_written_on_also_where_they_were_inlined(listing):
    assert {3, 8} <= lines_of(listing, "f") <= {3, 5, 6, 7, 8, 9, 10}


def test_a_line_of_another_file_is_none_of_the_sources(listing):
    assert lines_of(listing, "elsewhere") == {None}


def test_a_listing_that_breaks_off_or_is_garbage_finds_less_and_breaks_nothing(listing):
    half = Listing(listing[: len(listing) // 2], "candidate.cpp")
    assert half.at(0) is None
    assert Listing("\0 1000: nop\n<f>:\n  zz: add\ninlined by :0 (\n::::9", "candidate.cpp").at(0x1000) is None


@pytest.mark.parametrize("name", [" " * 200_000, " <" * 100_000, "#" * 200_000, ":1" * 100_000, "0" * 200_000])
def test_a_symbol_of_any_name_is_read_in_no_time(name):
    segment = "  LOAD off 0x0000 vaddr 0x0000 \n filesz 0x2000 memsz 0x2000\n"
    text = f"{segment}10 <{name}>:\n{name}:3\n  10:\tcall 20 <{name}x\n"
    found = Listing(text, "candidate.cpp").at(0x10)
    assert found is not None
    assert found.text.startswith("call 20")


DIVIDES = """  LOAD off 0x0000 vaddr 0x0000 paddr 0x0000
    filesz 0x2000 memsz 0x2000
10 <f>:
  10:\tmov (%rdi),%eax
  12:\tidivl %ecx
  14:\tadd %eax,%edi
  16:\tjne 10 <f>
20 <g>:
  20:\tdivss %xmm1,%xmm0
30 <h>:
  30:\tret
"""


@pytest.mark.parametrize(
    ("offset", "text"), [(0x10, "mov"), (0x12, "idivl"), (0x14, "idivl"), (0x16, "jne"), (0x30, "ret")]
)
def test_who_waits_for_a_division_is_at_work_on_it(offset, text):
    found = Listing(DIVIDES, "candidate.cpp").at_work(offset)
    assert found is not None
    assert found.text.startswith(text)


def test_hot_spots_are_shares_of_the_work_and_their_text_is_the_sources(listing):
    found = Listing(listing, "candidate.cpp")
    inside = next(o for o in range(1 << 14) if (i := found.at(o)) is not None and i.function == "f" and i.line == 3)
    maps = "10000-20000 r-xp 00000000 00:00 1 /x/candidate.so\n20000-30000 r-xp 00000000 00:00 1 /x/libgomp.so.1\n"
    own, spins = Moment(1, 0x10000 + inside), Moment(2, 0x20010)
    samples = Samples([(own, spins)] * 3 + [(Moment(1, 5, Doing.SYSTEM), spins)], maps)
    placed = place_samples(samples, "candidate.so", found)
    spots = hot_spots(placed, SOURCE)
    assert [(s.share, s.function, s.line, s.text) for s in spots] == [
        (0.75, "f", 3, "return x * x;"),
        (0.25, "system calls", None, ""),
    ]
    assert spots[0].instructions[0].text.startswith("mulss")
    assert placed.waiting == 4
    assert placed.busy_threads(2) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("text", "kinds", "bits"),
    [
        ("vfmadd231ps %ymm1,%ymm1,%ymm0", {Kind.VECTOR, Kind.FLOAT, Kind.FMA}, 256),
        ("vfmadd231ss %xmm0,%xmm1,%xmm3", {Kind.SCALAR_FLOAT, Kind.FLOAT, Kind.FMA}, 128),
        ("vaddps (%rdi,%rax,4),%zmm1,%zmm2", {Kind.VECTOR, Kind.FLOAT, Kind.MEMORY}, 512),
        ("addss %xmm1,%xmm0", {Kind.SCALAR_FLOAT, Kind.FLOAT}, 128),
        ("vdivps %ymm0,%ymm1,%ymm2", {Kind.VECTOR, Kind.FLOAT, Kind.DIVISION}, 256),
        ("idivq %rcx", {Kind.DIVISION}, 0),
        ("vpgatherdd %ymm3,(%rax,%ymm2,4),%ymm1", {Kind.VECTOR, Kind.GATHER, Kind.MEMORY}, 256),
        ("psadbw %xmm1,%xmm0", {Kind.VECTOR}, 128),
        ("movss (%rax),%xmm0", {Kind.MEMORY, Kind.SCALAR_FLOAT}, 128),
        ("add $0x1,%rax", set(), 0),
        ("lea 0x8(%rax),%rbx", set(), 0),
        ("jne 1128 <row_sums+0x28>", {Kind.BRANCH}, 0),
        ("lock xadd %eax,(%rdx)", {Kind.ATOMIC, Kind.MEMORY}, 0),
        ("fmla v0.4s, v1.4s, v2.4s", {Kind.VECTOR, Kind.FLOAT, Kind.FMA}, 128),
        ("fadd s0, s1, s2", {Kind.SCALAR_FLOAT, Kind.FLOAT}, 0),
        ("ldr q0, [x1, x2]", {Kind.MEMORY}, 0),
        ("", set(), 0),
    ],
)
def test_what_an_instruction_does(text, kinds, bits):
    assert kinds_of(text) == kinds
    assert vector_bits(text) == bits
