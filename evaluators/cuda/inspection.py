"""NVIDIA's own tools over a program: ``compute-sanitizer`` and ``ncu``, in a builder's box with a GPU.

The tool starts ``drive.py`` beside it in the box, which calls the program once. Both share the box with the program, so
a hostile one could silence its own report: verdicts of right and fast never rest on it, only verdicts of wrong do.

Most of what a tool takes is starting: itself, Python, torch and Triton. So ``drive.py`` waits at a gate, a pipe with a
name in its folder, after all that and before it touches the device or imports the program.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evaluators.build import BuiltProgram, read_plain_file, remove_tree
from evaluators.builders.triton import installed
from evaluators.cuda.arena import TRUSTED_PACKAGES
from evaluators.cuda.drive import DEVICES, GATE, OPEN
from evaluators.dtypes import Array
from evaluators.layout import ArgPlace
from evaluators.plan import layout_of
from evaluators.sandbox.report import INSPECTION_NEEDS
from evaluators.scratch import fresh_folder
from evaluators.task import Task, Workload
from evaluators.zygote.client import Child, ChildLimits, SpawnRequest, Zygote

DRIVE = Path(__file__).with_name("drive.py")
REPORT = "report.txt"
DEADLINE_S = 60.0
"""From the opening of the gate to the end, starting included where it is opened before the program stands there."""
MEMORY_BYTES = 24 << 30
PROCESSES = 512
FILE_BYTES = 256 << 20
REPORT_CAP, DEVICES_CAP = 1 << 20, 64 << 10
LOG_CAP = 16 << 10
WORDS_CAP = 200
TORCH_NAMES = {
    **{"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8_e4m3": "float8_e4m3fn"},
    **{"fp8_e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8"},
    **{"u16": "uint16", "bool": "bool"},
}


class ToolUnavailable(Exception):
    """A tool cannot be used here; the message says why, in one line."""


@dataclass(frozen=True)
class Report:
    """What a tool wrote, and what the program and the tool printed besides. Data."""

    text: str
    log: str
    code: int | None
    """``None`` where it was ended."""
    devices: frozenset[str] | None = None
    """What processes of the box held open below ``/dev`` at the gate; ``None`` where that could not be seen. It is
    said before the program is there, in a file that the program may change later: to be believed of our own alone."""

    @property
    def last_words(self) -> str:
        """The end of the log, a line of at most ``WORDS_CAP`` characters."""
        rows = [row.strip() for row in self.log.splitlines() if row.strip() and not row.startswith("==")]
        return rows[-1][:WORDS_CAP] if rows else ""


@dataclass(frozen=True)
class Example:
    """One shape to call a program on."""

    workload: Workload
    inputs: Mapping[str, Array]


@dataclass(frozen=True)
class Tools:
    """Runs tools in boxes."""

    zygote: Zygote
    scratch: Path
    cpus: frozenset[int] | None = None
    """Where they run; ``None``: on all of the judge's cores."""
    nice: int = 0
    """How far they give way."""

    def run(
        self, tool: Sequence[str], program: BuiltProgram, task: Task, examples: Sequence[Example], calls: int = 1
    ) -> Report:
        """Call a program under a tool, on one example after another.

        ``REPORT`` in the tool's words is where its report goes.

        Raises:
            ToolUnavailable: the tool is not installed, or nothing can be started here.
        """
        with closing(self.start(tool, program, task, examples, calls)) as started:
            return started.report()

    def start(
        self, tool: Sequence[str], program: BuiltProgram, task: Task, examples: Sequence[Example], calls: int = 1
    ) -> StartedTool:
        """As :meth:`run`, as far as the gate.

        Raises:
            ToolUnavailable: the tool is not installed, or nothing can be started here.
        """
        layers = self.zygote.layers
        for name in INSPECTION_NEEDS:
            if not layers.active(name):
                raise ToolUnavailable(f"the sandbox has no {name} here, and its programs may connect sockets")
        folder = fresh_folder(self.scratch)
        try:
            more = {"calls": calls, "packages": list(installed(TRUSTED_PACKAGES))}
            order = lay_out(folder, program, task, examples) | more
            (folder / "order.json").write_text(json.dumps(order))
            shutil.copyfile(DRIVE, folder / DRIVE.name)
            words = [word.replace(REPORT, str(folder / REPORT)) for word in tool]
            words[0] = find_tool(words[0])
            command = [*words, str(interpreter()), "-s", "-P", str(folder / DRIVE.name), str(folder)]
            return StartedTool(folder, _make_gate(folder), partial(self._spawn, folder, command))
        except BaseException:
            remove_tree(folder)
            raise

    def _spawn(self, folder: Path, command: Sequence[str]) -> Child:
        return self.zygote.spawn(
            SpawnRequest(
                role="builder",
                entry="evaluators.cuda.become:become",
                payload={"folder": str(folder), "command": list(command)},
                writable=(folder,),
                limits=ChildLimits(
                    memory_bytes=MEMORY_BYTES, cpu_s=4 * DEADLINE_S, file_bytes=FILE_BYTES, processes=PROCESSES
                ),
                cpus=self.cpus,
                nice=self.nice,
                environment=environment(folder),
                python_packages=installed(TRUSTED_PACKAGES),
                gpu=True,
                inspected=True,
            )
        )


