"""How a candidate's failure travels inside the judge: raised where it shows, turned into an evaluation in one place."""

from __future__ import annotations

from evaluators.evaluation import Status

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
