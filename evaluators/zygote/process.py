"""The zygote as an operating system process, seen from the judge: an exec'd interpreter that knows nothing secret."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import evaluators

_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from evaluators.zygote.server import main; main(int(sys.argv[2]))"
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    # A process forked while a thread pool exists hangs at its first parallel operation.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # The order of a set of strings is the same in every run: a verdict must not depend on it.
    "PYTHONHASHSEED": "0",
}
_WORDS_CAP = 4 << 10


class ZygoteProcess:
    """Starts when constructed. The calling thread must live as long as the process: see ``PR_SET_PDEATHSIG``."""

    def __init__(self, sock: socket.socket) -> None:
        """Start it with ``sock`` as its only descriptor, a clean environment and a session of its own.

        Raises:
            OSError: the interpreter could not be started.
        """
        self._words = os.memfd_create("zygote-stderr")
        root = str(Path(evaluators.__file__).resolve().parent.parent)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-P", "-c", _BOOT, root, str(sock.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._words,
                env=_ENVIRONMENT,
                cwd="/",
                pass_fds=(sock.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._words)
            raise

    def end(self, patience_s: float) -> str:
        """Wait for the end, kill when it does not come, and return the last line it wrote to standard error."""
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        size = os.fstat(self._words).st_size
        words = os.pread(self._words, _WORDS_CAP, max(size - _WORDS_CAP, 0)).decode(errors="replace").strip()
        os.close(self._words)
        return words.splitlines()[-1] if words else ""
