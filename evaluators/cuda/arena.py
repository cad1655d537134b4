"""Inputs in device memory and the runners that live on them: as :class:`evaluators.arena.Arena`."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evaluators import channel
from evaluators.arena import Arena
from evaluators.baseline_cache import workshop_of
from evaluators.build import BuiltProgram
from evaluators.builders.triton import installed
from evaluators.cuda.content import DeviceContent
from evaluators.cuda.device import DeviceBuffer, Gpu, Scratch
from evaluators.cuda.inouts import Inouts
from evaluators.cuda.plan import IDLE_SHARE, POOL_SHARE, device_plan
from evaluators.cuda.recording import Recorder
from evaluators.cuda.session import CudaSession, InputSeal
from evaluators.dtypes import Array
from evaluators.exchange import Exchange
from evaluators.layout import Layout
from evaluators.plan import RoundPlan, layout_of
from evaluators.reference import Reference
from evaluators.scratch import fresh_folder
from evaluators.session import Session
from evaluators.task import Task, Workload
from evaluators.zygote.client import ChildLimits, SpawnRequest, Zygote

CPU_SECONDS = 900.0
TRUSTED_PROCESSES = 256
WORKSHOP_FILE_BYTES = 256 << 20
ENVIRONMENT = {"CUDA_CACHE_DISABLE": "1", "CUDA_MODULE_LOADING": "LAZY", "OMP_NUM_THREADS": "1", "USER": "runner"}
CANDIDATE_PACKAGES = ("torch", "triton", "numpy", "nvidia")
TRUSTED_PACKAGES = (
    *CANDIDATE_PACKAGES,
    *("torchgen", "functorch", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock", "fsspec"),
    *("typing_extensions", "packaging", "setuptools", "yaml", "attr", "attrs", "psutil"),
)
"""A baseline of the task's own may also compile: what torch.compile imports."""
SLOTS_SHARE = 0.6
"""Of the device's memory, for the slots of all runners and arenas together; the rest is for what is kept of checks
(``CACHED_SHARE`` an arena), generated pools, contexts, and what programs allocate."""
CACHED_SHARE = 16
"""Checks take at most one part in so many of the device's memory, in each arena."""
ARENAS = 2
"""That of the search workloads, and that of the held-out ones once a program was confirmed."""
OTHER_RUNNERS = 2
"""Beside those of the baselines: a candidate, and its opponent or the same candidate recorded. Where the winner of a
duel is recorded there are three for a second or two: room for one more is left by ``SLOTS_SHARE``."""


