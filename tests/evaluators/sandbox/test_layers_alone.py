"""Each layer holds without the others: with all else switched off, what it is there for is still refused."""

from __future__ import annotations

import ctypes
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluators.errors import SandboxError
from evaluators.sandbox.report import LayerName
from evaluators.zygote.client import ChildLimits, Zygote
from tests.evaluators.sandbox_support import PRELOAD, SYSCALL, folder, refusal, run


@contextmanager
def only(scratch: Path, *layers: LayerName) -> Iterator[Zygote]:
    """A zygote with these layers and no other; skips where the host does not have them."""
    others = frozenset(LayerName) - frozenset(layers) - {LayerName.USER_NAMESPACE}
    with Zygote(minimum="none", scratch=scratch, preload=PRELOAD, without=others) as zygote:
        for layer in zygote.layers.missing():
            if layer.name in layers:
                pytest.skip(f"{layer.name}: {layer.detail}")
        yield zygote


@pytest.fixture
def box(tmp_path: Path) -> Path:
    return folder(tmp_path, "scratch")


def test_without_any_layer_everything_goes(box: Path, tmp_path: Path) -> None:
    """So that the tests below cannot pass for want of anything to refuse."""
    (tmp_path / "secret").write_text("sk-secret")
    with only(box) as zygote:
        assert zygote.layers.level == "none"
        code = f"import os, socket; socket.socket(); os.fork() or os._exit(0); print(open('{tmp_path}/secret').read())"
        assert run(zygote, code).last == "sk-secret"


def test_below_the_minimum_it_refuses_in_one_line(box: Path) -> None:
    with pytest.raises(SandboxError, match="landlock") as caught:
        Zygote(minimum="full", scratch=box, preload=PRELOAD, without=frozenset({LayerName.LANDLOCK}))
    assert "\n" not in str(caught.value)
    left_out = frozenset({LayerName.PID_NAMESPACE, LayerName.MOUNT_NAMESPACE, LayerName.NETWORK_NAMESPACE})
    with Zygote(minimum="reduced", scratch=box, preload=PRELOAD, without=left_out) as zygote:
        assert zygote.layers.level == "reduced"
    with pytest.raises(SandboxError, match="seccomp"):
        Zygote(minimum="reduced", scratch=box, preload=PRELOAD, without=frozenset({LayerName.SECCOMP}))


def test_seccomp(box: Path) -> None:
    with only(box, LayerName.SECCOMP, LayerName.NO_NEW_PRIVILEGES) as zygote:
        for attempt in ("socket.socket()", "os.fork()", "os.kill(1, 0)", "os.chmod('/tmp', 0o777)"):
            assert refusal(zygote, f"import os, socket; {attempt}") == "PermissionError"
        # Without a pid namespace a process has a number that the filter cannot know beforehand: it is made for it.
        assert run(zygote, "import os; os.kill(os.getpid(), 15)").status.signal_name == "SIGTERM"
        assert run(zygote, "import os; os.abort()").status.signal_name == "SIGABRT"


