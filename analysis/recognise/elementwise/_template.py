"""Templates of elementwise operators, learned from TVM's own legalisation.

An operator is legalised once on a small instance of each dtype and lifted. In the resulting scalar
formula, the loads of the operands and the marks passed as attributes are holes:

    leakyrelu(x, alpha)  ↦  x if 0 < x else alpha * x        holes x, alpha

To recognise an operator is to fill the holes (`analysis.recognise.elementwise._elementwise`). A
table of root operations limits what has to be learned for one compute, and contains the simplest
formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tvm import relax

from ...lifting.lift import lift
from ...lifting.tir.unliftable import Unliftable
from ...proposal.call_op import NotBuilt, call_op
from ...proposal.legalise import legalise
from ...terms.term import Const, Int, Load, TensorVar, Term, axis, integer, load
from .._forms.sums_of_products import bare
from ._scalar import scalar

FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})
INTS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
BOOL = frozenset({"bool"})
NUMBERS = FLOATS | INTS
ANY = NUMBERS | BOOL


@dataclass(frozen=True)
class ElementwiseOp:
    """An elementwise op.

    Attributes:
        roots: The possible outermost operations of its formula.
        operands: A fixed dtype for each operand, or None for the common one.
        scalars: Operands that may be literals.
        uses: An operation that the formula contains.
        attrs: Two marks for each attribute that occurs in the formula.
        axis: The operand that is a vector along the attribute ``axis``.
        formula: The formula over the operands, if it need not be learned.
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
    """A formula with holes: loads of operands, marks of attributes, constants derived from these.

    A mark may occur several times in ``body``."""

    body: Term
    dtype: str
    operands: tuple[Load, ...]
    attrs: Mapping[str, Term]
    derived: tuple[Term, ...]


@cache
def learn(op: ElementwiseOp, dtype: str) -> Template | str:
    """The template of the operator for a dtype, or the reason why it has none."""
    return learned(op, dtype) if op.formula is None else declared(op, dtype)


def declared(op: ElementwiseOp, dtype: str) -> Template:
    """The template of an operator whose formula is known."""
    assert op.formula is not None
    three = integer(3)
    at = (axis(0, three),)
    tensors = [TensorVar(f"p{k}", (three,), kind or dtype, k) for k, kind in enumerate(op.operands)]
    holes = [load(t, at) for t in tensors]
    body = op.formula(*holes)
    loads = tuple(term for hole in holes if isinstance(term := bare(hole), Load))
    return Template(body, dtype if isinstance(body, Int) else body.dtype, loads, {}, ())


def learned(op: ElementwiseOp, dtype: str) -> Template | str:
    """The template derived from TVM's lowering of the operator."""
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
    for term in _literals(body):
        if term in fixed:
            continue
        name = next((k for k, v in op.attrs.items() if value_of(term) == v[0]), None)
        if name is None:
            derived.append(term)
        else:
            marks[name] = term
    if marks.keys() != op.attrs.keys():
        return "an attribute is not in the formula"
    return Template(body, out, loads, marks, tuple(derived))


def _formula(op: ElementwiseOp, dtype: str, mark: int) -> tuple[Term, str, tuple[Load, ...]] | str:
    tensors = [
        relax.Var(f"p{k}", relax.TensorType([3], kind or dtype))
        for k, kind in enumerate(op.operands)
    ]
    attrs: dict[str, Any] = {k: v[mark] for k, v in op.attrs.items()}
    if op.axis is not None:
        attrs["axis"] = 0
    try:
        lowered = legalise(call_op(op.name, tensors, attrs, dtype), tensors)
        if lowered is None:
            return f"{op.name} of {dtype} is not one PrimFunc"
        lifted = lift(lowered.func)
    except (Unliftable, NotBuilt) as error:
        return str(error)
    except Exception as error:  # TVM rejects dtypes with various exceptions
        return f"TVM has no {op.name} of {dtype}: {type(error).__name__}"
    (definition,) = lifted.outputs
    loads = scalar(definition.body).loads
    by_position = {x.tensor.position: x for x in loads}
    if sorted(by_position) != list(range(len(tensors))):
        return "the formula does not read every operand"
    return (
        definition.body,
        definition.out.dtype,
        tuple(by_position[k] for k in range(len(tensors))),
    )


def _literals(term: Term) -> list[Term]:
    """Literals in a formula: constants and literal integers."""
    formula = scalar(term)
    return [*formula.consts, *(integer(k) for k in formula.integers)]


def value_of(term: Term) -> Any:
    return term.const if isinstance(term, Int) else term.value if isinstance(term, Const) else None
