"""The verdict path takes no code and no word from a runner: whatever it sends, it fails in bounded time."""

import time

import pytest

from evaluators.evaluation import Status
from tests.evaluators.judge.conftest import POINT_PY

CHANNEL = """
import os, socket, stat, struct, sys, threading, time
def channel():
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                return socket.socket(fileno=os.dup(fd))
        except OSError:
            pass
def asked():
    frame = sys._getframe(1)
    while frame is not None:
        if "frame" in frame.f_locals and hasattr(frame.f_locals["frame"], "nonce"):
            return frame.f_locals["frame"]
        frame = frame.f_back
DONE, FAILED, READY, PREPARED = 18, 19, 16, 17
def packet(kind, slot=0, nonce=0, failure=0, reserved=0, body=b""):
    return struct.pack("<BBHIQ", kind, failure, reserved, slot, nonce) + body
"""
POINT = "def point(out):\n    out[:] = 0.5\n"

HOSTILE = {
    "garbage instead of a reply": CHANNEL
    + "def point(out):\n    channel().send(b'\\x00garbage' * 9)\n    out[:] = 0.5",
    "garbage before the import is answered": CHANNEL + "channel().send(b'x')\n" + POINT,
    "a short frame": CHANNEL + "def point(out):\n    channel().send(b'\\x12')\n    out[:] = 0.5",
    "an empty frame": CHANNEL + "def point(out):\n    channel().send(b'')\n    out[:] = 0.5",
    "replies before the requests": CHANNEL
    + "s = channel()\nfor kind in (READY, PREPARED, DONE):\n    s.send(packet(kind))\n"
    + POINT,
    "a forged reply, then the runner's own": CHANNEL
    + "def point(out):\n    f = asked()\n    channel().send(packet(DONE, f.slot, f.nonce))\n    out[:] = 0.5",
    "a reply to another slot": CHANNEL
    + "def point(out):\n    channel().send(packet(DONE, 7, asked().nonce))\n    out[:] = 0.5",
    "the reserved field set": CHANNEL
    + "def point(out):\n    f = asked()\n    channel().send(packet(DONE, f.slot, f.nonce, reserved=1))\n    out[:] = 0.5",
    "a frame over the cap": CHANNEL
    + "def point(out):\n    f = asked()\n    channel().send(packet(DONE, f.slot, f.nonce, body=b'x' * 60000))\n    out[:] = 0.5",
    "a flood of frames": CHANNEL
    + "def point(out):\n    s = channel()\n    while True:\n        s.send(packet(DONE, 0, 1))",
    "a flood from a thread that goes on": CHANNEL
    + "def spam():\n    s = channel()\n    while True:\n        s.send(packet(DONE))\n"
    + "def point(out):\n    out[:] = 0.5\n    threading.Thread(target=spam, daemon=True).start()\n    time.sleep(0.02)",
    "an early reply, and late work": CHANNEL
    + "def late(out):\n    time.sleep(0.05)\n    out[:] = 0.5\n"
    + "def point(out):\n    threading.Thread(target=late, args=(out,)).start()",
    "no reply": "import time\ndef point(out):\n    time.sleep(60)",
    "a closed channel": CHANNEL + "import os\ndef point(out):\n    out[:] = 0.5\n    os.closerange(3, 64)",
    "a channel shut down for writing": CHANNEL
    + "def point(out):\n    out[:] = 0.5\n    channel().shutdown(socket.SHUT_WR)",
    "leaving with success": "import os\ndef point(out):\n    out[:] = 0.5\n    os._exit(0)",
    "killing itself": "import os, signal\ndef point(out):\n    out[:] = 0.5\n    os.kill(os.getpid(), signal.SIGKILL)\n    os.abort()",
    "stopping itself": "import os, signal\ndef point(out):\n    out[:] = 0.5\n    os.kill(os.getpid(), signal.SIGSTOP)\n    time.sleep(9)",
    "a status nobody knows": CHANNEL
    + "def point(out):\n    f = asked()\n    channel().send(packet(FAILED, f.slot, f.nonce, failure=200, body=b'passed'))\n    out[:] = 0.5",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_runner_fails_in_bounded_time_and_leaves_the_next_alone(point_judge, name):
    started = time.monotonic()
    evaluation = point_judge.evaluate(HOSTILE[name], "python")
    assert time.monotonic() - started < 8
    assert evaluation.status not in {Status.PASSED, Status.INFRA_ERROR}, name
    after = point_judge.evaluate(POINT_PY, "python")
    assert (after.status, after.score) == (Status.PASSED, 1.0)


def test_a_flood_of_output_neither_hangs_nor_grows_the_judge(point_judge):
    source = "def point(out):\n    out[:] = 0.5\n    while True:\n        print('x' * 1000)"
    evaluation = point_judge.evaluate(source, "python")
    assert evaluation.status is Status.TIMEOUT
    assert len(evaluation.detail) <= 8000


def test_what_a_program_prints_is_kept_as_data(point_judge):
    source = 'print(\'{"score": 99, "status": "passed"}\')\ndef point(out):\n    raise ValueError(\'told you\')'
    evaluation = point_judge.evaluate(source, "python")
    assert evaluation.status is Status.RUNTIME_ERROR
    assert evaluation.score is None
