"""A canonical form of Python and Triton sources: equal forms are the same program up to layout, comments, local names.

It errs towards different: a name is only a local one if a function binds it by plain assignment and nothing else in
the function could tell.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_MEANINGFUL_COMMENT = re.compile(r"\b(?:tune|build-flags):")
_LOOKS_AT_NAMES = frozenset({"locals", "vars", "eval", "exec", "globals", "dir", "inspect", "__import__", "compile"})
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def python_form(source: str) -> str:
    """The canonical form. Sources with different forms may still be equivalent; equal forms always are."""
    try:
        tree = ast.parse(source)
        remarks = _meaningful_lines(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return source
    try:
        if not _looks_at_names(tree):
            for function in _functions(tree):
                _rename_locals(function)
        return "\x00".join((ast.dump(tree), *remarks))
    except RecursionError:
        return source


def _meaningful_lines(source: str) -> list[str]:
    """The lines whose comments mean something to us, in order."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [t.line.strip() for t in tokens if t.type == tokenize.COMMENT and _MEANINGFUL_COMMENT.search(t.string)]


def _looks_at_names(tree: ast.AST) -> bool:
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    names |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    names |= {
        a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names
    }
    return bool(names & _LOOKS_AT_NAMES)


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))


def _rename_locals(function: ast.FunctionDef) -> None:
    """Give the function's own plain variables canonical names, in order of appearance, in place."""
    inner = [n for statement in function.body for n in ast.walk(statement)]
    if any(isinstance(n, _NESTED) for n in inner):
        return
    certain = _bound(function.body) - _entangled(function, inner)
    renamed: dict[str, str] = {}
    for statement in function.body:
        for name in _names_in_order(statement):
            if name.id in certain:
                name.id = renamed.setdefault(name.id, f"\x01{len(renamed)}")


def _bound(body: list[ast.stmt]) -> set[str]:
    """Names that statements of this scope assign to; what a comprehension binds is its own."""
    bound: set[str] = set()
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        if not isinstance(node, _COMPREHENSIONS):
            todo += ast.iter_child_nodes(node)
    return bound


def _entangled(function: ast.FunctionDef, inner: list[ast.AST]) -> set[str]:
    """Names that are bound in ways that are not renamed, or that callers can see."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {a.arg for a in every if a is not None}
    for node in inner:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            # Libraries evaluate expressions in strings with the caller's variables.
            names |= set(_IDENTIFIER.findall(node.value))
        if isinstance(node, ast.Global | ast.Nonlocal):
            names |= set(node.names)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(a.asname or a.name).split(".")[0] for a in node.names}
    return names


def _names_in_order(node: ast.AST) -> Iterator[ast.Name]:
    if isinstance(node, ast.Name):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _names_in_order(child)
