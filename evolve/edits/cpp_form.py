"""A canonical form of C++ and CUDA sources: equal forms are the same program up to layout, comments and local names.

It errs towards different. Whatever could make layout or a name matter (stringification, inline assembly, ``__LINE__``)
turns the canonical form back into the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evolve.edits.cpp_scopes import scoped_names
from evolve.edits.cpp_tokens import Tokens, cpp_tokens

_LAYOUT_MATTERS = ("__LINE__", "__COUNTER__", "__FILE__", "source_location", "%:", "??", 'R"')
_NAMES_MATTER = ("asm", "__func__", "__FUNCTION__", "__PRETTY_FUNCTION__", "typeid")
_STRINGIFIES = re.compile(r"\s*#\s*define\b.*#", re.DOTALL)
_MEANINGFUL_LINE = re.compile(r"^.*\b(?:tune|build-flags):.*$", re.MULTILINE)
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_QUALIFIERS = frozenset({".", "->", "::", ".*", "->*", "extern", "goto"})
_OPENING, _CLOSING = frozenset("({["), frozenset(")}]")
_STATEMENT_ENDS, _ANGLES = frozenset(";{}"), frozenset({">", ">>"})


def cpp_form(source: str) -> str:
    """The canonical form. Sources with different forms may still be equivalent; equal forms always are."""
    if any(word in source for word in _LAYOUT_MATTERS):
        return source
    tokens = cpp_tokens(source)
    if any(_is_layout_bound(text, kind) for text, kind in tokens.kinds.items()):
        return source
    remarks = [line.strip() for line in _MEANINGFUL_LINE.findall(source)]
    renamed = {} if any(word in source for word in _NAMES_MATTER) else _local_names(tokens, remarks)
    return "\x00".join([*(renamed.get(text, text) for text in tokens.texts), *remarks])


def _is_layout_bound(text: str, kind: str) -> bool:
    """A macro that makes text of its arguments, or a directive where none was recognised: after a comment."""
    if kind == "directive":
        return _STRINGIFIES.match(text) is not None
    return text in {"#", "##"}


def _local_names(tokens: Tokens, remarks: Sequence[str]) -> dict[str, str]:
    """Names that are certain to be local, each with its canonical one, in order of appearance."""
    scoped = scoped_names(tokens)
    certain = scoped - _entangled(tokens, scoped) - set(_IDENTIFIER.findall("\n".join(remarks)))
    in_order = dict.fromkeys(text for text in tokens.texts if text in certain)
    return {name: f"\x01{n}" for n, name in enumerate(in_order)}


def _entangled(tokens: Tokens, names: set[str]) -> set[str]:
    """Those of the names that also stand for something else: members, calls, templates, macros, globals, text."""
    texts = tokens.texts
    spoken = [text for text, kind in tokens.kinds.items() if kind in {"directive", "string"}]
    entangled = set(_IDENTIFIER.findall("\n".join(spoken)))
    angles = _closed_angles(texts)
    relevant = names | _OPENING | _CLOSING
    depth = 0
    for n, text in enumerate(texts):
        if text not in relevant:
            continue
        if text in names:
            if depth == 0 or _stands_for_more(texts, n, angles):
                entangled.add(text)
        elif text in _OPENING:
            depth += 1
        else:
            depth -= 1
    return entangled


def _stands_for_more(texts: Sequence[str], n: int, angles: Sequence[bool]) -> bool:
    before = texts[n - 1] if n else ""
    after = texts[n + 1] if n + 1 < len(texts) else ""
    if before in _QUALIFIERS or after in {"(", "::"}:
        return True
    return after == "<" and angles[n + 1]


def _closed_angles(texts: Sequence[str]) -> list[bool]:
    """For each token, whether a ``>`` follows in the same statement: a ``<`` there may begin template arguments."""
    follows, answers = False, [False] * len(texts)
    for n in range(len(texts) - 1, -1, -1):
        answers[n] = follows
        if texts[n] in _STATEMENT_ENDS:
            follows = False
        elif texts[n] in _ANGLES:
            follows = True
    return answers
