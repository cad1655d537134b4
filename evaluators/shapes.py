"""Shapes of a task's arguments: expressions over axes, evaluated without running any code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evaluators.task import Arg

_MAX_LENGTH = 200
_PARSING = Lock()
"""``ast.parse`` of Python 3.11 fails with a SystemError where several threads are in it and the collector runs."""


class ShapeError(ValueError):
    """An expression that is not a shape. Its text says why, in a few words."""


def axis_names(args: Iterable[Arg]) -> tuple[str, ...]:
    """Every axis of the arguments' shapes, in order of first appearance: the order in which an entry receives them."""
    names: dict[str, None] = {}
    for arg in args:
        for dimension in arg.shape:
            if isinstance(dimension, str):
                nodes = [n for n in ast.walk(_parse(dimension)) if isinstance(n, ast.Name)]
                names.update(dict.fromkeys(n.id for n in sorted(nodes, key=lambda n: n.col_offset)))
    return tuple(names)


def evaluate_shape(arg: Arg, axes: Mapping[str, int]) -> tuple[int, ...]:
    """The argument's shape for these axes.

    Raises:
        ShapeError: an unknown axis, a division by zero or a negative size.
    """
    return tuple(d if isinstance(d, int) else evaluate_expression(d, axes) for d in arg.shape)


def evaluate_expression(text: str, axes: Mapping[str, int]) -> int:
    """Evaluate one dimension: integers, axes, ``+ - * //`` and parentheses.

    Raises:
        ShapeError: not such an expression, an unknown axis, a division by zero or a negative size.
    """
    size = _value(_parse(text), axes)
    if size < 0:
        raise ShapeError(f"{text!r} is {size} for {dict(axes)}; a size cannot be negative")
    return size


@lru_cache(1024)
def _parse(text: str) -> ast.expr:
    if len(text) > _MAX_LENGTH:
        raise ShapeError(f"an expression of {len(text)} characters; at most {_MAX_LENGTH}")
    try:
        with _PARSING:
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ShapeError(f"{text!r} is not an expression") from None
    _check(tree, text)
    return tree


def _check(node: ast.expr, text: str) -> None:
    match node:
        case ast.Name():
            return
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv(), right=right):
            _check(left, text)
            _check(right, text)
        case _:
            raise ShapeError(f"{text!r}: only integers, axes, + - * // and parentheses are allowed")


def _value(node: ast.expr, axes: Mapping[str, int]) -> int:
    match node:
        case ast.Name(id=name):
            if name not in axes:
                raise ShapeError(f"axis {name!r} is not given")
            return axes[name]
        case ast.Constant(value=int() as value):
            return value
        case ast.BinOp(left=left, op=op, right=right):
            return _apply(op, _value(left, axes), _value(right, axes))
    raise AssertionError(f"_check let {ast.dump(node)} through")


def _apply(op: ast.operator, left: int, right: int) -> int:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
    if right == 0:
        raise ShapeError("division by zero")
    return left // right
