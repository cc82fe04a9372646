"""Tensor expressions: the result of lifting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...terms.term import Int, TensorVar, Term, Var
from .extern_call import ExternCall


@dataclass(frozen=True)
class OutputDefinition:
    """The definition of one output: ``out[axes] = body``; an axis of extent 1 is the literal 0."""

    out: TensorVar
    axes: tuple[Int, ...]
    body: Term

    def __repr__(self) -> str:
        return f"{self.out.name}[{', '.join(map(repr, self.axes))}] = {self.body!r}"


@dataclass(frozen=True)
class WrittenSum:
    """An extent such as ``past + 1`` as the PrimFunc writes it, with its variables as terms."""

    expr: Any
    variables: tuple[tuple[Any, Var], ...]


@dataclass(frozen=True)
class TensorExpression:
    """What a PrimFunc computes.

    Attributes:
        params: One tensor or scalar for each parameter, in order, outputs included.
        outputs: The definition of each output: its tensor, its coordinates, and the term of an
            element.
        races: Whether a parallel loop stores at data-dependent addresses; the expression then holds
            only if no two iterations store to one element.
        stages: The number of buffers with a store; 0 if they were not counted.
        promises: Whether the PrimFunc has a ``T.assume``.
        externs: The calls of known extern functions, if they were allowed; the definitions then
            load from their results.
        sums: The sizes that stand for a sum.
        inplace_indices: For each output, the position of the parameter that it updates, or -1;
            empty if updates were not allowed. The new content of an updated parameter follows the
            PrimFunc's own parameters in ``params``.
        distinct: Whether parameters decide where racing stores go, so that a caller can see to it
            that they do not meet.
        assumed: What else it holds only under, in words.
    """

    params: tuple[TensorVar | Var, ...]
    outputs: tuple[OutputDefinition, ...]
    races: bool = False
    stages: int = field(default=0, compare=False)
    promises: bool = field(default=False, compare=False)
    externs: tuple[ExternCall, ...] = field(default=(), compare=False)
    sums: Mapping[Var, WrittenSum] = field(default_factory=dict, compare=False)
    inplace_indices: tuple[int, ...] = field(default=(), compare=False)
    distinct: bool = field(default=True, compare=False)
    assumed: tuple[str, ...] = field(default=(), compare=False)

    @property
    def inputs(self) -> tuple[TensorVar | Var, ...]:
        """The parameters that are not written."""
        written = {id(c.out) for c in self.outputs}
        return tuple(p for p in self.params if id(p) not in written)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.outputs))
