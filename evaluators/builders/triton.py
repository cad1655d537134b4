"""Compiles every Triton kernel a program launches, without a GPU, into a cache that its runner reads.

The source is imported in the sandbox and its entry called with uninitialised host tensors of the task's real shapes.
Launches are intercepted: each kernel, in each of its autotuner's configurations, is compiled for the target and not
run. The runner later asks for the same kernels under the same keys; what it does not find fails it.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluators.builders import triton_report
from evaluators.builders.base import BuildRefused, BuildTarget
from evaluators.builders.resources import find_tool
from evaluators.shapes import axis_names, evaluate_shape

DEFAULT_ARCH = "sm_90"
CACHE = "cache"
ASSEMBLY = "kernels.ptx"
SHOWN = 8
"""Kernels whose assembly is left to be read."""
RUNNER_PACKAGES = ("torch", "triton", "numpy")


def installed(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those packages that are there."""
    return tuple(name for name in names if importlib.util.find_spec(name))


class TritonBuilder:
    """Builds Triton."""

    source_name = "candidate.py"
    artifact = CACHE
    texts: tuple[str, ...] = (ASSEMBLY,)
    report_texts: tuple[str, ...] = (triton_report.RESOURCES, triton_report.SASS)
    runs_source = True
    takes_flags = False

    @property
    def packages(self) -> tuple[str, ...]:
        """Torch, Triton and the CUDA libraries that torch loads late."""
        return installed((*RUNNER_PACKAGES, "nvidia"))

    def order(self, target: BuildTarget) -> dict[str, Any]:
        """The calls whose launches are to be compiled: the entry's arguments for every workload."""
        task = target.task
        names = axis_names(task.args)
        calls = [
            {
                "arrays": [(a.dtype, list(evaluate_shape(a, w.axes))) for a in task.args],
                "scalars": [w.axes[name] for name in names],
            }
            for w in task.workloads
        ]
        arch = target.arch or DEFAULT_ARCH
        tools = {name: find_tool(name) for name in ("cuobjdump", "nvdisasm")}
        return {"arch": arch, "entry": task.entry, "calls": calls, **tools}

    def build(self, work: Path, order: Mapping[str, Any]) -> None:
        """Import, intercept, compile."""
        os.environ["TRITON_CACHE_DIR"] = str(work / CACHE)
        (work / CACHE).mkdir()
        # In the sandbox only, where torch and Triton are; the judge's process never imports them.
        interception = importlib.import_module("evaluators.builders.triton_interception")
        try:
            kernels = interception.compile_launches((work / self.source_name).read_text(), order)
        except interception.Refused as refusal:
            raise BuildRefused(str(refusal)) from None
        shown = (k.asm.get("ptx") or k.asm.get("amdgcn") or "" for k in kernels[:SHOWN])
        (work / ASSEMBLY).write_text("\n".join(shown))
        _tidy(work / CACHE)

    def report(self, work: Path, built: Path, order: Mapping[str, Any]) -> dict[str, float]:
        """What the kernels in the cache use, whatever the program says of them."""
        return triton_report.write(work, built, order)


def _tidy(cache: Path) -> None:
    """Leave in the cache what a runner needs (binaries, metadata, launchers), and what an AMD report is made of."""
    for folder in cache.iterdir():
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.suffix not in (".cubin", ".hsaco", ".amdgcn", ".json", ".so"):
                path.unlink()
        for group in folder.glob("__grp__*.json"):
            names = json.loads(group.read_text())["child_paths"]
            kept = {name: name for name in names if (folder / name).exists()}
            group.write_text(json.dumps({"child_paths": kept}))


BUILDER = TritonBuilder()
