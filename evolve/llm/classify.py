"""From a server's error answer to a :class:`~evolve.llm.errors.Failure`. Shared by both SDKs: the facts are HTTP's."""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Mapping
from typing import Any

from evolve.database.codec import storable
from evolve.llm.errors import Failure, FailureKind, Scope
from evolve.llm.quirks import Complaint

MOST_MESSAGE = 400
"""Characters of a server's words that are kept."""

_K, _S = FailureKind, Scope
_BY_STATUS: dict[int, tuple[FailureKind, Scope]] = {
    401: (_K.AUTHENTICATION, _S.PROVIDER),
    402: (_K.NO_CREDIT, _S.PROVIDER),
    403: (_K.PERMISSION, _S.MODEL),
    404: (_K.NO_SUCH_MODEL, _S.MODEL),
    408: (_K.SERVER_ERROR, _S.RETRY),
    409: (_K.SERVER_ERROR, _S.RETRY),
    413: (_K.TOO_LONG, _S.CALL),
    425: (_K.SERVER_ERROR, _S.RETRY),
    429: (_K.RATE_LIMITED, _S.RETRY),
    503: (_K.OVERLOADED, _S.RETRY),
    529: (_K.OVERLOADED, _S.RETRY),
}
_NO_CREDIT = re.compile(
    r"insufficient_quota|exceeded your current quota|credit balance is too low|spend_limit|billing", re.IGNORECASE
)
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|prompt is too long|context window|too many (?:input )?tokens",
    re.IGNORECASE,
)
_BLOCKED = re.compile(
    r"content_filter|content_policy|invalid_prompt|usage policy|content management policy", re.IGNORECASE
)
_OVERLOADED = re.compile(r"overloaded|server_is_overloaded|engine_overloaded|capacity", re.IGNORECASE)
_RATE_LIMITED = re.compile(r"rate_limit", re.IGNORECASE)
_KEY = re.compile(r"invalid_api_key|authentication_error|invalid x-api-key", re.IGNORECASE)


def complaint_of(status: int, body: object) -> Complaint:
    """Take an error body apart, whichever of the common shapes it has.

    Its words are kept whole: a key is found in them before they are cut, see :func:`shortened`.
    """
    if isinstance(body, str):
        return Complaint(status, _words_of_page(body))
    error: Any = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        return Complaint(status, _line(error if isinstance(error, str) else json.dumps(error, default=str)))
    message = error.get("message") or error.get("detail") or json.dumps(error, default=str)
    code = error.get("code") or error.get("type") or ""
    return Complaint(
        status=status,
        message=_line(message if isinstance(message, str) else json.dumps(message, default=str)),
        param=str(error.get("param") or ""),
        code=str(code),
    )


def failure_of(complaint: Complaint, headers: Mapping[str, str], wall_time: float) -> Failure:
    """Classify an error answer.

    Args:
        complaint: from :func:`complaint_of`.
        headers: of the HTTP response; names in lower case.
        wall_time: Unix seconds now, for a ``Retry-After`` that is a date.
    """
    kind, scope = _kind_of(complaint)
    wait = retry_after_s(headers, wall_time) if scope is Scope.RETRY else None
    return Failure(kind, scope, complaint.message, complaint.status, wait)


def _kind_of(complaint: Complaint) -> tuple[FailureKind, Scope]:
    status, words = complaint.status, f"{complaint.code} {complaint.message}"
    if status in {400, 402, 403, 429} and _NO_CREDIT.search(words):
        return _K.NO_CREDIT, _S.PROVIDER
    if status in {400, 422}:
        return _bad_request(words)
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return (_K.SERVER_ERROR, _S.CALL if status == 501 else _S.RETRY)
    return _K.BAD_REQUEST, _S.CALL


def _bad_request(words: str) -> tuple[FailureKind, Scope]:
    if _TOO_LONG.search(words):
        return _K.TOO_LONG, _S.CALL
    if _BLOCKED.search(words):
        return _K.BLOCKED, _S.CALL
    if _KEY.search(words):
        return _K.AUTHENTICATION, _S.PROVIDER
    return _K.BAD_REQUEST, _S.CALL


def stream_failure(body: object) -> Failure:
    """Classify an error event inside a stream that began well; its HTTP status was 200."""
    complaint = complaint_of(200, body)
    words = f"{complaint.code} {complaint.message}"
    if _NO_CREDIT.search(words):
        return Failure(_K.NO_CREDIT, _S.PROVIDER, complaint.message)
    if _RATE_LIMITED.search(words):
        return Failure(_K.RATE_LIMITED, _S.RETRY, complaint.message)
    if _OVERLOADED.search(words):
        return Failure(_K.OVERLOADED, _S.RETRY, complaint.message)
    if "invalid_request" in words:
        return Failure(_K.BAD_REQUEST, _S.CALL, complaint.message)
    return Failure(_K.BROKEN_STREAM, _S.RETRY, complaint.message)


def retry_after_s(headers: Mapping[str, str], wall_time: float) -> float | None:
    """Seconds the server asks to wait: ``retry-after-ms``, or ``retry-after`` in seconds or as a date."""
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) / divisor
        except (KeyError, ValueError):
            continue
        return seconds if 0 <= seconds < float("inf") else None
    try:
        date = email.utils.parsedate_tz(headers.get("retry-after"))
        return None if date is None else max(0.0, email.utils.mktime_tz(date) - wall_time)
    except (ValueError, OverflowError):  # a date that no calendar has
        return None


def shortened(message: str) -> str:
    """As much of a server's words as is kept. Keys must be out of them: half of one would not be found any more."""
    return message if len(message) <= MOST_MESSAGE else message[: MOST_MESSAGE - 1] + "…"


def _words_of_page(page: str) -> str:
    """What an HTML page says, for a message of one line."""
    title = re.search(r"<title[^>]*>(.*?)</title>", page, re.IGNORECASE | re.DOTALL)
    text = title[1] if title else re.sub(r"<[^>]+>", " ", page)
    return _line(text) or "an empty answer"


def _line(text: str) -> str:
    return " ".join(storable(text).split())
