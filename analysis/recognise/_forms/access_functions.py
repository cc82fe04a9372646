"""Access functions of data movement: from output to input coordinates.

A body without arithmetic is a selection of loads, ``out[y] = x[g(y)]`` or
``a[g(y)] if c(y) else …``. Recognisers of data movement compare ``g`` with the definition of
their operator. This file provides ``g`` in the forms they need: as one load, as pieces that each
cover an interval of an axis, as an affine function of one axis, or as an offset into the flattened
tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...results.op_info import Refusal
from ...terms.condition_terms import negate, parts
from ...terms.order import nonneg
from ...terms.term import (
    ONE,
    ZERO,
    CallTerm,
    Const,
    Int,
    Load,
    TensorVar,
    Term,
    as_int,
    bare,
    mul,
    polynomial,
)
from ...terms.traversal import free


@dataclass(frozen=True)
class AccessRead:
    """``out[axes] = tensor[index]``."""

    out: TensorVar
    axes: tuple[Int, ...]
    tensor: TensorVar
    index: tuple[Int, ...]


def read_of(definition: OutputDefinition) -> AccessRead | Refusal:
    """The output as a single load."""
    term = bare(definition.body)
    if not isinstance(term, Load):
        return Refusal("the compute is not one load")
    return AccessRead(definition.out, definition.axes, term.tensor, term.indices)


def single_read(expression: TensorExpression) -> AccessRead | Refusal:
    """The only output as a single load."""
    if len(expression.outputs) != 1:
        return Refusal("the function has several outputs")
    read = read_of(expression.outputs[0])
    if isinstance(read, AccessRead) and read.tensor.scalar:
        return Refusal("a scalar parameter fills the output, so no data is moved")
    return read


@dataclass(frozen=True)
class SelectionLeaf:
    """A leaf of a selection with the conditions that select it."""

    conditions: tuple[Term, ...]
    value: Term


def pieces(body: Term, conditions: tuple[Term, ...] = ()) -> Iterator[SelectionLeaf]:
    """The leaves of nested selections, in the order in which they are tried."""
    term = bare(body)
    if not (isinstance(term, CallTerm) and term.op == "ite"):
        yield SelectionLeaf(conditions, term)
        return
    condition, yes, no = term.args
    yield from pieces(yes, (*conditions, *parts(condition)))
    yield from pieces(no, (*conditions, *parts(negate(condition))))


def begin(conditions: Sequence[Term], coordinate: Int) -> Int:
    """The largest lower bound that conditions on ``coordinate`` alone imply."""
    largest, variables = ZERO, free(coordinate)
    for term in conditions:
        if not (isinstance(term, CallTerm) and term.op in ("ge0", "eq0")):
            continue
        poly = as_int(term.args[0])
        lower = coordinate - poly
        bound = lower if free(lower).isdisjoint(variables) else coordinate + poly
        if (term.op == "eq0" or bound is lower) and free(bound).isdisjoint(variables):
            largest = bound if nonneg(bound - largest) else largest
    return largest


def affine(index: Int, coordinate: Int) -> tuple[Int, Int] | None:
    """Return ``(offset, stride)`` of an index; the coordinate of an axis of extent 1 is 0."""
    if coordinate is ZERO:
        return index, ONE
    (variable,) = free(coordinate)
    stride = polynomial(
        {tuple(a for a in m if a is not variable): c for m, c in index.terms if variable in m}
    )
    offset = index - mul(stride, coordinate)
    if variable in free(offset) or variable in free(stride):
        return None
    return offset, stride


def ratio(a: Int, b: Int) -> int | None:
    """The literal k with ``a = k * b``, or None."""
    lead = b.terms[0] if b.terms else None
    coef = dict(a.terms).get(lead[0]) if lead else None
    if lead is None or coef is None or coef % lead[1]:
        return None
    k = coef // lead[1]
    return k if b * k is a else None


def literal(term: Term) -> float | int | bool | None:
    """The value of a literal."""
    if isinstance(term, Int):
        return term.const
    return term.value if isinstance(term, Const) and not isinstance(term.value, str) else None


def plain(poly: Int) -> int | Int:
    """A dimension as an attribute: a Python integer if it is one."""
    return poly if poly.const is None else poly.const


def dims(shape: Sequence[Int]) -> tuple[int | Int, ...]:
    return tuple(map(plain, shape))
