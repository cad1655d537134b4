"""Resources: bombs go off inside, and what a child was not given it does not have."""

from __future__ import annotations

import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from evaluators.sandbox.report import LayerName
from evaluators.zygote.client import ChildLimits, Zygote
from tests.evaluators.sandbox_support import folder, refusal, run

LIMITS = ChildLimits(memory_bytes=128 << 20, cpu_s=20, file_bytes=0, processes=0)


def test_private_memory_ends_in_a_memory_error(zygote: Zygote) -> None:
    code = "import numpy as np\ntry:\n    np.ones(1 << 28)\nexcept MemoryError:\n    print('refused')"
    assert run(zygote, code, limits=LIMITS).last == "refused"


def test_what_is_within_the_limit_can_be_had(zygote: Zygote) -> None:
    code = "import numpy as np\nprint(int(np.ones(100 << 17).sum()))"
    assert run(zygote, code, limits=LIMITS).last == str(100 << 17)


def test_shared_memory_is_bounded_too(zygote: Zygote) -> None:
    if not zygote.layers.active(LayerName.MEMORY_CGROUP):
        pytest.skip("no memory cgroup on this host")
    code = """
    import mmap
    kept = []
    while True:
        kept.append(mmap.mmap(-1, 16 << 20))
        kept[-1].write(b"x" * (16 << 20))
    """
    ended = run(zygote, code, limits=replace(LIMITS, memory_bytes=64 << 20)).status
    assert ended.signal_name == "SIGKILL"
    assert ended.out_of_memory
    assert ended.max_rss_bytes < 400 << 20


def test_processor_time_ends_in_a_kill(zygote: Zygote) -> None:
    ended = run(zygote, "while True: pass", limits=replace(LIMITS, cpu_s=1)).status
    assert ended.signal_name == "SIGKILL"
    assert 0.5 < ended.cpu_s < 5
    assert not ended.out_of_memory


def test_a_runner_writes_no_byte_to_a_file(zygote: Zygote, tmp_path: Path) -> None:
    target = tmp_path / "open"
    with target.open("w") as file:
        assert refusal(zygote, "import os; os.write(fds['file'], b'x')", fds={"file": file.fileno()}) == "OSError"
        assert refusal(zygote, "import os; os.ftruncate(fds['file'], 100)", fds={"file": file.fileno()}) != "DONE"
    assert target.read_bytes() == b""


def test_a_builder_s_files_are_bounded(zygote: Zygote, scratch: Path) -> None:
    work = folder(scratch, "large")
    code = f"open('{work}/large', 'wb').write(b'x' * (1 << 20))"
    limits = ChildLimits(memory_bytes=128 << 20, cpu_s=20, file_bytes=4096, processes=4)
    assert refusal(zygote, code, "builder", writable=(work,), limits=limits) == "OSError"
    assert (work / "large").stat().st_size <= 4096


def test_a_fork_bomb_stays_small_and_ends_with_its_builder(zygote: Zygote) -> None:
    code = """
    import os, signal
    started = 0
    while True:
        try:
            if os.fork() == 0:
                while True: signal.pause()
        except OSError as error:
            break
        started += 1
    print(started)
    """
    limits = ChildLimits(memory_bytes=128 << 20, cpu_s=20, file_bytes=0, processes=8)
    assert int(run(zygote, code, "builder", limits=limits).last) <= 8
    assert run(zygote, "print('the next one')", "builder", limits=limits).last == "the next one"


def test_threads_are_bounded(zygote: Zygote) -> None:
    # Not threading.Thread: its start() waits for ever for a thread that found no memory for its first step.
    code = """
    import _thread, threading
    threading.stack_size(65536)
    gate, started = threading.Event(), 0
    try:
        while True:
            _thread.start_new_thread(gate.wait, ())
            started += 1
    except (RuntimeError, MemoryError):
        print("started", started)
    """
    said = run(zygote, code).text
    (started,) = (int(line.split()[1]) for line in said.splitlines() if line.startswith("started "))
    assert 64 <= started <= 512


def test_descriptors_are_bounded(zygote: Zygote) -> None:
    assert refusal(zygote, "import os\nwhile True: os.dup(0)") == "OSError"


def test_limits_cannot_be_raised(zygote: Zygote) -> None:
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        code = f"import resource; resource.setrlimit({kind}, (-1, -1))"
        wrapped = f"try:\n    {code}\nexcept ValueError as error:\n    raise OSError from error"
        assert refusal(zygote, wrapped) == "OSError"


def test_a_runner_stays_on_its_processors(zygote: Zygote) -> None:
    cpu = min(os.sched_getaffinity(0))
    code = "import os; print(sorted(os.sched_getaffinity(0)))"
    assert run(zygote, code, cpus=frozenset({cpu})).last == f"[{cpu}]"
    move = f"import os; os.sched_setaffinity(0, {set(os.sched_getaffinity(0))})"
    assert refusal(zygote, move, cpus=frozenset({cpu})) == "PermissionError"


def test_what_is_to_give_way_to_others_cannot_stop_doing_so(zygote: Zygote) -> None:
    code = "import os; print(os.sched_getparam(0).sched_priority, os.getpriority(os.PRIO_PROCESS, 0))"
    assert run(zygote, code, nice=15).last == "0 15"
    assert refusal(zygote, "import os; os.nice(-15)", nice=15) == "PermissionError"


def test_only_passed_descriptors_exist(zygote: Zygote, tmp_path: Path) -> None:
    (tmp_path / "passed").write_text("content")
    with (tmp_path / "passed").open() as file:
        code = """
        import os
        def is_open(fd):
            try:
                os.fstat(fd)
            except OSError:
                return False
            return True
        print([fd for fd in range(4096) if is_open(fd)] == [0, 1, 2, fds["file"]], os.read(fds["file"], 100))
        """
        assert run(zygote, code, fds={"file": file.fileno()}).last == "True b'content'"
    assert run(zygote, "import sys; print(repr(sys.stdin.read()))").last == "''"
