"""Which names of a C++ source are variables whose every use lies within the scope of a declaration that we see."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from evolve.edits.cpp_tokens import Tokens

_BUILTIN = re.compile(
    r"(?:auto|bool|char|short|int|long|unsigned|signed|float|double|size_t|ptrdiff_t|u?int(?:8|16|32|64)_t|_Float16"
    r"|half2?|__half2?|__nv_bfloat162?|(?:float|double|int|uint|short|char)[234]|__m(?:64|128|256|512)(?:[dhi]|bh)?)\Z"
)
_BETWEEN = frozenset({"*", "&", "const", "__restrict__", "__restrict", "restrict", "volatile", "&&"})
_AFTER = frozenset({"=", ";", ",", ")", "[", "{", ":"})
_BRACKETS = frozenset("{}();")


def scoped_names(tokens: Tokens) -> set[str]:
    """Names declared with a built-in type and never used out of the declaration's scope.

    Scopes are read conservatively: where in doubt one has ended, and a use after it speaks against the name.
    """
    texts = tokens.texts
    declarations = _declarations(tokens)
    declared = {texts[n] for n in declarations}
    relevant = declared | _BRACKETS
    scopes = _Scopes()
    escaped = set()
    for n, text in enumerate(texts):
        if text not in relevant:
            continue
        if text in _BRACKETS:
            scopes.bracket(text, texts[n + 1] if n + 1 < len(texts) else "")
        elif n in declarations:
            scopes.declare(text)
        elif not scopes.sees(text):
            escaped.add(text)
    return declared - escaped


def _declarations(tokens: Tokens) -> set[int]:
    """Where names are declared with a built-in type: ``float* out,``, ``const int i =``."""
    texts, kinds = tokens.texts, tokens.kinds
    types = {text for text, kind in kinds.items() if kind == "name" and _BUILTIN.match(text)}
    found = set()
    for n, text in enumerate(texts):
        if text not in types:
            continue
        at = n + 1
        while at < len(texts) and texts[at] in _BETWEEN:
            at += 1
        named = at + 1 < len(texts) and kinds[texts[at]] == "name" and texts[at] not in types
        if named and texts[at + 1] in _AFTER:
            found.add(at)
    return found


@dataclass
class _Scope:
    kind: str
    """``{``, ``(`` or ``statement``: what follows a parenthesis without braces, up to its semicolon."""
    names: set[str] = field(default_factory=set)


class _Scopes:
    """The scopes that are open at a place."""

    def __init__(self) -> None:
        self._open = [_Scope("{")]
        self._visible: Counter[str] = Counter()
        self._parameters: set[str] = set()
        """Declared in the parenthesis that was just closed, for the block that begins next."""

    def declare(self, name: str) -> None:
        names = self._open[-1].names
        if name not in names:
            names.add(name)
            self._visible[name] += 1

    def sees(self, name: str) -> bool:
        return self._visible[name] > 0

    def bracket(self, text: str, after: str) -> None:
        if text == "{":
            self._enter("{", self._parameters)
            self._parameters = set()
        elif text == "(":
            self._enter("(", set())
        elif text == ")":
            names = self._close("(")
            if after == "{":
                self._parameters = names
            elif names:
                self._enter("statement", names)
        elif text == "}":
            self._close("{")
            self._end_statement()
        else:
            self._end_statement()

    def _enter(self, kind: str, names: set[str]) -> None:
        self._open.append(_Scope(kind, names))
        self._visible.update(names)

    def _leave(self) -> _Scope:
        scope = self._open.pop()
        self._visible.subtract(scope.names)
        return scope

    def _close(self, kind: str) -> set[str]:
        while len(self._open) > 1:
            scope = self._leave()
            if scope.kind == kind:
                return scope.names
        return set()

    def _end_statement(self) -> None:
        while self._open[-1].kind == "statement":
            self._leave()
