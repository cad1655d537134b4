"""Processes: a runner starts none, and nobody reaches a process that is not its own."""

from __future__ import annotations

import os
import platform
import signal

import pytest

from evaluators.sandbox import syscalls
from evaluators.zygote.client import Zygote
from tests.evaluators.sandbox_support import SYSCALL, refusal, run

ROLES = ["runner", "builder"]
NUMBERS = syscalls.here()
SIGCHLD = int(signal.SIGCHLD)
CLONE_FLAGS = {
    "fork": SIGCHLD,
    "vfork": 0x4100 | SIGCHLD,
    "thread in a user namespace": 0x3D0F00 | 0x1000_0000,
    "no thread group": 0x0D0F00,
}
FORBIDDEN = [
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_open", "pidfd_getfd",
    "pidfd_send_signal", "kcmp", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "mount", "umount2", "pivot_root", "chroot",
    "open_tree", "move_mount", "mount_setattr", "unshare", "setns", "keyctl", "add_key", "request_key", "bpf",
    "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "memfd_create",
    "memfd_secret", "shmget", "semget", "msgget", "mq_open", "init_module", "finit_module", "kexec_load", "reboot",
    "swapon", "syslog", "personality", "open_by_handle_at", "fanotify_init", "quotactl", "acct", "sethostname",
    "seccomp", "landlock_create_ruleset", "sched_setaffinity", "sched_setscheduler", "sched_setattr", "setpriority",
    "mbind", "move_pages", "migrate_pages", "timer_create", "capset", "setgroups", "iopl", "ioperm", "modify_ldt",
    "clone3", "openat2", "setsockopt", "chown", "fchown", "fchownat", "setxattr",
]  # fmt: skip
FORBIDDEN_TO_RUNNERS = [
    "fork", "vfork", "execve", "execveat", "wait4", "tkill", "setsid", "unlinkat", "renameat2", "mkdirat", "linkat",
    "symlinkat", "mknodat", "fchmod", "fchmodat", "fchmodat2", "utimensat", "truncate", "ftruncate", "fallocate",
    "setuid", "setresuid", "splice", "copy_file_range", "sendmsg", "umask",
]  # fmt: skip


def refused_numbers(zygote: Zygote, names: list[str], role: str) -> set[str]:
    """Of these calls those that fail as not permitted or not there, whatever their arguments."""
    numbers = {name: NUMBERS[name] for name in names if name in NUMBERS}
    code = SYSCALL + (
        f"for name, number in {numbers}.items():\n"
        "    try:\n"
        "        syscall(number, -1, -1, -1, -1, -1, -1)\n"
        "    except OSError as error:\n"
        "        if error.errno in (1, 38): print(name)\n"
    )
    return set(run(zygote, code, role).text.split())


@pytest.mark.parametrize("role", ROLES)
def test_what_nobody_may_call(zygote: Zygote, role: str) -> None:
    expected = {name for name in FORBIDDEN if name in NUMBERS}
    assert refused_numbers(zygote, FORBIDDEN, role) == expected


def test_what_a_runner_may_not_call_besides(zygote: Zygote) -> None:
    expected = {name for name in FORBIDDEN_TO_RUNNERS if name in NUMBERS}
    assert refused_numbers(zygote, FORBIDDEN_TO_RUNNERS, "runner") == expected


def test_calls_beyond_the_table_are_not_there(zygote: Zygote) -> None:
    code = SYSCALL + f"syscall({syscalls.HIGHEST + 1}, 0)"
    assert refusal(zygote, code) == "OSError"


@pytest.mark.parametrize(
    "start",
    [
        "os.fork()",
        "subprocess.run(['/usr/bin/true'])",
        "os.posix_spawn('/usr/bin/true', ['true'], {})",
        "os.execv('/usr/bin/true', ['true'])",
    ],
)
def test_a_runner_starts_no_process(zygote: Zygote, start: str) -> None:
    assert refusal(zygote, f"import os, subprocess; {start}") == "PermissionError"


@pytest.mark.parametrize("flags", list(CLONE_FLAGS))
def test_a_runner_clones_threads_only(zygote: Zygote, flags: str) -> None:
    code = SYSCALL + f"syscall({NUMBERS['clone']}, {CLONE_FLAGS[flags]}, 0, 0, 0, 0)"
    assert refusal(zygote, code) == "PermissionError"


