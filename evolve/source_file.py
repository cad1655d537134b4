"""A program's text as people hand it in: in a file."""

from __future__ import annotations

from pathlib import Path

from evaluators.errors import UsageError

SOURCE_LIMIT_BYTES = 1 << 20
"""No program anybody writes is larger; a task may have a smaller limit of its own."""


def read_source(file: Path) -> str:
    """A program's text from a file.

    Raises:
        UsageError: it cannot be read, is larger than any program may be, or is no UTF-8 text.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(SOURCE_LIMIT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    if len(content) > SOURCE_LIMIT_BYTES:
        raise UsageError(f"{file}: is larger than a program may be, which is {SOURCE_LIMIT_BYTES} bytes")
    if b"\0" in content:
        raise UsageError(f"{file}: not a text: it holds a NUL character")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 text: {error.reason} at byte {error.start}") from None
