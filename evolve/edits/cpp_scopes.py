"""Which names of a C++ source are variables whose every use lies within the scope of a declaration that we see."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from evolve.edits.cpp_tokens import Token

_BUILTIN = re.compile(
    r"(?:auto|bool|char|short|int|long|unsigned|signed|float|double|size_t|ptrdiff_t|u?int(?:8|16|32|64)_t|_Float16"
    r"|half2?|__half2?|__nv_bfloat162?|(?:float|double|int|uint|short|char)[234]|__m(?:64|128|256|512)(?:[dhi]|bh)?)\Z"
)
_BETWEEN = frozenset({"*", "&", "const", "__restrict__", "__restrict", "restrict", "volatile", "&&"})
_AFTER = frozenset({"=", ";", ",", ")", "[", "{", ":"})


def scoped_names(tokens: Sequence[Token]) -> set[str]:
    """Names declared with a built-in type and never used out of the declaration's scope.

    Scopes are read conservatively: where in doubt one has ended, and a use after it speaks against the name.
    """
    walk = _Walk(tokens)
    for n in range(len(tokens)):
        walk.step(n)
    return walk.declared - walk.escaped


@dataclass
class _Scope:
    kind: str
    """``{``, ``(`` or ``statement``: what follows a parenthesis without braces, up to its semicolon."""
    names: set[str] = field(default_factory=set)


class _Walk:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        names = {t.text for t in tokens if t.kind == "name"}
        self._types = {name for name in names if _BUILTIN.match(name)}
        self._open = [_Scope("{")]
        self._visible: Counter[str] = Counter()
        self._parameters: set[str] = set()
        """Declared in the parenthesis that was just closed, for the block that begins next."""
        self.declared: set[str] = set()
        self.escaped: set[str] = set()

    def step(self, n: int) -> None:
        token = self._tokens[n]
        if token.kind == "punctuation":
            self._bracket(token.text, self._text(n + 1))
        elif token.kind == "name":
            if self._declares(n):
                if token.text not in self._open[-1].names:
                    self._open[-1].names.add(token.text)
                    self._visible[token.text] += 1
                self.declared.add(token.text)
            elif not self._visible[token.text]:
                self.escaped.add(token.text)

    def _bracket(self, text: str, after: str) -> None:
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
        elif text == ";":
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

    def _text(self, n: int) -> str:
        return self._tokens[n].text if n < len(self._tokens) else ""

    def _declares(self, n: int) -> bool:
        """Whether the name is declared here with a built-in type: ``float* out,``, ``const int i =``."""
        tokens = self._tokens
        if n + 1 >= len(tokens) or tokens[n + 1].text not in _AFTER:
            return False
        if tokens[n].text in self._types or tokens[n].text in _BETWEEN:
            return False
        before = n - 1
        while before >= 0 and tokens[before].text in _BETWEEN:
            before -= 1
        return before >= 0 and tokens[before].text in self._types
