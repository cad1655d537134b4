"""The judge's handle on a child: how it starts, stops, goes on and ends."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluators.errors import JudgeError, SandboxError
from evaluators.sandbox import syscalls
from evaluators.zygote.client import SpawnRequest, Zygote
from tests.evaluators.sandbox_support import PATIENCE_S, PRELOAD, request, run, zygotes_of_this_process

SABOTAGE = "tests.evaluators.zygote.sabotage"


def threads_of(pid: int) -> dict[str, str]:
    states = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        stat = Path(f"/proc/{pid}/task/{task}/stat").read_text(errors="replace")
        states[task] = stat[stat.rindex(")") + 2]
    return states


def test_stop_returns_when_every_thread_is_stopped(zygote: Zygote) -> None:
    code = """
    import ctypes, threading, socket
    ctypes.CDLL(None).prctl(15, b"x) R 1 T (", 0, 0, 0)  # a name made to mislead who reads /proc
    def spin():
        while True: pass
    def spawn():
        while True:
            thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
    for target in (spin, spin, spawn, spawn): threading.Thread(target=target, daemon=True).start()
    channel = socket.socket(fileno=fds["channel"])
    while True: channel.send(channel.recv(1))
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, zygote.spawn(request(code, fds={"channel": theirs.fileno()})) as child:
        ours.settimeout(PATIENCE_S)
        for turn in (b"1", b"2", b"3"):
            ours.send(turn)
            assert ours.recv(1) == turn
            assert 0 <= child.stop(PATIENCE_S) <= child.waited_ns(), "what they wait to stop is not among it"
            states = threads_of(child.pid)
            assert len(states) >= 3
            assert set(states.values()) == {"T"}
            used = child.used_ns()
            assert used > 0
            ours.send(b"x")
            assert not select.select([ours], [], [], 0.05)[0]
            assert threads_of(child.pid) == states
            assert child.used_ns() == used
            child.resume()
            assert ours.recv(1) == b"x"


