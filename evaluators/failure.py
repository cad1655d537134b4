"""How a candidate's failure travels inside the judge: raised where it shows, turned into an evaluation in one place."""

from __future__ import annotations

from evaluators.errors import JudgeError
from evaluators.evaluation import Status
from evaluators.zygote.request import ExitStatus

CHALLENGER, OCCUPANT = "challenger", "occupant"


class CandidateFailure(Exception):
    """The candidate at hand gets this verdict. Never leaves the judge as an exception."""

    def __init__(self, status: Status, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.detail = detail
        self.whose = CHALLENGER
        """In a duel: which of the two failed."""


def verdict_of_exit(status: ExitStatus, when: str, words: str) -> tuple[Status, str]:
    """The verdict on a runner that ended although nobody asked it to."""
    if status.out_of_memory or "std::bad_alloc" in words or "MemoryError" in words:
        return Status.OUT_OF_MEMORY, f"ran out of memory {when}"
    if status.signal is not None:
        return Status.RUNTIME_ERROR, f"killed by {status.signal_name} {when}"
    return Status.RUNTIME_ERROR, f"exited with code {status.code} {when}"


def our_failure(error: JudgeError) -> CandidateFailure:
    """A failure of the judge or its device while a candidate was in hand, as the verdict that says so."""
    return CandidateFailure(Status.INFRA_ERROR, str(error))
