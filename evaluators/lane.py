"""A place where one value-scored evaluation at a time runs: its cores and its input buffer."""

from __future__ import annotations

from evaluators.buffers import SharedBuffer
from evaluators.build import BuiltProgram
from evaluators.launch import open_session
from evaluators.plan import layout_of
from evaluators.session import Session
from evaluators.task import Task
from evaluators.zygote.client import Zygote


class Lane:
    """Opens runners whose inputs lie in one buffer, reused from one evaluation to the next.

    Each evaluation's runners are gone before the lane is handed to the next, so nothing of it can be read there.
    """

    def __init__(self, task: Task, zygote: Zygote, cpus: frozenset[int]) -> None:
        layouts = [layout_of(task, workload, 1) for workload in task.workloads]
        self._zygote = zygote
        self._cpus = cpus
        self._output_bytes = max(layout.output_bytes for layout in layouts)
        self._inputs = SharedBuffer("inputs", max(layout.input_bytes for layout in layouts), read_only=True)

    def open(self, task: Task, program: BuiltProgram) -> Session:
        """A fresh runner that has imported the program."""
        return open_session(self._zygote, task, program, self._inputs, self._output_bytes, self._cpus)

    def close(self) -> None:
        """Give the buffer back."""
        self._inputs.close()
