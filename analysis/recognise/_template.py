"""Elementwise ops by templates learned from TVM's own legalisation.

An op is legalised once on a tiny instance of the type at hand and lifted. In the scalar formula
that comes out, the loads of the operands and the marks given as attributes are holes:

    leakyrelu(x, alpha)  ↦  x if 0 < x else alpha * x        holes x, alpha

Recognising is filling the holes, in `analysis.recognise._elementwise`. A table of root operations
keeps what has to be learned for one compute small, and the plainest formulas are in the table
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tvm import relax

from ..lifting.lift import lift
from ..lifting.tir.from_tir import Unliftable
from ..proposal.build import NotBuilt, call_op
from ..proposal.legalise import legalise
from ..terms.term import Const, Int, Load, TensorVar, Term, axis, integer, load
from ._scalar import scalar

FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})
INTS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
BOOL = frozenset({"bool"})
NUMBERS = FLOATS | INTS
ANY = NUMBERS | BOOL


@dataclass(frozen=True)
class ElementwiseOp:
    """An elementwise op.

    ``roots``: what the outermost operation of its formula can be; ``uses``: an operation that is in
    it. ``operands``: a fixed type or None for the common one. ``scalars``: operands that may be
    literals. ``attrs``: two marks for each attribute that stands in the formula. ``axis``: the
    operand that is a vector along the attribute ``axis``. ``formula``: of the operands, where it
    need not be learned.
    """

    name: str
    roots: str
    types: frozenset[str] = FLOATS
    operands: tuple[str | None, ...] = (None,)
    scalars: tuple[int, ...] = ()
    uses: str = ""
    attrs: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)
    axis: int | None = None
    formula: Callable[..., Term] | None = None


@dataclass(frozen=True)
class Template:
    """``body`` over holes: loads of the operands, marks of the attributes (one may stand at several
    places), constants derived from the attributes."""

    body: Term
    dtype: str
    operands: tuple[Load, ...]
    attrs: Mapping[str, Term]
    derived: tuple[Term, ...]


@cache
def learn(op: ElementwiseOp, dtype: str) -> Template | str:
    """The template of the op for a type, or why there is none."""
    return learned(op, dtype) if op.formula is None else declared(op, dtype)


def declared(op: ElementwiseOp, dtype: str) -> Template:
    """The template of an op whose formula is known."""
    assert op.formula is not None
    three = integer(3)
    at = (axis(0, three),)
    tensors = [TensorVar(f"p{k}", (three,), t or dtype, k) for k, t in enumerate(op.operands)]
    holes = [load(t, at) for t in tensors]
    body = op.formula(*holes)
    loads = tuple(x for t in holes if isinstance(x := t.atom if isinstance(t, Int) else t, Load))
    return Template(body, dtype if isinstance(body, Int) else body.dtype, loads, {}, ())


def learned(op: ElementwiseOp, dtype: str) -> Template | str:
    """The template from what TVM lowers the op to."""
    first = _formula(op, dtype, 0)
    if isinstance(first, str) or not op.attrs:
        return first if isinstance(first, str) else Template(*first, {}, ())
    second = _formula(op, dtype, 1)
    if isinstance(second, str):
        return second
    body, out, loads = first
    fixed = set(_literals(second[0]))
    marks: dict[str, Term] = {}
    derived = []
    for c in _literals(body):
        if c in fixed:
            continue
        name = next((k for k, v in op.attrs.items() if value_of(c) == v[0]), None)
        if name is None:
            derived.append(c)
        else:
            marks[name] = c
    if marks.keys() != op.attrs.keys():
        return "an attribute is not in the formula"
    return Template(body, out, loads, marks, tuple(derived))


def _formula(op: ElementwiseOp, dtype: str, mark: int) -> tuple[Term, str, tuple[Load, ...]] | str:
    tensors = [
        relax.Var(f"p{k}", relax.TensorType([3], kind or dtype))
        for k, kind in enumerate(op.operands)
    ]
    given: dict[str, Any] = {k: v[mark] for k, v in op.attrs.items()}
    if op.axis is not None:
        given["axis"] = 0
    try:
        found = legalise(call_op(op.name, tensors, given, dtype), tensors)
        if found is None:
            return f"{op.name} of {dtype} is not one PrimFunc"
        lifted = lift(found.func)
    except (Unliftable, NotBuilt) as e:
        return str(e)
    except Exception as e:  # TVM rejects types by all kinds of exceptions
        return f"TVM has no {op.name} of {dtype}: {type(e).__name__}"
    (c,) = lifted.outputs
    loads = scalar(c.body).loads
    by_position = {x.tensor.position: x for x in loads}
    if sorted(by_position) != list(range(len(tensors))):
        return "the formula does not read every operand"
    return c.body, c.out.dtype, tuple(by_position[k] for k in range(len(tensors)))


def _literals(t: Term) -> list[Term]:
    """Literals in a formula: constants, and integers that are one."""
    found = scalar(t)
    return [*found.consts, *(integer(k) for k in found.whole)]


def value_of(c: Term) -> Any:
    return c.const if isinstance(c, Int) else c.value if isinstance(c, Const) else None
