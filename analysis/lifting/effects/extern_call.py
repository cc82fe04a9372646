"""Calls of extern functions as values.

Nothing is known of such a function but its documentation: it reads whole arrays, and fills its
output arrays from them and from its other arguments. So each output is a tensor of its own, an
`ExternResult`, which is the same object wherever the same function is called with the same operands
and arguments, and is equal to nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from ...terms.term import Int, TensorVar, Term

Argument = int | bool | str


@dataclass(frozen=True)
class Operand:
    """The contents of an array that an extern function reads: ``array[axes] = body``."""

    shape: tuple[Int, ...]
    dtype: str
    body: Term


class ExternCall:
    """A call of a known extern function.

    Attributes:
        function: The function's name.
        operands: The arrays that it reads.
        arguments: The other arguments by the names of the documentation; an axis is counted from
            the front.
        results: The arrays that it fills.
    """

    def __init__(
        self,
        function: str,
        operands: tuple[Operand, ...],
        arguments: Mapping[str, Argument],
        types: Sequence[tuple[tuple[Int, ...], str]],
    ) -> None:
        self.function, self.operands, self.arguments = function, operands, arguments
        self.results = tuple(ExternResult(self, k, *ty) for k, ty in enumerate(types))


class ExternResult(TensorVar):
    """An array that an extern function fills."""

    __slots__ = ("call", "number")

    def __init__(self, call: ExternCall, number: int, shape: tuple[Int, ...], dtype: str) -> None:
        super().__init__(f"{call.function}.{number}", shape, dtype)
        self.call, self.number = call, number


_known: WeakValueDictionary[Any, ExternCall] = WeakValueDictionary()


def extern_call(
    function: str,
    operands: tuple[Operand, ...],
    arguments: Mapping[str, Argument],
    types: tuple[tuple[tuple[Int, ...], str], ...],
) -> ExternCall:
    """Return the call: the same object for equal parts."""
    key = (function, operands, tuple(arguments.items()), types)
    call = _known.get(key)
    if call is None:
        call = _known[key] = ExternCall(function, operands, arguments, types)
    return call
