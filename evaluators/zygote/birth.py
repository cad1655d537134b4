"""What happens in a child between the fork and its entry, and after it. None of these functions returns."""

from __future__ import annotations

import gc
import json
import os
import sys
import sysconfig
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from evaluators.priority import lower_priority
from evaluators.sandbox import kernel
from evaluators.sandbox.box import Box
from evaluators.sandbox.report import LayerName
from evaluators.sandbox.states import LayerError
from evaluators.zygote.imports import Entry, GrantedPackages

_NOT_STARTED = 70
_ENTRY_FAILED = 1


@dataclass(frozen=True)
class Birth:
    """Everything a child needs to begin."""

    box: Box
    entry: Entry
    log: int
    """Becomes standard output and error."""
    ready: int
    """Where the child says that its sandbox is closed, or why it is not."""
    payload: int
    fds: Mapping[str, int]
    environment: Mapping[str, str]
    package_folders: Sequence[str]
    packages: Sequence[str]


def run_child(birth: Birth) -> NoReturn:
    """Close the sandbox, say so, call the entry, end. Whatever happens, the process ends here."""
    code = _NOT_STARTED
    try:
        payload = _begin(birth)
        if payload is not None:
            code = _call(birth.entry, payload, dict(birth.fds))
    finally:
        os._exit(code)


def run_rehearsal(box: Box, writer: int) -> NoReturn:
    """Close the sandbox and look whether what must be reachable is; write a line: empty, or the layer that failed."""
    try:
        try:
            box.close([writer])
            _check_reach(box)
        except LayerError as error:
            os.write(writer, f"{error.name}\t{error.reason}\n".encode())
        else:
            os.write(writer, b"\n")
    finally:
        os._exit(0)


def _begin(birth: Birth) -> dict[str, Any] | None:
    """Close the sandbox; the payload, or ``None`` once the judge has been told why not."""
    try:
        os.setpgid(0, 0)  # not a new session: the judge's priority may be its session's (sched_autogroup)
        if birth.box.request.role == "builder" and not birth.box.request.gpu:  # with a GPU it runs, and is timed
            lower_priority()
        _own_stdin()
        os.dup2(birth.log, 1)
        os.dup2(birth.log, 2)
        os.environ.update(birth.environment)
        payload: dict[str, Any] = json.loads(os.pread(birth.payload, os.fstat(birth.payload).st_size, 0))
        sys.meta_path.append(GrantedPackages(birth.package_folders, birth.packages))
        gc.enable()
        birth.box.close([birth.ready, *birth.fds.values()])
    except (LayerError, OSError, ValueError) as error:
        os.write(birth.ready, str(error).encode())
        return None
    os.write(birth.ready, b"\n")
    os.close(birth.ready)
    return payload


def _own_stdin() -> None:
    """Nothing to read, by a descriptor of its own: all that share one see its flags, which a child may set."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _call(entry: Entry, payload: dict[str, Any], fds: dict[str, int]) -> int:
    """Call the entry; the exit code. From here on this process may run a candidate's code: it is nobody's friend."""
    try:
        entry(payload, fds)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else _ENTRY_FAILED
    except BaseException:  # a candidate may raise anything
        traceback.print_exc()
        code = _ENTRY_FAILED
    sys.stdout.flush()
    kernel.flush_c_streams()  # what a compiled candidate printed
    return code & 0xFF


def _check_reach(box: Box) -> None:
    try:
        Path(sysconfig.get_path("stdlib"), "os.py").read_bytes()
        Path(box.scratch, ".").stat()
    except PermissionError as error:
        blamed = LayerName.LANDLOCK if box.user is None else LayerName.OTHER_USER
        raise LayerError(blamed, f"{error.filename} is out of reach for another user") from error
