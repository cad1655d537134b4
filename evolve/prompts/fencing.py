"""Putting foreign text into a prompt so that it stays data.

A fence is longer than any run of backticks in the text, so nothing in the text can close it.
"""

from __future__ import annotations

import re
from functools import lru_cache

_BACKTICKS = re.compile(r"`+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SHORTEST = 3


@lru_cache(maxsize=256)
def fenced(text: str, language: str = "") -> str:
    """A code block that the text cannot end."""
    clean = _printable(text)
    fence = "`" * max(_SHORTEST, _longest_run(clean) + 1)
    info = re.sub(r"[^\w+#.-]", "", language)
    end = "" if clean.endswith("\n") or not clean else "\n"
    return f"{fence}{info}\n{clean}{end}{fence}"


def quoted(text: str) -> str:
    """One line of foreign text as inline code that it cannot end; blank for nothing."""
    line = " ".join(_printable(text).split())
    if not line:
        return ""
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _printable(text: str) -> str:
    """Without control characters, which hide what is there; line ends as line feeds."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))
