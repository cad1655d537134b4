"""C++ and CUDA sources as tokens, without layout."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_TOKEN = re.compile(
    r"""
    (?![RuUL])[^\W\d]\w*                                            # most names
  | [(){}\[\];,=*.](?![=*.\d])                                      # most punctuation
  | ^[ \t]*\#(?:\\\n|[^\n])*                                        # a directive, to the end of its line
  | (?:\s|\\\n)+
  | (?:u8|[uUL])?"(?:\\(?s:.)|[^"\\\n])*"
  | (?:u8|[uUL])?'(?:\\(?s:.)|[^'\\\n])+'
  | [^\W\d]\w*
  | \.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*                              # a number, as the preprocessor sees it
  | //(?:\\\n|[^\n])*
  | /\*(?s:.*?\*/|.*\Z)                                             # never closed, a comment takes all that is left
  | <<=|>>=|\.\.\.|->\*|<=>|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|\.\*|[^\w\s]
    """,
    re.VERBOSE | re.MULTILINE,
)
_OUTLINE = re.compile(
    r"""
    [^\W\d]\w*                                                       # a name
  | \s+
  | /(?: /(?:\\\n|[^\n])* | \*(?s:.*?\*/|.*\Z) )                    # a comment
  | ( "(?:\\(?s:.)|[^"\\\n])*" | '(?:\\(?s:.)|[^'\\\n])+' | \d(?:[\w.]|'(?=\w))* | [^\w\s"'/]+ | . )
    """,
    re.VERBOSE,
)
_KINDS = (
    ("directive", re.compile(r"[ \t]*#.")),
    ("name", re.compile(r"[^\W\d]\w*\Z")),
    ("number", re.compile(r"\.?\d")),
    ("string", re.compile(r".*[\"']\Z", re.DOTALL)),
)


@dataclass(frozen=True)
class Tokens:
    """A source's tokens in order, comments left out."""

    texts: list[str]

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Text -> directive, name, number, string or punctuation."""
        return {text: _kind(text) for text in set(self.texts)}


def cpp_tokens(source: str) -> Tokens:
    """Take a source apart. It must hold no raw string: those are not recognised."""
    return Tokens([t for t in _TOKEN.findall(source) if not t.isspace() and t[:2] not in {"//", "/*"}])


def cpp_outline(source: str) -> str:
    """A source without names, layout and comments. Sources of equal tokens but for names have equal outlines.

    Made in half the time that the tokens take.
    """
    return "".join(_OUTLINE.findall(source))


def _kind(text: str) -> str:
    return next((kind for kind, pattern in _KINDS if pattern.match(text)), "punctuation")