class CudaArena(Arena):
    """Shared inputs on one GPU, and sessions on them."""

    def __init__(  # the parent's host buffers and threads are not wanted here
        self,
        gpu: Gpu,
        zygote: Zygote,
        scratch: Path,
        task: Task,
        layouts: Iterable[Layout],
        exchange: Exchange,
        core: int | None = None,
    ) -> None:
        layouts = list(layouts)
        self.task = task
        self._exchange, self._core = exchange, core
        self.rng = np.random.default_rng(secrets.randbits(128))
        self._gpu = gpu
        self._zygote = zygote
        self._scratch = scratch
        self._output_bytes = max(layout.output_bytes for layout in layouts)
        self._device_inputs = DeviceBuffer(gpu, max(layout.input_bytes for layout in layouts))
        self._inouts = Inouts(gpu, self._output_bytes if _changed_in_place(task) else 0)
        self._seal = InputSeal(gpu, self._device_inputs)
        self._sessions = {}
        self._cached: dict[int, tuple[npt.NDArray[np.generic], Scratch]] = {}
        self._contents: dict[str, DeviceContent] = {}

    @property
    def input_bytes(self) -> int:
        """Room for inputs."""
        return self._device_inputs.size

    def open(self, program: BuiltProgram) -> CudaSession:
        """A fresh runner that has imported the program, stopped. The caller closes it.

        Raises:
            CandidateFailure: it could not be imported.
        """
        return self._open(program, None)

    def open_recorded(self, program: BuiltProgram, recorder: Recorder) -> CudaSession:
        """The same, with a recorder of everything that the device does for it. Never for rounds that count.

        Raises:
            CandidateFailure: it could not be imported.
            JudgeError: the recorder did not begin.
        """
        return self._open(program, None, recorder)

    def kept(self, name: str, program: BuiltProgram) -> Session:
        """The live runner kept under a name, started if there is none; the task's own torch programs may compile."""
        if name not in self._sessions:
            workshop = self._workshop(program) if program.language == "torch" else None
            self._sessions[name] = self._open(program, workshop, kept=True)
        return self._sessions[name]

    def _open(
        self,
        program: BuiltProgram,
        workshop: Path | None,
        recorder: Recorder | None = None,
        *,
        kept: bool = False,
    ) -> CudaSession:
        # A runner may write where the inputs lie: nothing is left there for the next one to read.
        self._gpu.clear(self._device_inputs.address, self._device_inputs.size)
        self._inouts.clear()
        self._seal.open()
        with ExitStack() as stack:
            ours, theirs = channel.pair()
            stack.callback(ours.close)
            stack.callback(theirs.close)
            outputs = DeviceBuffer(self._gpu, self._output_bytes)
            stack.callback(outputs.close)
            fds = {"channel": theirs.fileno(), "inputs": self._device_inputs.fd, "outputs": outputs.fd}
            if recorder is not None:
                fds["recording"] = recorder.recording.fd
            request = self._request(program, fds, outputs, workshop, recorder)
            child = self._zygote.spawn(replace(request, payload={**request.payload, "keeps": kept}))
            stack.pop_all()
            theirs.close()
        buffers = self._device_inputs, outputs
        session = CudaSession(child, ours, buffers, self._gpu, self._seal, self._exchange, core=self._core)
        session.store_device, session.inouts = self._store, self._inouts
        try:
            if recorder is not None:
                session.open_recorder(self.task.limits.import_s)
            session.import_program(self.task.limits.import_s)
            session.stop()
        except BaseException:
            session.close()
            raise
        return session

    def fill(  # type: ignore[override]
        self,
        session: CudaSession,
        content: DeviceContent,
        slots: list[int],
        instead: Mapping[int, Mapping[str, Array]] | None = None,
    ) -> None:
        """Fresh content in every slot, and something else in some (``instead``). Every runner must be stopped.

        What comes from the host goes first: a device that waits for it should not go straight into a timed round.
        """
        instead = instead or {}
        for slot, arguments in instead.items():
            session.store(slot, arguments)
        order = [*sorted(set(range(session.layout.slots)) - set(slots)), *(s for s in slots if s not in instead)]
        self._seal.open()
        content.fill(session.layout, self._device_inputs, order, self.rng, self._inouts)

    def fill_slots(self, session: CudaSession, content: DeviceContent, slots: list[int]) -> None:  # type: ignore[override]
        """Fresh content in these slots alone."""
        self._seal.open()
        content.fill(session.layout, self._device_inputs, slots, self.rng, self._inouts)

    def plan(self, workload: Workload, cache_bytes: int, call_s: float | None) -> RoundPlan:
        """How a workload is timed here."""
        room = pool_bytes(self._gpu.memory_bytes, self.task, workload)
        return device_plan(self.task, workload, cache_bytes, room, call_s, self.rng)

    def probe_plan(self, workload: Workload, cache_bytes: int) -> RoundPlan:
        """Rounds as they are planned by bytes alone: one launch, as the real ones."""
        return self.plan(workload, cache_bytes, None)

    def content(self, reference: Reference, workload: Workload) -> DeviceContent:  # type: ignore[override]
        """What fills a workload's rounds, in place of what did so before."""
        before = self._contents.pop(workload.name, None)
        if before is not None:
            before.close()
        self._contents[workload.name] = DeviceContent(self._gpu, reference, workload, self.rng)
        return self._contents[workload.name]

    def close(self) -> None:
        """End every kept runner and give the memory back."""
        for name in list(self._sessions):
            self.discard(name)
        for content in self._contents.values():
            content.close()
        for _, copy in self._cached.values():
            copy.close()
        self._inouts.close()
        self._device_inputs.close()

    def _store(self, address: int, values: npt.NDArray[np.generic]) -> None:
        """Copy an array into a slot; arrays that are kept in files come again and again, and stay on the device."""
        known = id(values) in self._cached
        if not isinstance(values, np.memmap) or not (known or self._room_for(values.nbytes)):
            self._gpu.upload(address, values)
            return
        if not known:
            self._cached[id(values)] = (values, Scratch(self._gpu, values))
        if values.nbytes:
            self._gpu.driver.copy(address, self._cached[id(values)][1].address, values.nbytes)

    def _workshop(self, program: BuiltProgram) -> Path:
        """A folder of a baseline's own, which keeps what it compiled for its next process."""
        folder = workshop_of(self._scratch, program.source_hash)
        if not folder.exists():
            fresh_folder(self._scratch).rename(folder)
        return folder

    def _room_for(self, nbytes: int) -> bool:
        held = sum(copy.nbytes for _, copy in self._cached.values())
        return held + nbytes <= self._gpu.memory_bytes // CACHED_SHARE

    def _request(
        self,
        program: BuiltProgram,
        fds: dict[str, int],
        outputs: DeviceBuffer,
        workshop: Path | None,
        recorder: Recorder | None = None,
    ) -> SpawnRequest:
        payload: dict[str, object] = {
            "language": program.language,
            "entry": self.task.entry,
            "source": program.source,
            "bytes": {"inputs": self._device_inputs.size, "outputs": outputs.size},
        }
        if program.artifact is not None:
            payload["artifact"] = str(program.artifact)
        if recorder is not None:
            payload["recorder"] = str(recorder.library)
        readable = (program.artifact, recorder.library.parent if recorder else None)
        return SpawnRequest(
            role="builder" if workshop else "runner",
            entry="evaluators.cuda.runner:main",
            payload=payload,
            fds=fds,
            readable=tuple(path for path in readable if path is not None),
            writable=(workshop,) if workshop else (),
            limits=ChildLimits(
                memory_bytes=self.task.limits.memory_bytes,
                cpu_s=CPU_SECONDS,
                file_bytes=WORKSHOP_FILE_BYTES if workshop else 0,
                processes=TRUSTED_PROCESSES if workshop else 0,
            ),
            environment={**ENVIRONMENT, **(_caches(workshop) if workshop else {})},
            python_packages=installed(TRUSTED_PACKAGES if workshop else CANDIDATE_PACKAGES),
            gpu=True,
        )