def test_a_builder_makes_no_namespace_by_cloning(zygote: Zygote) -> None:
    for flag in (0x1000_0000, 0x2_0000, 0x2000_0000, 0x4000_0000, 0x0800_0000):
        code = SYSCALL + f"syscall({NUMBERS['clone']}, {flag | SIGCHLD}, 0, 0, 0, 0)"
        assert refusal(zygote, code, "builder") == "PermissionError"


def test_threads_work(zygote: Zygote) -> None:
    code = """
    import threading, numpy as np
    results = []
    def work(i): results.append(int((np.eye(200) @ np.eye(200)).sum()) + i)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()
    print(sorted(results))
    """
    assert run(zygote, code).last == str([200 + i for i in range(8)])


@pytest.mark.parametrize("role", ROLES)
def test_no_other_process_can_be_signalled(zygote: Zygote, role: str) -> None:
    for pid in (os.getpid(), os.getppid(), 2, -1 if role == "runner" else os.getpid()):
        assert refusal(zygote, f"import os; os.kill({pid}, 0)", role) in {"PermissionError", "ProcessLookupError"}


def test_a_runner_cannot_take_back_that_it_is_to_stop(zygote: Zygote) -> None:
    for wake in ("os.kill(os.getpid(), signal.SIGCONT)", "signal.pthread_kill(threading.get_ident(), signal.SIGCONT)"):
        assert refusal(zygote, f"import os, signal, threading; {wake}") == "PermissionError"
    assert run(zygote, "import os, signal; os.kill(os.getpid(), signal.SIGCHLD); print('sent')").last == "sent"


def test_a_process_sees_itself_alone(zygote: Zygote) -> None:
    assert run(zygote, "import os; print(os.getpid(), os.getppid(), os.getpgid(0))").last == "1 0 1"


def test_a_runner_may_end_itself_by_signal(zygote: Zygote) -> None:
    assert run(zygote, "import os; os.kill(os.getpid(), 9)").status.signal is None  # the init of a pid namespace
    ended = run(zygote, "import os; os.abort()").status
    assert ended.code is None
    assert ended.signal_name in {"SIGABRT", "SIGSEGV"}


@pytest.mark.parametrize("option", [(1, 0), (4, 1), (22, 0), (36, 1), (23, 0), (8, 1), (0x59616D61, -1)])
def test_a_runner_cannot_undo_its_process_settings(zygote: Zygote, option: tuple[int, int]) -> None:
    code = SYSCALL + f"syscall({NUMBERS['prctl']}, {option[0]}, {option[1]}, 0, 0, 0)"
    assert refusal(zygote, code) == "PermissionError"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the 32-bit gate is x86's")
def test_the_32_bit_gate_is_deadly(zygote: Zygote) -> None:
    # mov eax, 20 (getpid); int 0x80; ret
    code = """
    import ctypes, mmap
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    print("survived")
    """
    outcome = run(zygote, code)
    assert "survived" not in outcome.text
    assert outcome.status.signal_name == "SIGSYS"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 is x86's")
def test_the_x32_numbers_are_not_there(zygote: Zygote) -> None:
    code = SYSCALL + f"syscall({0x4000_0000 + NUMBERS['getpid']})"
    assert refusal(zygote, code, "builder") == "OSError"


def test_a_builder_starts_programs_and_leaves_no_process_behind(zygote: Zygote) -> None:
    code = """
    import os, subprocess
    print(subprocess.run(["/usr/bin/env"], env={"A": "b"}, capture_output=True, text=True).stdout.strip())
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/usr/bin/sleep", ["sleep", "1000"])
        os._exit(0)
    os.wait()
    """
    # The sleeper holds the log's other end: reading to the end of it ends only because the kernel kills the sleeper.
    assert run(zygote, code, "builder").text == "A=b\n"


def test_a_memory_file_cannot_be_executed_by_a_runner(zygote: Zygote) -> None:
    assert refusal(zygote, "import os; os.memfd_create('x')") == "PermissionError"
    assert refusal(zygote, "import os; os.execve(fds['tool'], ['true'], {})", fds={"tool": 0}) == "PermissionError"
