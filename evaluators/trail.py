"""How far a candidate came and what it cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from evaluators.evaluation import Cost, ErrorMeasure, Stage


@dataclass
class Trail:
    """How far a candidate came and what it cost: kept also when it fails."""

    stage: Stage = Stage.LINT
    """The stage it is in; change it with :meth:`enter`."""
    started: float = field(default_factory=time.monotonic)
    build_s: float = 0.0
    device_s: float = 0.0
    timed_s: float = 0.0
    """Between *go* and reply in timed rounds, whoever ran."""
    errors: dict[str, dict[str, ErrorMeasure]] = field(default_factory=dict)
    """Workload -> family -> worst error so far."""
    _stages_s: dict[str, float] = field(default_factory=dict)
    _entered: float = field(default_factory=time.monotonic)
    _device_since: float | None = None

    def enter(self, stage: Stage) -> None:
        """Go on to a stage, and book the time of the one it leaves."""
        self._book()
        self.stage = stage

    @contextmanager
    def on_device(self) -> Iterator[None]:
        """Book the time during which the device is this candidate's."""
        self._device_since = time.monotonic()
        try:
            yield
        finally:
            self._book()
            self._device_since = None

    @contextmanager
    def building(self) -> Iterator[None]:
        """Book the time of a build."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.build_s += time.monotonic() - started

    def cost(self) -> Cost:
        """What was used up until now, by whoever still has the device too."""
        self._book()
        return Cost(
            build_s=self.build_s,
            device_s=self.device_s,
            wall_s=time.monotonic() - self.started,
            stages_s=dict(self._stages_s),
            timed_s=self.timed_s,
        )

    def _book(self) -> None:
        now = time.monotonic()
        self._stages_s[self.stage.value] = self._stages_s.get(self.stage.value, 0.0) + now - self._entered
        self._entered = now
        if self._device_since is not None:
            self.device_s += now - self._device_since
            self._device_since = now
