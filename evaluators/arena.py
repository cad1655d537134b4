"""One set of shared inputs and the runners that live on it: the candidate at hand and the baselines beside it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import numpy as np

from evaluators.buffers import SharedBuffer
from evaluators.build import BuiltProgram
from evaluators.content import ContentPool
from evaluators.dtypes import Array
from evaluators.exchange import Exchange
from evaluators.launch import open_session
from evaluators.layout import Layout
from evaluators.plan import RoundPlan, layout_of, round_plan
from evaluators.reference import Reference
from evaluators.session import Session
from evaluators.task import Task, Workload
from evaluators.zygote.client import Zygote

PROBE_CALLS = 2


class Arena:
    """Shared, read-only inputs large enough for the given layouts, and sessions on them.

    Runners that are paired see the same content, which halves the cost of filling and takes the content's own
    variation out of their ratio. Outputs are each runner's own. All but the one being timed are stopped.
    """

    def __init__(
        self, zygote: Zygote, task: Task, layouts: Iterable[Layout], cpus: frozenset[int], exchange: Exchange
    ) -> None:
        layouts = list(layouts)
        self.task = task
        self.rng = np.random.default_rng(secrets.randbits(128))
        self._zygote = zygote
        self._cpus = cpus
        self._exchange = exchange
        self._output_bytes = max(layout.output_bytes for layout in layouts)
        self._inputs = SharedBuffer("inputs", max(layout.input_bytes for layout in layouts), read_only=True)
        self._sessions: dict[str, Session] = {}
        self._fillers = ThreadPoolExecutor(len(cpus), thread_name_prefix="fill")
        self._filler_count = len(cpus)

    @property
    def input_bytes(self) -> int:
        """Room for inputs."""
        return self._inputs.size

    def room_for(self, layout: Layout) -> int:
        """How many slots as those of a layout there is room for."""
        inputs, outputs = max(layout.input_stride, 1), max(layout.output_stride, 1)
        return min(self.input_bytes // inputs, self._output_bytes // outputs)

    def open(self, program: BuiltProgram) -> Session:
        """A fresh runner for a program, stopped. The caller closes it."""
        session = open_session(
            self._zygote, self.task, program, self._inputs, self._output_bytes, self._cpus, self._exchange
        )
        try:
            session.stop()
        except BaseException:
            session.close()
            raise
        return session

    def fill(
        self,
        session: Session,
        content: ContentPool,
        slots: list[int],
        instead: Mapping[int, Mapping[str, Array]] | None = None,
    ) -> None:
        """Fresh content in every slot, those that will be called (``slots``) first. Every runner must be stopped.

        Args:
            session: whose slots.
            content: makes what goes there.
            slots: those that will be called.
            instead: what goes into some slots in its place.

        The order matters on a CPU: the idle slots are as many bytes as the called ones, so writing them last pushes the
        called ones out of the cache. So does it that every core takes part: with one core busy and the others asleep,
        the scheduler puts all of the runner's threads on the cores that slept, and the first calls take twice as long.
        """
        order = [*slots, *sorted(set(range(session.layout.slots)) - set(slots))]
        shares = [order[i :: self._filler_count] for i in range(self._filler_count)]

        def fill_share(share: list[int], rng: np.random.Generator) -> None:
            for slot in share:
                if instead and slot in instead:
                    session.store(slot, instead[slot])
                else:
                    content.fill(session.arguments(slot), rng)

        list(self._fillers.map(fill_share, shares, self.rng.spawn(len(shares))))

    def fill_slots(self, session: Session, content: ContentPool, slots: list[int]) -> None:
        """Fresh content in these slots alone: for rounds whose time does not count."""
        for slot in slots:
            content.fill(session.arguments(slot), self.rng)

    def plan(self, workload: Workload, cache_bytes: int, call_s: float | None) -> RoundPlan:
        """How a workload is timed here."""
        return round_plan(self.task, workload, cache_bytes, call_s)

    def probe_plan(self, workload: Workload, cache_bytes: int) -> RoundPlan:
        """Short rounds that tell how long a call takes, before the real ones can be planned."""
        del cache_bytes
        return RoundPlan(workload, layout_of(self.task, workload, PROBE_CALLS), PROBE_CALLS, cold=False)

    def content(self, reference: Reference, workload: Workload) -> ContentPool:
        """What fills a workload's rounds."""
        return ContentPool(reference, workload, self.rng)

    def kept(self, name: str, program: BuiltProgram) -> Session:
        """The live runner kept under a name, started if there is none."""
        if name not in self._sessions:
            self._sessions[name] = self.open(program)
        return self._sessions[name]

    def discard(self, name: str) -> None:
        """End the runner kept under a name; the next :meth:`kept` starts another."""
        session = self._sessions.pop(name, None)
        if session is not None:
            session.close()

    def close(self) -> None:
        """End every kept runner and give the memory back."""
        for name in list(self._sessions):
            self.discard(name)
        self._fillers.shutdown()
        self._inputs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
