"""The fixtures of the sandbox's tests."""

from tests.evaluators.sandbox_support import scratch, zygote

__all__ = ["scratch", "zygote"]