def pool_bytes(memory_bytes: int, task: Task, workload: Workload) -> int:
    """What a round's calls may take, inputs and one runner's outputs, so that all arenas with all runners fit.

    Inputs and outputs are bounded each: an arena is as large as the largest of each, of whichever workloads.
    """
    one = layout_of(task, workload, 1)
    runners = len(task.baselines) + OTHER_RUNNERS
    arenas = ARENAS if any(w.split == "heldout" for w in task.workloads) else 1
    called = IDLE_SHARE / (IDLE_SHARE + 1)
    copies = 1 + runners + _changed_in_place(task)  # the inputs, every runner's outputs, and what ``Inouts`` keeps
    parts = arenas * copies * max(one.input_stride, one.output_stride, 1)
    share = SLOTS_SHARE * called * (one.input_stride + one.output_stride) / parts
    return min(memory_bytes // POOL_SHARE, int(memory_bytes * share))


def _changed_in_place(task: Task) -> bool:
    return any(arg.role == "inout" for arg in task.args)


def _caches(folder: Path) -> dict[str, str]:
    """Where torch.compile and Triton put what they make: a baseline of the task's own compiles while it runs."""
    return {
        "TRITON_CACHE_DIR": f"{folder}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TMPDIR": str(folder),
        "HOME": str(folder),
    }
