"""The verdicts. Apart from :mod:`evaluators.evaluation` so that runners need not load what only the judge needs."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """The verdict. Everything but ``passed`` is a failure; ``infra_error`` is ours and is never scored."""

    PASSED = "passed"
    REJECTED = "rejected"
    BUILD_ERROR = "build_error"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_VALUES = "wrong_values"
    NOT_FINITE = "not_finite"
    NONDETERMINISTIC = "nondeterministic"
    CHEATING = "cheating"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    INFRA_ERROR = "infra_error"
