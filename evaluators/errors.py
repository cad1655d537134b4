"""Exceptions of the judge. A bad candidate is never one of them: it is a :class:`~evaluators.evaluation.Evaluation`."""


class EvaluatorsError(Exception):
    """Base of every error this package raises on purpose."""


class UsageError(EvaluatorsError):
    """The user's mistake: bad file, key or value. Its text is one line that says what to do; no traceback is shown."""


class TaskError(UsageError):
    """A task folder, ``task.toml`` or ``reference.py`` that cannot be used. Names the file and the key."""


class SandboxError(UsageError):
    """The sandbox is below the configured minimum on this host."""


class JudgeError(EvaluatorsError):
    """Our fault: the judge, the zygote or the device failed. Becomes ``infra_error`` for the candidate at hand."""
