"""How a call can fail, as values, and the few exceptions that leave this package.

No exception raised here chains one of an SDK: those carry the request, and with it the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from evaluators.errors import UsageError
from evolve.errors import EvolveError, ProposerDownError
from evolve.types import StopReason


class Scope(StrEnum):
    """How far a failure reaches."""

    RETRY = "retry"
    """The same request may succeed later."""
    CALL = "call"
    """This request will not succeed; others may."""
    MODEL = "model"
    """No request to this model will succeed."""
    PROVIDER = "provider"
    """No request to this provider will succeed."""


class FailureKind(StrEnum):
    """What went wrong, in one word."""

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    NOT_A_MODEL = "not_a_model"
    """Something other than a model answered: a proxy's page, a login form."""
    BROKEN_STREAM = "broken_stream"
    """The answer broke off: connection reset, no end marker, or an error event inside the stream."""
    SILENCE = "silence"
    DEADLINE = "deadline"
    BAD_REQUEST = "bad_request"
    TOO_LONG = "too_long"
    """The prompt exceeds what the model takes."""
    BLOCKED = "blocked"
    """The provider's policy refused the prompt before any model saw it."""
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    NO_SUCH_MODEL = "no_such_model"
    NO_CREDIT = "no_credit"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Failure:
    """Why a request brought no answer. ``message`` is cleaned of keys and capped."""

    kind: FailureKind
    scope: Scope
    message: str
    http_status: int | None = None
    retry_after_s: float | None = None
    """What the server asked for."""

    def __str__(self) -> str:
        status = f" (HTTP {self.http_status})" if self.http_status else ""
        return f"{self.kind}{status}: {self.message}"


class LlmError(EvolveError):
    """Base of what this package raises on purpose, apart from the user's mistakes."""


class CallError(LlmError):
    """The call is over without an answer, after whatever retries it was worth."""

    def __init__(self, model: str, failure: Failure) -> None:
        super().__init__(f"{model}: {failure}")
        self.model = model
        self.failure = failure


class CapError(LlmError):
    """The call was not made: its worst case would pass a cap on money or tokens, whatever is in flight."""

    def __init__(self, text: str, reason: StopReason = StopReason.DOLLARS) -> None:
        super().__init__(text)
        self.reason = reason


class AllModelsDownError(LlmError, ProposerDownError):
    """No model can be asked now. The run pauses and can be resumed; nothing is lost."""

    def __init__(self, reasons: dict[str, str], retry_in_s: float | None, *, asked: bool = False) -> None:
        """``asked``: a server wants so long a rest, so that there is no use in trying sooner."""
        text = "no model can be asked: " + "; ".join(f"{m}: {r}" for m, r in sorted(reasons.items()))
        ProposerDownError.__init__(self, text, retry_in_s)
        self.reasons = reasons
        self.asked = asked


class MissingKeyError(UsageError):
    """The environment variable with a provider's key is not set."""


class MissingPriceError(UsageError):
    """A cap in dollars needs a price for every model."""