def test_landlock(box: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("sk-secret")
    mine = folder(box, "mine", data="mine")
    with only(box, LayerName.LANDLOCK, LayerName.NO_NEW_PRIVILEGES) as zygote:
        assert run(zygote, f"print(open('{mine}/data').read())", readable=(mine,)).last == "mine"
        for path in (f"{tmp_path}/secret", "/etc/passwd", "/proc/self/environ"):
            assert refusal(zygote, f"open('{path}')", readable=(mine,)) == "PermissionError"
        for path in (f"{mine}/data", f"{mine}/new", f"{box}/new", f"/tmp/{box.name}-new", f"/dev/shm/{box.name}-new"):
            assert refusal(zygote, f"open('{path}', 'w')", readable=(mine,)) == "PermissionError"
        assert refusal(zygote, "import os; os.kill(os.getppid(), 0)") == "PermissionError"
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            code = f"import socket; socket.create_connection(('127.0.0.1', {port}))"
            assert refusal(zygote, code) == "PermissionError"


def test_network_namespace(box: Path) -> None:
    with only(box, LayerName.NETWORK_NAMESPACE) as zygote, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert refusal(zygote, f"import socket; socket.create_connection(('127.0.0.1', {port}))") == "OSError"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0kernel-evolve-test-{port}")
            listener.listen()
            code = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0kernel-evolve-test-{port}')"
            assert refusal(zygote, code) == "ConnectionRefusedError"


def test_ipc_namespace(box: Path) -> None:
    private_key, make = 0, 0o1600
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(private_key, 4096, make)
    assert segment >= 0
    try:
        with only(box, LayerName.IPC_NAMESPACE) as zygote:
            code = SYSCALL + f"libc.shmat.restype = ctypes.c_long; print(libc.shmat({segment}, None, 0))"
            assert run(zygote, code).last == "-1"
    finally:
        libc.shmctl(segment, 0, None)


def test_pid_namespace(box: Path) -> None:
    with only(box, LayerName.PID_NAMESPACE) as zygote:
        assert refusal(zygote, f"import os; os.kill({os.getpid()}, 0)") == "ProcessLookupError"
        # Only the kernel's end of the namespace closes the log: the sleeper has left session and parents behind.
        code = """
        import os
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv("/usr/bin/sleep", ["sleep", "1000"])
            os._exit(0)
        os.wait(); print("started")
        """
        assert run(zygote, code, "builder").text == "started\n"


def test_mount_namespace(box: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("sk-secret")
    other = folder(box, "other", data="another's")
    with only(box, LayerName.MOUNT_NAMESPACE) as zygote:
        assert refusal(zygote, f"open('{tmp_path}/secret')") == "FileNotFoundError"
        assert refusal(zygote, "open('/proc/self/environ')") == "FileNotFoundError"
        assert refusal(zygote, "open('/usr/new', 'w')") == "OSError"
        assert refusal(zygote, f"open('{other}/data')", "builder") == "FileNotFoundError"


def test_other_user(box: Path) -> None:
    box.chmod(0o700)
    # The mount namespace is there only to make a Python below /root reachable for others.
    with only(box, LayerName.OTHER_USER, LayerName.MOUNT_NAMESPACE) as zygote:
        work = folder(box, "work", data="mine")
        (box / "closed").write_text("the judge's")
        (box / "closed").chmod(0o600)
        assert refusal(zygote, f"open('{box}/closed')") == "PermissionError"
        made = f"open('{work}/made', 'w').write('x'); import os; print(os.getuid(), os.getgroups())"
        first, groups = run(zygote, made, "builder", writable=(work,)).last.split(maxsplit=1)
        assert (int(first), groups) == ((work / "made").stat().st_uid, "[]")
        second = run(zygote, "import os; print(os.getuid())", "builder").last
        assert len({first, second, "0"}) == 3
        assert stat.S_IMODE(box.stat().st_mode) == 0o710  # passable for the children's group, closed to all others


def test_resource_limits(box: Path) -> None:
    limits = ChildLimits(memory_bytes=64 << 20, cpu_s=1, file_bytes=0, processes=0)
    with only(box, LayerName.RESOURCE_LIMITS) as zygote:
        code = "try:\n    bytearray(256 << 20)\nexcept MemoryError:\n    print('refused')"
        assert run(zygote, code, limits=limits).last == "refused"
        assert run(zygote, "while True: pass", limits=limits).status.signal_name in {"SIGKILL", "SIGXCPU"}
        assert refusal(zygote, f"open('{box}/new', 'w').write('x' * 9999)", limits=limits) == "OSError"


def test_memory_cgroup(box: Path) -> None:
    limits = ChildLimits(memory_bytes=64 << 20, cpu_s=20, file_bytes=0, processes=0)
    with only(box, LayerName.MEMORY_CGROUP) as zygote:
        ended = run(zygote, "kept = b'x' * (512 << 20)", limits=limits).status
        assert (ended.signal_name, ended.out_of_memory) == ("SIGKILL", True)
        assert not run(zygote, "pass", limits=limits).status.out_of_memory


def test_pids_cgroup(box: Path) -> None:
    limits = ChildLimits(memory_bytes=64 << 20, cpu_s=20, file_bytes=0, processes=4)
    code = """
    import os, signal
    children = []
    try:
        for _ in range(100):
            children.append(os.fork())
            if children[-1] == 0:
                while True: signal.pause()
    except OSError:
        print(len(children))
    for child in children: os.kill(child, 9)
    """
    with only(box, LayerName.PIDS_CGROUP) as zygote:
        assert run(zygote, code, "builder", limits=limits).last == "4"


def test_without_a_pid_namespace_strays_are_ended_all_the_same(box: Path) -> None:
    """The log is read to its end, which comes only when the last holder of it is gone."""
    code = """
    import os, signal
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True: signal.pause()
        os._exit(0)
    os.wait(); print("started")
    """
    with only(box) as zygote:  # they are children of the subreaper
        assert run(zygote, code, "builder").text == "started\n"
    with only(box, LayerName.OTHER_USER, LayerName.MOUNT_NAMESPACE) as zygote:  # they are of the child's own user
        assert run(zygote, code, "builder").text == "started\n"


def test_user_change_is_dropped_where_it_would_lock_python_away(box: Path) -> None:
    """Without a root of its own a child cannot reach a Python below a closed home; the report says why."""
    without = frozenset({LayerName.MOUNT_NAMESPACE})
    with Zygote(minimum="none", scratch=box, preload=PRELOAD, without=without) as zygote:
        layer = next(layer for layer in zygote.layers.layers if layer.name is LayerName.OTHER_USER)
        assert layer.active or "out of reach" in layer.detail
        assert run(zygote, "import colorsys; print('imported')").last == "imported"
