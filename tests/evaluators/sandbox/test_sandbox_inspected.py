"""The box of a profiler: its two processes may talk over the loopback interface, and reach nobody else."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluators.errors import JudgeError, SandboxError
from evaluators.sandbox.report import LayerName
from evaluators.zygote.client import Zygote
from tests.evaluators.sandbox_support import PRELOAD, refusal, run

TALK = """
import os, socket
listener = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    socket.create_connection(listener.getsockname()).sendall(b"counters")
    os._exit(0)
other, _ = listener.accept()
print(other.recv(100))
"""


@pytest.fixture(scope="module")
def gpu_zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    try:
        zygote = Zygote(
            minimum="full", scratch=tmp_path_factory.mktemp("scratch"), preload=PRELOAD, devices=(Path("/dev/zero"),)
        )
    except SandboxError as error:
        pytest.skip(str(error))
    with zygote:
        yield zygote


def test_its_processes_talk_to_each_other(gpu_zygote: Zygote) -> None:
    assert run(gpu_zygote, TALK, "builder", gpu=True, inspected=True).text == "b'counters'\n"


def test_it_reaches_no_server_of_the_host(gpu_zygote: Zygote) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=2)"
        found = refusal(gpu_zygote, code, "builder", gpu=True, inspected=True)
    assert found == "ConnectionRefusedError"


def test_it_reaches_no_other_machine(gpu_zygote: Zygote) -> None:
    code = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=2)"
    assert refusal(gpu_zygote, code, "builder", gpu=True, inspected=True) == "OSError"


@pytest.mark.parametrize("kind", ["socket.AF_PACKET, socket.SOCK_RAW", "socket.AF_VSOCK, socket.SOCK_STREAM"])
def test_it_gets_no_other_sockets(gpu_zygote: Zygote, kind: str) -> None:
    code = f"import socket; socket.socket({kind})"
    assert refusal(gpu_zygote, code, "builder", gpu=True, inspected=True) == "PermissionError"


@pytest.mark.parametrize("role", ["runner", "builder"])
def test_others_with_the_gpu_get_no_sockets_over_which_to_talk(gpu_zygote: Zygote, role: str) -> None:
    code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM)"
    assert refusal(gpu_zygote, code, role, gpu=True) == "PermissionError"


@pytest.mark.parametrize(("role", "gpu"), [("runner", True), ("builder", False)])
def test_only_a_builder_with_a_gpu_is_inspected(gpu_zygote: Zygote, role: str, gpu: bool) -> None:
    with pytest.raises(JudgeError, match="only a builder with a GPU"):
        run(gpu_zygote, "", role, gpu=gpu, inspected=True)


def test_without_a_root_of_its_own_nothing_is_inspected(tmp_path: Path) -> None:
    """A program there may connect sockets, and those of the host's files would be in reach."""
    without = frozenset({LayerName.MOUNT_NAMESPACE})
    with (
        Zygote(
            minimum="none", scratch=tmp_path, preload=PRELOAD, devices=(Path("/dev/zero"),), without=without
        ) as zygote,
        pytest.raises(JudgeError, match="nothing runs under a profiler without"),
    ):
        run(zygote, "", "builder", gpu=True, inspected=True)
