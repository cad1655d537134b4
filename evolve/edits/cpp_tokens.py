"""C++ and CUDA sources as tokens, without layout."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<common_name>(?![RuUL])[^\W\d]\w*)
  | (?P<common_punctuation>[(){}\[\];,=*.])(?![=*.\d])
  | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<space>(?:\s|\\\n)+)
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\s\\"]{0,16})\((?s:.*?\)(?P=delimiter)"|.*\Z))
  | (?P<string>(?:u8|[uUL])?"(?:\\(?s:.)|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\(?s:.)|[^'\\\n])+')
  | (?P<name>[^\W\d]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<remark>//(?:\\\n|[^\n])*|/\*(?s:.*?\*/|.*\Z))
  | (?P<punctuation><<=|>>=|\.\.\.|->\*|<=>|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|\.\*|[^\w\s])
    """,
    re.VERBOSE | re.MULTILINE,
)
"""What is never closed takes all that is left: looking for its end again and again would take long."""
_KINDS = {"common_name": "name", "common_punctuation": "punctuation"}
"""The first two alternatives are only there to find most tokens early."""
_MEANINGFUL = re.compile(r"\b(?:tune|build-flags):")


class Token(NamedTuple):
    """One token. ``kind``: name, number, string, raw, punctuation, directive, or remark: a comment with a meaning."""

    kind: str
    text: str


def cpp_tokens(source: str) -> list[Token]:
    """Tokens without layout; a directive is one token, and so is the line of a comment that means something."""
    tokens = []
    for match in _TOKEN.finditer(source):
        kind = str(match.lastgroup)
        if kind == "space":
            continue
        text = match.group()
        if kind == "remark":
            if _MEANINGFUL.search(text):
                tokens.append(Token("remark", _line_of(source, match.start(), match.end())))
        else:
            tokens.append(Token(_KINDS.get(kind, kind), text))
    return tokens


def _line_of(source: str, start: int, end: int) -> str:
    first = source.rfind("\n", 0, start) + 1
    last = source.find("\n", end)
    return source[first : last if last >= 0 else len(source)].strip()
