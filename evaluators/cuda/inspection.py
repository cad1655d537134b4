"""NVIDIA's own tools over a program: ``compute-sanitizer`` and ``ncu``, in a builder's box with a GPU.

The tool starts ``drive.py`` beside it in the box, which calls the program once. Both share the box with the program, so
a hostile one could silence its own report: verdicts of right and fast never rest on it, only verdicts of wrong do.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluators.build import BuiltProgram, read_plain_file, remove_tree
from evaluators.builders.triton import installed
from evaluators.cuda.arena import TRUSTED_PACKAGES
from evaluators.dtypes import Array
from evaluators.layout import ArgPlace
from evaluators.plan import layout_of
from evaluators.sandbox.report import INSPECTION_NEEDS
from evaluators.scratch import fresh_folder
from evaluators.task import Task, Workload
from evaluators.zygote.client import ChildLimits, SpawnRequest, Zygote

DRIVE = Path(__file__).with_name("drive.py")
REPORT = "report.txt"
DEADLINE_S = 60.0
MEMORY_BYTES = 24 << 30
PROCESSES = 512
FILE_BYTES = 256 << 20
REPORT_CAP = 1 << 20
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

    @property
    def last_words(self) -> str:
        """The end of the log, a line of at most ``WORDS_CAP`` characters."""
        rows = [row.strip() for row in self.log.splitlines() if row.strip() and not row.startswith("==")]
        return rows[-1][:WORDS_CAP] if rows else ""


@dataclass(frozen=True)
class Tools:
    """Runs tools in boxes."""

    zygote: Zygote
    scratch: Path

    def run(
        self,
        tool: Sequence[str],
        program: BuiltProgram,
        task: Task,
        workload: Workload,
        inputs: Mapping[str, Array],
        calls: int = 1,
    ) -> Report:
        """Call a program once under a tool; ``REPORT`` in the tool's words is where its report goes.

        Raises:
            ToolUnavailable: the tool is not installed, or nothing can be started here.
        """
        with self._folder() as folder:
            more = {"calls": calls, "packages": list(installed(TRUSTED_PACKAGES))}
            order = lay_out(folder, program, task, workload, inputs) | more
            (folder / "order.json").write_text(json.dumps(order))
            shutil.copyfile(DRIVE, folder / DRIVE.name)
            words = [word.replace(REPORT, str(folder / REPORT)) for word in tool]
            words[0] = find_tool(words[0])
            command = [*words, str(interpreter()), "-s", "-P", str(folder / DRIVE.name), str(folder)]
            return self._run(folder, command)

    def _run(self, folder: Path, command: Sequence[str]) -> Report:
        layers = self.zygote.layers
        for name in INSPECTION_NEEDS:
            if not layers.active(name):
                raise ToolUnavailable(f"the sandbox has no {name} here, and its programs may connect sockets")
        child = self.zygote.spawn(
            SpawnRequest(
                role="builder",
                entry="evaluators.cuda.become:become",
                payload={"folder": str(folder), "command": list(command)},
                writable=(folder,),
                limits=ChildLimits(
                    memory_bytes=MEMORY_BYTES, cpu_s=4 * DEADLINE_S, file_bytes=FILE_BYTES, processes=PROCESSES
                ),
                environment=environment(folder),
                python_packages=installed(TRUSTED_PACKAGES),
                gpu=True,
                inspected=True,
            )
        )
        try:
            log, status = child.collect(DEADLINE_S, LOG_CAP)
        finally:
            child.kill()
            child.wait(DEADLINE_S)
            child.close()
        written = read_plain_file(folder / REPORT, REPORT_CAP) or b""
        return Report(written.decode(errors="replace"), log, status.code if status else None)

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        folder = fresh_folder(self.scratch)
        try:
            yield folder
        finally:
            remove_tree(folder)


def lay_out(
    folder: Path, program: BuiltProgram, task: Task, workload: Workload, inputs: Mapping[str, Array]
) -> dict[str, Any]:
    """Write a program and its inputs into a folder; returns what ``drive.py`` must know."""
    layout = layout_of(task, workload, 1)
    name = "candidate.so" if program.language == "cuda" else "candidate.py"
    if program.language == "cuda":
        assert program.artifact is not None
        shutil.copyfile(program.artifact, folder / name)
    else:
        (folder / name).write_text(program.source, encoding="utf-8", errors="replace")
        if program.artifact is not None:
            shutil.copytree(program.artifact, folder / "triton")
            _tell_where(folder / "triton")
    arguments = [_argument(folder, place, inputs.get(place.name)) for place in layout.places]
    return {
        "language": program.language,
        "entry": task.entry,
        "program": name,
        "arguments": arguments,
        "scalars": list(layout.scalars),
    }


def _tell_where(cache: Path) -> None:
    """Triton finds a kernel's files by their whole paths: without them it would compile everything anew."""
    for group in filter(Path.is_file, cache.glob("*/__grp__*")):  # a builder may leave folders of any name
        parts = {path.name: str(path) for path in group.parent.iterdir() if not path.name.startswith("__grp__")}
        group.unlink()
        group.write_text(json.dumps({"child_paths": parts}))


def _argument(folder: Path, place: ArgPlace, content: Array | None) -> dict[str, Any]:
    file = f"{place.name}.bin" if content is not None else ""
    if content is not None:
        (folder / file).write_bytes(content.tobytes())
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
