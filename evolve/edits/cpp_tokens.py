"""C++ and CUDA sources as tokens, without layout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?:[ \t]|\\\n)*
    (?:
    (?P<space>\s+|\Z)
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\s\\"]{0,16})\()
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<name>[^\W\d]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<line_comment>//(?:\\\n|[^\n])*)
  | (?P<comment>/\*)
  | (?P<punctuation><<=|>>=|\.\.\.|->\*|<=>|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|\.\*|[^\w\s])
    )
    """,
    re.VERBOSE | re.DOTALL,
)
"""Of what may be long, only the opening is matched: its end is searched for once, so that no text takes long."""
_DIRECTIVE = re.compile(r"[ \t]*#(?:\\\n|[^\n])*")
_MEANINGFUL_COMMENT = re.compile(r"\b(?:tune|build-flags):")


class Token(NamedTuple):
    """One token. ``kind``: name, number, string, raw, punctuation, directive, or comment: one that means something."""

    kind: str
    text: str


def cpp_tokens(source: str) -> Iterator[Token]:
    """Tokens without layout; a directive is one token, and so is the line of a comment that means something."""
    at, line_start, length = 0, True, len(source)
    while at < length:
        if line_start and (directive := _DIRECTIVE.match(source, at)):
            yield Token("directive", directive[0].strip())
            at = directive.end()
            continue
        match = _TOKEN.match(source, at)
        assert match is not None  # the last alternative takes any character
        kind = str(match.lastgroup)
        start, at = match.start(kind), match.end()
        if kind == "space":
            line_start = line_start or "\n" in match[0]
            continue
        if kind in {"line_comment", "comment"}:
            at = at if kind == "line_comment" else _after(source, "*/", at)
            if _MEANINGFUL_COMMENT.search(source, start, at):
                yield Token("comment", _line_of(source, start, at))
            continue
        if kind == "raw":
            at = _after(source, f'){match["delimiter"]}"', at)
        line_start = False
        yield Token(kind, source[start:at])


def _after(source: str, closing: str, at: int) -> int:
    """Where a token ends; one that is never closed takes all that is left."""
    found = source.find(closing, at)
    return len(source) if found < 0 else found + len(closing)


def _line_of(source: str, start: int, end: int) -> str:
    first = source.rfind("\n", 0, start) + 1
    last = source.find("\n", end)
    return source[first : last if last >= 0 else len(source)].strip()
