"""The compiler of seccomp programs, against an interpreter of them."""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.sandbox import seccomp, syscalls
from evaluators.sandbox.bpf import ALLOW, KILL_PROCESS, Decision, Guarded, Match, compile_program, refuse

ARCHITECTURE = 0xC000_003E
U32, U64 = (1 << 32) - 1, (1 << 64) - 1
DENY, ABSENT = refuse(errno.EPERM), refuse(errno.ENOSYS)


def interpret(program: bytes, number: int, arguments: tuple[int, ...] = (), architecture: int = ARCHITECTURE) -> int:
    """What the kernel would do with this call."""
    padded = (*arguments, *([0] * (6 - len(arguments))))
    data = struct.pack("=IIQ6Q", number, architecture, 0, *padded)
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    position, accumulator = 0, 0
    while True:
        operation, if_true, if_false, constant = code[position]
        position += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, constant)
            case 0x54:
                accumulator &= constant
            case 0x05:
                position += constant
            case 0x15:
                position += if_true if accumulator == constant else if_false
            case 0x35:
                position += if_true if accumulator >= constant else if_false
            case 0x06:
                return constant
            case _:
                raise AssertionError(f"unknown operation {operation:#x}")


guards = st.builds(
    Guarded,
    st.lists(
        st.lists(
            st.builds(
                Match, st.integers(0, 5), st.integers(0, 3), st.sampled_from([1, 2, 3, 0xFFFF_FFFF]), st.booleans()
            )
            | st.builds(
                Match, st.integers(0, 5), st.integers(0, 3), st.sampled_from([3, 0xFFFF_FFFF]), unlike=st.just(True)
            ),
            min_size=1,
            max_size=3,
        ).map(tuple),
        min_size=1,
        max_size=4,
    ).map(tuple),
    st.just(DENY),
)
tables = st.dictionaries(st.integers(0, 499), st.one_of(st.sampled_from([ALLOW, DENY, KILL_PROCESS]), guards))


def expected(decisions: Mapping[int, Decision], number: int, arguments: tuple[int, ...]) -> int:
    if number >= 500:
        return ABSENT
    decision = decisions.get(number, DENY)
    if isinstance(decision, int):
        return decision
    for tests in decision.alternatives:
        if all((arguments[t.argument] & t.mask & (U64 if t.wide else U32) == t.value) != t.unlike for t in tests):
            return ALLOW
    return decision.otherwise


@given(
    tables,
    st.lists(st.integers(0, 520), min_size=1, max_size=20),
    st.tuples(*[st.one_of(st.integers(0, 3), st.integers(0, (1 << 64) - 1))] * 6),
)
def test_a_program_decides_as_its_table_says(
    decisions: dict[int, Decision], numbers: list[int], arguments: tuple[int, ...]
) -> None:
    program = compile_program(ARCHITECTURE, decisions, DENY, (500, ABSENT))
    for number in [*numbers, 0, 499, 500, 0x4000_0000, 0xFFFF_FFFF, *decisions]:
        assert interpret(program, number, arguments) == expected(decisions, number, arguments)


def test_long_programs_jump_far() -> None:
    guard = Guarded(tuple((Match(0, value),) for value in range(20)), DENY)
    decisions: dict[int, Decision] = dict.fromkeys(range(0, 300, 2), guard)
    program = compile_program(ARCHITECTURE, decisions, ALLOW, (500, ABSENT))
    assert [interpret(program, n, (19,)) for n in range(300)] == [ALLOW] * 300
    assert [interpret(program, n, (20,)) for n in range(300)] == [DENY, ALLOW] * 150


def test_another_convention_is_deadly() -> None:
    i386 = 0x4000_0003
    assert interpret(compile_program(ARCHITECTURE, {}, ALLOW, (500, ALLOW)), 20, architecture=i386) == KILL_PROCESS


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("role", ["runner", "builder"])
def test_the_roles_on_every_processor(role: seccomp.Role, machine: str) -> None:
    """Here for the processors that the other tests do not run on."""
    table = syscalls.numbers(machine)
    program = seccomp.instructions(role, 1, machine)
    architecture = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}[machine]

    def decide(name: str, *arguments: int) -> int:
        return interpret(program, table[name], arguments, architecture)

    assert len(program) // 8 <= 4096  # the kernel's limit
    assert {decide(name) for name in ("read", "openat", "mmap", "futex", "exit_group")} == {ALLOW}
    assert {decide(name) for name in ("socket", "ptrace", "bpf", "mount", "unshare", "keyctl")} == {DENY}
    assert decide("clone", 0x3D0F00) == ALLOW
    assert decide("clone", 0x3D0F00 | 0x1000_0000) == DENY
    assert decide("clone", 17) == (ALLOW if role == "builder" else DENY)
    assert decide("execve") == (ALLOW if role == "builder" else DENY)
    assert decide("clone3") == ABSENT
    assert [decide("tgkill", pid) for pid in (1, 2)] == [ALLOW, ALLOW if role == "builder" else DENY]
    waking = ALLOW if role == "builder" else DENY
    assert [decide("kill", 1, number) for number in (17, 18, 19, 18 | 1 << 32)] == [ALLOW, waking, ALLOW, waking]
    assert [decide("prlimit64", pid) for pid in (0, 1, 2)] == [ALLOW, ALLOW, DENY]
    assert [decide("sendto", 3, 0, 0, 0, address) for address in (0, 1, 1 << 32)] == [ALLOW, DENY, DENY]


def header_numbers(path: Path) -> dict[str, int]:
    return {m[1]: int(m[2]) for m in re.finditer(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", path.read_text(), re.M)}


@pytest.mark.parametrize(
    ("machine", "header"),
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
)
def test_the_numbers_are_those_of_the_kernel_s_headers(machine: str, header: str) -> None:
    if not Path(header).exists():
        pytest.skip(f"no {header} here")
    theirs = header_numbers(Path(header))
    ours = syscalls.numbers(machine)
    other_names = {"newfstatat": "fstatat"} if machine == "aarch64" else {}
    compared = {name: theirs[other_names.get(name, name)] for name in ours if other_names.get(name, name) in theirs}
    assert len(compared) > len(ours) * 0.9
    assert {name: ours[name] for name in compared} == compared
    assert len(set(ours.values())) == len(ours)
    assert max(ours.values()) <= syscalls.HIGHEST


def test_a_processor_without_a_table_is_named() -> None:
    with pytest.raises(ValueError, match="riscv64"):
        syscalls.numbers("riscv64")
