"""A PrimFunc as definitions of tensors, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..terms.term import Int, TensorVar, Term, Var, axis
from ..terms.traversal import substitute


@dataclass(frozen=True)
class TensorDefinition:
    """``tensor[y0, y1, …] = body``, as the top-level ``statements`` compute it.

    If the body is not known, it is None and ``problem`` says why; ``opaque`` says that the
    statement itself is not understood; ``updates`` that it reads the parameter's old content.
    ``order`` has the tensors that are read, in the order in
    which the statements name them. For ``races``, ``promises``, ``distinct`` and ``assumed`` see
    `TensorExpression`.
    """

    tensor: TensorVar
    body: Term | None
    statements: frozenset[int]
    problem: str = ""
    order: tuple[TensorVar, ...] = ()
    races: bool = False
    promises: bool = False
    opaque: bool = False
    distinct: bool = True
    updates: bool = False
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class TensorProgram:
    """A PrimFunc's definitions in order; ``outputs`` are those of its output parameters.

    ``buffers`` maps a tensor to its TIR buffer, ``variables`` a TIR variable to its term;
    ``statements`` are the top-level statements, ``writers`` the tensors that each of them writes,
    ``readers`` the definitions that read a tensor. ``inplace_indices`` has, for each output, the
    position of the parameter whose old content it updates, or -1.
    """

    func: Any
    params: tuple[TensorVar | Var, ...]
    definitions: tuple[TensorDefinition, ...]
    outputs: tuple[TensorVar, ...]
    buffers: dict[TensorVar, Any]
    variables: dict[Any, Any]
    statements: tuple[Any, ...]
    writers: tuple[frozenset[TensorVar], ...]
    readers: dict[TensorVar, frozenset[TensorVar]]
    inplace_indices: tuple[int, ...] = ()


def coordinates_of(tensor: TensorVar) -> tuple[Int, ...]:
    """Return the coordinates over which the definition of a tensor is written."""
    return tuple(axis(d, e) for d, e in enumerate(tensor.shape))


def body_at(body: Term, tensor: TensorVar, index: tuple[Int, ...]) -> Term:
    """Return the body of a tensor's definition at an element."""
    pairs = zip(coordinates_of(tensor), index, strict=True)
    return substitute(body, {a.atom: i for a, i in pairs if isinstance(a.atom, Var)})
