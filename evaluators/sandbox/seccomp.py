"""The seccomp layer: which system calls a runner and a builder may make. Deny by default.

An allow-list, because the kernel grows calls faster than anybody reviews them. It holds what NumPy, OpenMP, C++ threads
and CPython need in a process that has nothing but its descriptors; the builder's adds what compilers need.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import signal

from evaluators.sandbox import kernel, syscalls
from evaluators.sandbox.bpf import ALLOW, Decision, Guarded, Match, compile_program, refuse
from evaluators.sandbox.limits import Role

_AUDIT_ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_SET_MODE_FILTER = 1
_FLAG_SPEC_ALLOW = 4
"""Before Linux 5.16 a filter also switched speculation features off, and what we time would run slower than at home."""

_DENIED = refuse(errno.EPERM)
_ABSENT = refuse(errno.ENOSYS)
"""For calls whose absence the C library handles by falling back to an older one that the filter can look into."""

# What glibc's pthread_create passes: VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS, PARENT_SETTID, CHILD_CLEARTID.
_THREAD_FLAGS = 0x003D_0F00
_CLONE_DETACHED = 0x0040_0000
_NAMESPACE_FLAGS = (
    kernel.CLONE_NEWNS
    | kernel.CLONE_NEWCGROUP
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
)
_PRCTL_ALLOWED = (15, 16, 0x5356_4D41)  # SET_NAME, GET_NAME, SET_VMA
_IOCTL_ALLOWED = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_FCNTL_ALLOWED = (0, 1, 2, 3, 4, 1030, 1034)  # DUPFD, GETFD, SETFD, GETFL, SETFL, DUPFD_CLOEXEC, GET_SEALS

# NORMAL to DONTNEED, FREE, DONTFORK, DOFORK, HUGEPAGE, NOHUGEPAGE, DONTDUMP to KEEPONFORK, POPULATE_READ and _WRITE.
# Not COLLAPSE, PAGEOUT, COLD, MERGEABLE: they change where the judge's shared pages lie, for the opponent too.
_MADVISE_ALLOWED = (0, 1, 2, 3, 4, 8, 10, 11, 14, 15, 16, 17, 18, 19, 22, 23)

_COMMON = """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 close close_range dup dup2 dup3
    open openat readlink readlinkat access faccessat faccessat2 stat lstat fstat newfstatat statx getcwd chdir fchdir
    getdents getdents64 lseek
    mmap munmap mprotect mremap brk msync mincore
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack pause
    poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
    eventfd eventfd2 pipe pipe2
    futex futex_waitv get_robust_list set_robust_list set_tid_address rseq membarrier restart_syscall
    gettid getpid getppid getuid geteuid getgid getegid getresuid getresgid getgroups getpgrp getpgid getsid
    uname sysinfo times getrusage getrlimit setrlimit getcpu getrandom arch_prctl mseal
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time getitimer setitimer alarm
    sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min
    getpriority exit exit_group
"""

_CHANNEL = "recvfrom recvmsg shutdown getsockopt getsockname getpeername"
"""On sockets the judge passed: no call that makes, connects, names or changes one (``setsockopt`` would put filter
programs into the kernel, which run when the judge sends). ``sendto`` only without an address."""

_GPU = """
    memfd_create get_mempolicy set_mempolicy mbind ftruncate sched_setaffinity setsockopt bind listen accept
    accept4 unlink
"""
"""What CUDA calls besides. It refuses to start unless it may listen on a unix socket: nobody can connect to one, since
``connect`` is not allowed, and no file system here takes one."""
_UNIX_SOCKETS = 1
_DRIVER_REQUESTS = ([Match(1, 0x4600, 0xFF00)], [Match(1, 0, 0xFFFF_FF00)])
"""Control requests of type 'F' (the NVIDIA driver's), and small bare numbers (its unified memory's)."""
_UVM_REQUESTS = (0x3000_0001, 0x3000_0002)

_INSPECTING = "connect sendto sendmsg sendmmsg recvmmsg fcntl prctl"
"""What NVIDIA's profilers and sanitizers call besides: one process of theirs talks to the other over TCP. They may
reach nobody else, for the network namespace has nothing but a loopback interface."""
_INTERNET_SOCKETS, _NETLINK_SOCKETS = 2, 16

_BUILDING = """
    fork vfork execve execveat wait4 waitid kill tkill tgkill setpgid setsid umask
    creat rename renameat renameat2 unlink unlinkat mkdir mkdirat rmdir link linkat symlink symlinkat mknod mknodat
    chmod fchmod fchmodat fchmodat2 utime utimes utimensat futimesat truncate ftruncate fallocate
    fadvise64 readahead fsync fdatasync sync_file_range flock statfs fstatfs copy_file_range sendfile splice
    setuid setgid setresuid setresgid
