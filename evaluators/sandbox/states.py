"""Which layers are in force while a zygote sets itself up, and how the failure of one travels."""

from __future__ import annotations

from evaluators.sandbox.report import Layer, LayerName, SandboxReport


class LayerError(Exception):
    """A layer that was in force for the zygote failed for one child."""

    def __init__(self, name: LayerName, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class LayerStates:
    """Which layers are in force, and why the others are not."""

    def __init__(self, without: frozenset[LayerName]) -> None:
        self.without = without
        self._layers = {name: Layer(name, False, "not set up") for name in LayerName}
        for name in without:
            self.off(name, "left out on request")

    def on(self, name: LayerName, detail: str = "") -> None:
        """The layer is in force."""
        self._layers[name] = Layer(name, True, detail)

    def off(self, name: LayerName, why: str) -> None:
        """The layer is not in force."""
        self._layers[name] = Layer(name, False, why)

    def active(self, name: LayerName) -> bool:
        """Whether it is in force."""
        return self._layers[name].active

    def wanted(self, name: LayerName) -> bool:
        """Whether to try it."""
        return name not in self.without

    def report(self) -> SandboxReport:
        """All of them, in order."""
        return SandboxReport(tuple(self._layers.values()))