class StartedTool:
    """A tool on its way to the gate, or waiting there. Close it: that ends it wherever it is."""

    def __init__(self, folder: Path, gate: int, spawn: Callable[[], Child]) -> None:
        """Start it. ``folder`` is its own and goes with it, so does ``gate``, the judge's end of the pipe."""
        self._folder, self._gate = folder, gate
        try:
            self._child = spawn()
        except BaseException:
            os.close(gate)
            raise

    def report(self) -> Report:
        """Open the gate and wait for the end; what waiting there took does not count."""
        os.write(self._gate, OPEN)
        log, status = self._child.collect(DEADLINE_S, LOG_CAP)
        self._end()
        written = read_plain_file(self._folder / REPORT, REPORT_CAP) or b""
        code = status.code if status else None
        return Report(written.decode(errors="replace"), log, code, _read_devices(self._folder / DEVICES))

    def close(self) -> None:
        """End it, and everything that it started."""
        try:
            self._end()
        finally:
            self._child.close()
            os.close(self._gate)
            remove_tree(self._folder)

    def _end(self) -> None:
        self._child.kill()
        self._child.wait(DEADLINE_S)


def _make_gate(folder: Path) -> int:
    """A pipe with a name, and a descriptor to write to it: opened by us before anybody in the box could change it."""
    os.mkfifo(folder / GATE)
    (folder / GATE).chmod(0o644)
    return os.open(folder / GATE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _read_devices(path: Path) -> frozenset[str] | None:
    try:
        found = json.loads(read_plain_file(path, DEVICES_CAP) or b"null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        return None
    return frozenset(found)


def lay_out(folder: Path, program: BuiltProgram, task: Task, examples: Sequence[Example]) -> dict[str, Any]:
    """Write a program and its inputs into a folder; returns what ``drive.py`` must know."""
    name = "candidate.so" if program.language == "cuda" else "candidate.py"
    if program.language == "cuda":
        assert program.artifact is not None
        shutil.copyfile(program.artifact, folder / name)
    else:
        (folder / name).write_text(program.source, encoding="utf-8", errors="replace")
        if program.artifact is not None:
            shutil.copytree(program.artifact, folder / "triton")
            _tell_where(folder / "triton")
    return {
        "language": program.language,
        "entry": task.entry,
        "program": name,
        "examples": [_example(folder / str(index), task, example) for index, example in enumerate(examples)],
    }


def _example(folder: Path, task: Task, example: Example) -> dict[str, Any]:
    folder.mkdir(mode=0o755)
    layout = layout_of(task, example.workload, 1)
    arguments = [_argument(folder, place, example.inputs.get(place.name)) for place in layout.places]
    return {"arguments": arguments, "scalars": list(layout.scalars)}


def _tell_where(cache: Path) -> None:
    """Triton finds a kernel's files by their whole paths: without them it would compile everything anew."""
    for group in filter(Path.is_file, cache.glob("*/__grp__*")):  # a builder may leave folders of any name
        parts = {path.name: str(path) for path in group.parent.iterdir() if not path.name.startswith("__grp__")}
        group.unlink()
        group.write_text(json.dumps({"child_paths": parts}))


def _argument(folder: Path, place: ArgPlace, content: Array | None) -> dict[str, Any]:
    file = f"{folder.name}/{place.name}.bin" if content is not None else ""
    if content is not None:
        (folder.parent / file).write_bytes(content.tobytes())
    return {
        "file": file,
        "nbytes": place.nbytes,
        "shape": list(place.shape),
        "changed": place.role == "inout",
        "torch_dtype": TORCH_NAMES[place.dtype],
    }


def find_tool(name: str) -> str:
    """A tool of the toolkit.

    Raises:
        ToolUnavailable: it is not installed.
    """
    found = shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")
    if found is None:
        raise ToolUnavailable(f"no {name} found: it comes with the CUDA toolkit")
    return found


def interpreter() -> Path:
    """Python as the box sees it: the one behind a virtual environment, whose folder is not shown there."""
    return Path(sys.executable).resolve()


def libcuda_folder() -> str:
    """Where this process has the driver's library from; empty where it has none."""
    rows = Path("/proc/self/maps").read_text().splitlines()
    return next((os.path.dirname(row.split()[-1]) for row in rows if "/libcuda.so" in row), "")


def environment(folder: Path) -> dict[str, str]:
    """What a tool, torch and Triton need in a box whose only folder this is."""
    driver = libcuda_folder()
    return {
        **({"TRITON_LIBCUDA_PATH": driver} if driver else {}),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "TRITON_CACHE_DIR": f"{folder}/triton",
        "TRITON_BACKENDS_IN_TREE": "1",  # the box shows packages without their metadata, by which Triton finds backends
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))),
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "USER": "runner",
    }