def test_a_process_whose_first_thread_left_is_stopped_like_any_other(zygote: Zygote) -> None:
    code = f"""
    import ctypes, threading, socket
    channel = socket.socket(fileno=fds["channel"])
    def spin():
        channel.send(b"1")
        while True: pass
    threading.Thread(target=spin).start()
    ctypes.CDLL(None).syscall({syscalls.here()["exit"]}, 0)
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, zygote.spawn(request(code, fds={"channel": theirs.fileno()})) as child:
        ours.settimeout(PATIENCE_S)
        assert ours.recv(1) == b"1"
        while threads_of(child.pid)[str(child.pid)] != "Z":
            assert child.wait(0) is None
        child.stop(PATIENCE_S)
        used = child.used_ns()
        assert sorted(threads_of(child.pid).values()) == ["T", "Z"]
        assert not select.select([ours], [], [], 0.05)[0]
        assert child.used_ns() == used > 0
        child.resume()
        while child.used_ns() == used:
            assert child.wait(0) is None


def test_stop_of_an_ended_child_returns(zygote: Zygote) -> None:
    with zygote.spawn(request("pass")) as child:
        assert child.wait(PATIENCE_S) is not None
        child.stop(1)
        child.resume()
        child.kill()


def test_a_stopped_child_can_be_killed(zygote: Zygote) -> None:
    with zygote.spawn(request("while True: pass")) as child:
        child.stop(PATIENCE_S)
        assert child.wait(0) is None
        child.kill()
        status = child.wait(PATIENCE_S)
        assert status is not None
        assert (status.code, status.signal_name) == (None, "SIGKILL")


def test_neither_sigterm_nor_closed_streams_save_a_child(zygote: Zygote) -> None:
    code = """
    import os, signal
    for number in (1, 2, 15, 20): signal.signal(number, signal.SIG_IGN)
    os.close(1); os.close(2)
    while True: pass
    """
    with zygote.spawn(request(code)) as child:
        text, status = child.collect(0.05, 100)
        assert (text, status) == ("", None)
        child.kill()
        assert child.wait(PATIENCE_S) is not None


def test_the_pidfd_becomes_readable_at_the_end(zygote: Zygote) -> None:
    with zygote.spawn(request("while True: pass")) as child:
        assert os.readlink(f"/proc/{child.pid}/exe")
        poll = select.poll()
        poll.register(child.pidfd, select.POLLIN)
        assert poll.poll(0) == []
        signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
        assert poll.poll(PATIENCE_S * 1000)


@pytest.mark.parametrize(
    ("code", "exit_code", "last"),
    [
        ("print('fine')", 0, "fine"),
        ("raise SystemExit", 0, ""),
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('words')", 1, ""),
        ("raise ValueError('no good')", 1, "ValueError: no good"),
        ("import os; os._exit(0)", 0, ""),
        ("class E(BaseException): __str__ = None\nraise E", 1, "E: <exception str() failed>"),
    ],
)
def test_how_an_entry_ends(zygote: Zygote, code: str, exit_code: int, last: str) -> None:
    outcome = run(zygote, code)
    assert (outcome.status.code, outcome.status.signal) == (exit_code, None)
    assert outcome.last.endswith(last)


def test_a_crash_is_the_child_s_alone(zygote: Zygote) -> None:
    assert run(zygote, "import ctypes; ctypes.string_at(8)").status.signal_name == "SIGSEGV"
    assert run(zygote, "print('the next one')").last == "the next one"


def test_what_was_printed_before_a_kill_is_kept_and_capped(zygote: Zygote) -> None:
    with zygote.spawn(request("print('begin')\nwhile True: print('x' * 1000)")) as child:
        text, status = child.collect(0.2, 5000)
        assert status is None
        assert text.startswith("begin\nxxx")
        assert len(text) == 5000


def test_c_output_is_flushed(zygote: Zygote) -> None:
    assert run(zygote, "import ctypes; ctypes.CDLL(None).puts(b'from C')").last == "from C"


def test_the_payload_may_be_large(zygote: Zygote) -> None:
    code = "print(len(payload['source']))"
    assert run(zygote, code, payload={"code": code, "source": "é" * (1 << 20)}).last == str(1 << 20)


def test_many_threads_spawn_at_once(zygote: Zygote) -> None:
    def one(number: int) -> str:
        return run(zygote, f"print({number})").last

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(40))) == [str(n) for n in range(40)]


def test_the_environment_is_what_was_asked_for(zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    code = """
    import os, ctypes
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    print(sorted(os.environ), getenv(b"MY"))
    """
    outcome = run(zygote, code, environment={"MY": "own"})
    assert outcome.last == "['HOME', 'LANG', 'MY', 'PATH'] b'own'"
    assert run(zygote, "import os; print(sorted(os.environ))").last == "['HOME', 'LANG', 'PATH']"


def test_a_child_s_random_numbers_are_its_own(zygote: Zygote) -> None:
    code = "import random, uuid; print(random.random(), uuid.uuid4())"
    assert run(zygote, code).last != run(zygote, code).last


def test_the_order_of_sets_is_the_same_in_every_run(zygote: Zygote, tmp_path: Path) -> None:
    code = "print(list({'a', 'b', 'c', 'd'}), hash('x'))"
    with Zygote(minimum="none", scratch=tmp_path, preload=PRELOAD) as another:
        assert run(zygote, code).last == run(another, code).last


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entry": "json:loads"}, "has not preloaded 'json'"),
        ({"entry": "tests.evaluators.boxed:nothing"}, "no function 'nothing'"),
        ({"readable": (Path("/etc"),)}, "not in the scratch folder"),
        ({"writable": (Path("/etc"),)}, "runner may not write"),
        ({"python_packages": ("no_such_package",)}, "'no_such_package' is not installed"),
        ({"cpus": frozenset({4095})}, "Invalid argument"),
    ],
)
def test_a_request_that_cannot_be_met_is_the_judge_s_error(
    zygote: Zygote, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(JudgeError, match=words) as caught:
        zygote.spawn(request("print('ran')", **changes))
    assert "\n" not in str(caught.value)
    assert run(zygote, "print('the next one')").last == "the next one"


def test_a_missing_readable_path_is_the_judge_s_error(zygote: Zygote, scratch: Path) -> None:
    with pytest.raises(JudgeError, match="No such file"):
        zygote.spawn(request("print('ran')", readable=(scratch / "missing",)))


def test_a_link_out_of_scratch_cannot_be_granted(zygote: Zygote, scratch: Path) -> None:
    (scratch / "out").symlink_to("/usr")
    with pytest.raises(JudgeError, match="not in the scratch folder"):
        zygote.spawn(request("print('ran')", readable=(scratch / "out",)))


def test_a_layer_that_fails_in_one_child_fails_the_spawn(tmp_path: Path) -> None:
    """Never silently weaker: the entry does not run."""
    with Zygote(minimum="full", scratch=tmp_path, preload=(*PRELOAD, f"{SABOTAGE}.late")) as zygote:
        for layer in ("landlock", "seccomp", "other user", "resource limits"):
            with pytest.raises(JudgeError, match=layer):
                zygote.spawn(request("print('ran')", environment={"SABOTAGE": layer}))
        assert run(zygote, "print('ran')").last == "ran"


def test_a_layer_that_fails_in_the_rehearsal_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="landlock"):
        Zygote(minimum="full", scratch=tmp_path, preload=(*PRELOAD, f"{SABOTAGE}.early"))
    with Zygote(minimum="reduced", scratch=tmp_path, preload=(*PRELOAD, f"{SABOTAGE}.early")) as zygote:
        assert [str(layer.name) for layer in zygote.layers.missing() if "sabotage" in layer.detail] == ["landlock"]
        assert run(zygote, "print('ran')").last == "ran"


def test_a_module_that_cannot_be_preloaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="no_such_module"):
        Zygote(minimum="none", scratch=tmp_path, preload=("no_such_module",))


def test_a_zygote_that_dies_is_the_judge_s_error_and_not_a_hang(tmp_path: Path) -> None:
    others = zygotes_of_this_process()
    with Zygote(minimum="none", scratch=tmp_path, preload=PRELOAD) as zygote:
        child = zygote.spawn(request("while True: pass"))
        failures: list[JudgeError] = []

        def wait() -> None:
            try:
                child.wait(PATIENCE_S)
            except JudgeError as error:
                failures.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        os.kill((zygotes_of_this_process() - others).pop(), signal.SIGKILL)
        waiting.join(PATIENCE_S)
        assert len(failures) == 1
        with pytest.raises(JudgeError, match="zygote is gone"):
            zygote.spawn(request("pass"))
        child.close()


def test_descriptors_do_not_leak_in_the_judge(zygote: Zygote) -> None:
    run(zygote, "pass")
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        run(zygote, "pass")
        with pytest.raises(JudgeError):
            zygote.spawn(SpawnRequest("runner", "no:where", request("pass").limits))
        with pytest.raises(JudgeError):
            zygote.spawn(request("pass", cpus=frozenset({4095})))
    assert len(os.listdir("/proc/self/fd")) == len(before)