"""
"""Changing user among its own gains a process without capabilities nothing; GNU make does it before each command."""


def instructions(
    role: Role, own_pid: int, machine: str | None = None, *, gpu: bool = False, inspected: bool = False
) -> bytes:
    """The filter of a role.

    Args:
        role: what the process is.
        own_pid: its number as it sees itself: the only process a runner may signal, and whose limits anyone may set.
        machine: as ``platform.machine()`` says; this one by default.
        gpu: whether it talks to an NVIDIA driver.
        inspected: whether it runs under a profiler or a sanitizer, which is a process of its own beside it.
    """
    machine = machine or platform.machine()
    table = syscalls.numbers(machine)
    decisions: dict[str, Decision] = dict.fromkeys([*_COMMON.split(), *_CHANNEL.split()], ALLOW)
    decisions |= _guarded(own_pid)
    if role == "builder":
        decisions |= dict.fromkeys(_BUILDING.split(), ALLOW)
        decisions["clone"] = _when([Match(0, 0, _NAMESPACE_FLAGS)])
    if gpu:
        decisions |= dict.fromkeys(_GPU.split(), ALLOW)
        decisions["socket"] = _when([Match(0, _UNIX_SOCKETS)])
        requests = [[Match(1, request)] for request in (*_IOCTL_ALLOWED, *_UVM_REQUESTS)]
        if inspected:
            decisions |= dict.fromkeys(_INSPECTING.split(), ALLOW)
            kinds = (_UNIX_SOCKETS, _INTERNET_SOCKETS, _NETLINK_SOCKETS)
            decisions["socket"] = _when(*([Match(0, kind)] for kind in kinds))
        decisions["ioctl"] = _when(*requests, *_DRIVER_REQUESTS, otherwise=refuse(errno.ENOTTY))
    return compile_program(
        _AUDIT_ARCH[machine],
        {table[name]: decision for name, decision in decisions.items() if name in table},
        default=_DENIED,
        beyond=(syscalls.HIGHEST + 1, _ABSENT),  # on x86_64 this covers the x32 convention too
    )


class Program:
    """A filter laid out in memory as the kernel wants it, so that a child has nothing to prepare."""

    def __init__(self, instructions: bytes) -> None:
        self._code = ctypes.create_string_buffer(instructions, len(instructions))
        length = (len(instructions) // 8).to_bytes(8, "little")
        self._descriptor = ctypes.create_string_buffer(length + ctypes.addressof(self._code).to_bytes(8, "little"), 16)

    def install(self) -> None:
        """Close the filter over this process for good. Needs no_new_privs.

        Raises:
            OSError: the kernel has no seccomp filters, or somebody forbids them.
        """
        kernel.call("seccomp", _SET_MODE_FILTER, _FLAG_SPEC_ALLOW, self._descriptor)


def _guarded(own_pid: int) -> dict[str, Decision]:
    itself = [Match(0, own_pid)]
    return {
        "clone": _when([Match(0, _THREAD_FLAGS, 0xFFFF_FFFF & ~_CLONE_DETACHED)]),
        "clone3": _ABSENT,  # its flags lie in memory, where a filter cannot look
        "openat2": _ABSENT,
        # No SIGCONT: a thread on its way to be stopped would take back, for all of them, that they are to stop.
        "kill": _when([*itself, Match(1, signal.SIGCONT, unlike=True)]),
        "tgkill": _when([*itself, Match(2, signal.SIGCONT, unlike=True)]),
        "prlimit64": _when([Match(0, 0)], itself),
        "prctl": _when(*([Match(0, option)] for option in _PRCTL_ALLOWED)),
        "ioctl": _when(*([Match(1, request)] for request in _IOCTL_ALLOWED), otherwise=refuse(errno.ENOTTY)),
        "madvise": _when(*([Match(2, advice)] for advice in _MADVISE_ALLOWED)),
        "fcntl": _when(*([Match(1, command)] for command in _FCNTL_ALLOWED)),
        "sendto": _when([Match(4, 0, 0xFFFF_FFFF_FFFF_FFFF, wide=True)]),
    }


def _when(*alternatives: list[Match], otherwise: int = _DENIED) -> Guarded:
    return Guarded(tuple(tuple(tests) for tests in alternatives), otherwise)
