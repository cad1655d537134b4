"""How a candidate's failure travels inside the judge: raised where it shows, turned into an evaluation in one place."""

from __future__ import annotations

from evaluators.evaluation import ErrorMeasure, Status


class CandidateFailure(Exception):
    """The candidate at hand gets this verdict. Never leaves the judge as an exception."""

    def __init__(
        self,
        status: Status,
        message: str,
        *,
        detail: str = "",
        errors: dict[str, dict[str, ErrorMeasure]] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.detail = detail
        self.errors = errors or {}
        """Workload -> input family -> what was measured before it failed."""
