"""A canonical form of C++ and CUDA sources: equal forms are the same program up to layout, comments and local names.

It errs towards different. Whatever could make layout or a name matter (stringification, inline assembly, ``__LINE__``)
turns the canonical form back into the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evolve.edits.cpp_scopes import scoped_names
from evolve.edits.cpp_tokens import Token, cpp_tokens

_LAYOUT_MATTERS = re.compile(r"\b(?:__LINE__|__COUNTER__|__FILE__|source_location)\b|%:|\?\?")
_STRINGIFIES = re.compile(r"\s*#\s*define\b.*#", re.DOTALL)
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_QUALIFIERS = frozenset({".", "->", "::", ".*", "->*", "extern", "goto"})
_OPENING, _CLOSING = frozenset("({["), frozenset(")}]")
_STATEMENT_ENDS, _ANGLES = frozenset(";{}"), frozenset({">", ">>"})
_NAMES_MATTER = re.compile(r"\b(?:asm|__asm__|__asm|__func__|__FUNCTION__|__PRETTY_FUNCTION__|typeid)\b")


def cpp_form(source: str) -> str:
    """The canonical form. Sources with different forms may still be equivalent; equal forms always are."""
    if _LAYOUT_MATTERS.search(source):
        return source
    tokens = cpp_tokens(source)
    if any(_is_layout_bound(token) for token in tokens):
        return source
    renamed = {} if _NAMES_MATTER.search(source) else _local_names(tokens)
    return "\x00".join(renamed.get(t.text, t.text) if t.kind == "name" else t.text for t in tokens)


def _is_layout_bound(token: Token) -> bool:
    """A macro that makes text of its arguments, or a directive where none was recognised: after a comment."""
    if token.kind == "directive":
        return _STRINGIFIES.match(token.text) is not None
    return token.text in {"#", "##"}


def _local_names(tokens: Sequence[Token]) -> dict[str, str]:
    """Names that are certain to be local, each with its canonical one, in order of appearance."""
    scoped = scoped_names(tokens)
    certain = scoped - _entangled(tokens, scoped)
    renamed: dict[str, str] = {}
    for token in tokens:
        if token.text in certain and token.kind == "name" and token.text not in renamed:
            renamed[token.text] = f"\x01{len(renamed)}"
    return renamed


def _entangled(tokens: Sequence[Token], names: set[str]) -> set[str]:
    """Those of the names that also stand for something else: members, calls, templates, macros, globals, text."""
    entangled: set[str] = set()
    angles = _closed_angles(tokens)
    depth = 0
    for n, token in enumerate(tokens):
        kind, text = token
        if kind == "punctuation":
            depth += (text in _OPENING) - (text in _CLOSING)
        elif kind == "name":
            if text in names and (depth == 0 or _stands_for_more(tokens, n, angles)):
                entangled.add(text)
        elif kind != "number":
            entangled.update(_IDENTIFIER.findall(text))
    return entangled


def _stands_for_more(tokens: Sequence[Token], n: int, angles: Sequence[bool]) -> bool:
    before = tokens[n - 1].text if n else ""
    after = tokens[n + 1].text if n + 1 < len(tokens) else ""
    if before in _QUALIFIERS or after in {"(", "::"}:
        return True
    return after == "<" and angles[n + 1]


def _closed_angles(tokens: Sequence[Token]) -> list[bool]:
    """For each token, whether a ``>`` follows in the same statement: a ``<`` there may begin template arguments."""
    follows, answers = False, [False] * len(tokens)
    for n in range(len(tokens) - 1, -1, -1):
        answers[n] = follows
        text = tokens[n].text
        if text in _STATEMENT_ENDS:
            follows = False
        elif text in _ANGLES:
            follows = True
    return answers
