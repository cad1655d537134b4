"""C++ and CUDA sources as tokens, without layout."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<space>(?:\s|\\\n)+)
  | (?P<line_comment>//(?:\\\n|[^\n])*)
  | (?P<comment>/\*)
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\s\\"]{0,16})\()
  | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<name>[^\W\d]\w*)
  | (?P<punctuation><<=|>>=|\.\.\.|->\*|<=>|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|\.\*|[^\w\s])
    """,
    re.VERBOSE | re.DOTALL,
)
"""Of what may be long, only the opening is matched: its end is searched for once, so that no text takes long."""
_DIRECTIVE = re.compile(r"[ \t]*#(?:\\\n|[^\n])*")
_MEANINGFUL_COMMENT = re.compile(r"\b(?:tune|build-flags):")


@dataclass(frozen=True, slots=True)
class Token:
    """One token. ``kind``: name, number, string, raw, punctuation, directive, or comment: one that means something."""

    kind: str
    text: str


def cpp_tokens(source: str) -> Iterator[Token]:
    """Tokens without layout; a directive is one token, and so is the line of a comment that means something."""
    at, line_start = 0, True
    while at < len(source):
        if line_start and (directive := _DIRECTIVE.match(source, at)):
            yield Token("directive", directive[0].strip())
            at = directive.end()
            continue
        match = _TOKEN.match(source, at)
        assert match is not None  # the last alternative takes any character
        kind, end = str(match.lastgroup), _end(source, match)
        if kind == "space":
            line_start = line_start or "\n" in match[0]
        elif kind in {"line_comment", "comment"}:
            if _MEANINGFUL_COMMENT.search(source, at, end):
                yield Token("comment", _line_of(source, at, end))
        else:
            line_start = False
            yield Token(kind, source[at:end])
        at = end


def _end(source: str, match: re.Match[str]) -> int:
    """Where a token ends; one that is never closed takes all that is left."""
    if match.lastgroup not in {"comment", "raw"}:
        return match.end()
    closing = "*/" if match.lastgroup == "comment" else f'){match["delimiter"]}"'
    found = source.find(closing, match.end())
    return len(source) if found < 0 else found + len(closing)


def _line_of(source: str, start: int, end: int) -> str:
    first = source.rfind("\n", 0, start) + 1
    last = source.find("\n", end)
    return source[first : last if last >= 0 else len(source)].strip()
