"""Prove that a PrimFunc over other layouts computes the same.

Both are lifted. Every buffer of the new one is taken back to logical coordinates, by one move
(`analysis.undo_layouts.move`) with the layout's index map. That leaves two definitions over the
same buffers, which are proved equal output by output.

    out[i] = out'[forward(i)],    x'[q] = x[backward(q)]    where q = forward(backward(q))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...analysis.certify.certify import input_assumptions, proof_assumptions, regroups
from ...analysis.lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...analysis.lifting.lift import lift
from ...analysis.lifting.loops.reduction import canonical
from ...analysis.lifting.tir.from_tir import Unliftable
from ...analysis.proofs.context import simplify, thorough
from ...analysis.proofs.equal import prove_equal
from ...analysis.proofs.pairing import Different
from ...analysis.proofs.proof import Proof
from ...analysis.proofs.prove import prove as holds
from ...analysis.results.op_info import ASSUMED, Certificate, Refusal
from ...analysis.terms.condition_terms import conj, eq0, ge0
from ...analysis.terms.evaluate import Unevaluable, evaluate
from ...analysis.terms.reduction_terms import identity
from ...analysis.terms.scalar import call
from ...analysis.terms.term import (
    FALSE,
    INT_DTYPES,
    CallTerm,
    Const,
    Load,
    Reduce,
    TensorVar,
    Term,
    Var,
    as_int,
    const,
    integer,
    load,
)
from ...analysis.terms.traversal import map_loads as rename
from ...analysis.terms.traversal import rebuild, subterms, tensors
from ...analysis.undo_layouts.move import (
    CoordinateChange,
    Facts,
    Index,
    LogicalState,
    apply_change,
    map_loads,
)
from ..model.extents import literal, physical, term
from ..model.layout import Layout

Layouts = Sequence[Layout | None]

_PADDING = "the padding of operands holds their layouts' pad values"


@dataclass(frozen=True)
class LiftedFunction:
    """A PrimFunc and what it computes."""

    func: Any
    lifted: TensorExpression

    @property
    def shapes(self) -> list[Index]:
        """The shape of each parameter; empty for a scalar."""
        return [p.shape if isinstance(p, TensorVar) else () for p in self.lifted.params]


def lift_function(func: Any) -> LiftedFunction | Refusal:
    """The lifted PrimFunc, or why it cannot be lifted."""
    try:
        return LiftedFunction(func, lift(func))
    except Unliftable as error:
        return Refusal(error.reason, error.where)
    except RecursionError:
        return Refusal("the compute is nested too deeply")


def prove(func: Any, new: Any, layouts: Layouts) -> Certificate | Refusal:
    """Whether ``new`` is ``func`` over buffers in these layouts, one for each parameter.

    The proof covers the padding of results as well: it holds the layout's pad value, if there is
    one, provided that the padding of operands does.
    """
    lifted = lift_function(func)
    return prove_moved(lifted, new, layouts) if isinstance(lifted, LiftedFunction) else lifted


def prove_moved(func: LiftedFunction, new: Any, layouts: Layouts) -> Certificate | Refusal:
    """`prove` for a PrimFunc that is lifted already."""
    after = lift_function(new)
    if isinstance(after, Refusal):
        return after
    try:
        logical = _over_logical(after.lifted, layouts, func)
        return _prove_outputs(func.lifted, logical, after.lifted, layouts, func.shapes)
    except Different as error:
        return Refusal(str(error))
    except RecursionError:
        return Refusal("the compute is nested too deeply")


def _over_logical(
    after: TensorExpression, layouts: Layouts, func: LiftedFunction
) -> TensorExpression:
    """The new PrimFunc's expression over the old one's buffers; results are moved first."""
    state = LogicalState(after)
    before = func.lifted.params
    if len(before) != len(after.params):
        raise Different(f"{len(after.params)} parameters, expected {len(before)}")
    for position in reversed(range(len(before))):
        old_param, new_param = before[position], after.params[position]
        if not isinstance(old_param, TensorVar) or not isinstance(new_param, TensorVar):
            if old_param is not new_param:
                raise Different(f"parameter {position} is a different scalar")
            continue
        layout = layouts[position] or Layout.identity(len(old_param.shape))
        if (
            physical(old_param.shape, layout) != new_param.shape
            or old_param.dtype != new_param.dtype
        ):
            raise Different(f"parameter {position} does not have the physical shape of {layout}")
        if not layout.is_identity:
            state = apply_change(state, position, _move(layout, old_param.shape, new_param.shape))
    return _with_params(state.lifted, before)


def _with_params(lifted: TensorExpression, params: tuple[TensorVar | Var, ...]) -> TensorExpression:
    """The expression over other parameters of the same shapes."""
    tensor_of = {t: params[t.position] for t in lifted.params if isinstance(t, TensorVar)}

    def reload(tensor: TensorVar, index: Index) -> Term:
        new = tensor_of[tensor]
        assert isinstance(new, TensorVar)
        return load(new, index)

    outputs = []
    for definition in lifted.outputs:
        new = tensor_of[definition.out]
        assert isinstance(new, TensorVar)
        outputs.append(
            replace(
                definition,
                out=new,
                body=rename(definition.body, frozenset(tensor_of), reload),
            )
        )
    return replace(lifted, params=params, outputs=tuple(outputs))


def _move(layout: Layout, shape: Index, physical_shape: Index) -> CoordinateChange:
    """The change to logical coordinates; every access must be at an element."""
    extents = literal(shape)

    def old(index: Index) -> Index:
        return tuple(map(term, layout.forward(index, extents)))

    def new(index: Index, facts: Facts) -> Index:
        logical = tuple(map(term, layout.backward(index, extents)))
        for coordinate, image, extent in zip(index, old(logical), physical_shape, strict=True):
            if coordinate is image:
                continue
            inside = conj(ge0(coordinate), ge0(extent - 1 - coordinate))
            if not (holds(eq0(coordinate - image), facts).proved or holds(inside, facts).proved):
                raise Different(f"an access may be outside the physical buffer: {coordinate}")
        return logical

    return CoordinateChange(shape, old, new)


def _prove_outputs(
    before: TensorExpression,
    logical: TensorExpression,
    after: TensorExpression,
    layouts: Layouts,
    shapes: Sequence[Index],
) -> Certificate | Refusal:
    if before.races != after.races or len(before.outputs) != len(after.outputs):
        return Refusal(
            "the PrimFuncs differ in their number of outputs, or in whether stores may race"
        )
    if not set(after.assumed) <= set(before.assumed):
        return Refusal("only the new PrimFunc holds under an assumption", after.assumed[0])
    proof = Proof()
    for old, new, raw in zip(before.outputs, logical.outputs, after.outputs, strict=True):
        if old.out is not new.out:
            return Refusal("the PrimFuncs write different parameters")
        body = canonical(new.body)
        if old.body is not body and _doubled(old.body) is not _doubled(body):
            part = prove_equal(old.body, body)
            proof.obligations += part.obligations
            proof.reassociated |= part.reassociated
            proof.finite |= part.finite
            proof.ordered |= part.ordered
        proof.reassociated |= regroups(old.body, "add", "mul")
        proof.ordered |= regroups(old.body, "min", "max")
        _check_padding(raw, layouts, shapes)
    exact = not (proof.reassociated or proof.finite or proof.ordered)
    padded = any(x is not None and x.pad_value is not None and x.padded(literal(s))
                 for x, s in zip(layouts, shapes, strict=True))  # fmt: skip
    assumptions = (
        *ASSUMED,
        *input_assumptions(before),
        *proof_assumptions(proof),
        *([_PADDING] if padded else []),
    )
    return Certificate("proved", exact, assumptions, tuple(proof.obligations))


def _doubled(node: Term) -> Term:
    """The term with ``2 * x`` for ``x + x``: both are exact, and overflow alike."""
    known: dict[Term, Term] = {}

    def doubled(term: Term) -> Term:
        if term not in known:
            new = rebuild(term, doubled)
            if isinstance(new, CallTerm) and new.op == "add" and "float" in new.dtype:
                left, right = new.args
                if left is right:
                    new = call("mul", (left, const(2.0, new.dtype)), new.dtype)
            known[term] = new
        return known[term]

    return doubled(node)


# ---------------------------------------------------------------------------- padding


def _padding_conditions(layout: Layout, index: Index, shape: Index) -> list[Term]:
    """Conditions of which at least one holds exactly where an index is in the padding."""
    logical = map(term, layout.backward(index, literal(shape)))
    conditions = (ge0(p - e) for p, e in zip(logical, shape, strict=True))
    return [c for c in conditions if c is not FALSE]


def _check_padding(definition: OutputDefinition, layouts: Layouts, shapes: Sequence[Index]) -> None:
    """Raises `Different` if the padding of a result may not hold its pad value."""
    position = definition.out.position
    layout = layouts[position]
    if layout is None or layout.pad_value is None or not layout.padded(literal(shapes[position])):
        return
    for condition in _padding_conditions(layout, definition.axes, shapes[position]):
        body = definition.body
        for tensor in sorted(tensors(body), key=lambda tensor: tensor.position):
            body = map_loads(body, tensor, _padding_value(layouts, shapes, condition))
        if not _is_number(simplify(body, (condition,), thorough), layout.pad_value):
            raise Different(f"the padding of {definition.out.name} may not hold {layout.pad_value}")


def _padding_value(
    layouts: Layouts, shapes: Sequence[Index], condition: Term
) -> Callable[[Load, Facts], Term]:
    """A map from loads to pad values, for loads that read padding where ``condition`` holds."""

    def value(access: Load, facts: Facts) -> Term:
        unchanged = as_int(access) if access.dtype in INT_DTYPES else access
        layout, shape = layouts[access.tensor.position], shapes[access.tensor.position]
        if layout is None or layout.pad_value is None:
            return unchanged
        outside = _padding_conditions(layout, access.indices, shape)
        if not any(holds(c, (condition, *facts)).proved for c in outside):
            return unchanged
        if access.dtype in INT_DTYPES:
            return integer(int(layout.pad_value))
        return const(
            float(layout.pad_value) if "float" in access.dtype else layout.pad_value, access.dtype
        )

    return value


#: Operations with the same result on every machine.
_EXACT = frozenset(
    "add sub mul div max min abs neg floor ceil trunc nearbyint sqrt ite and or not ge0 eq0 "
    "lt le gt ge eq ne".split()
)


def _is_number(node: Term, value: float) -> bool:
    """Whether a term is this number; 0.0 and -0.0 differ."""
    node = _folded(node)
    if tensors(node) or any(isinstance(s, CallTerm) and s.op not in _EXACT for s in subterms(node)):
        return False
    try:
        result = evaluate(node, {})
    except Unevaluable:
        return False
    expected = np.asarray(value, result.dtype)
    return result.ndim == 0 and bool(
        result == expected and np.signbit(result) == np.signbit(expected)
    )


def _folded(node: Term) -> Term:
    """The term without reductions over a constant."""
    if isinstance(node, Reduce):
        if node.body is identity(node.op, node.dtype):
            return _folded(node.init)
        if node.op in ("min", "max") and isinstance(node.body, Const):
            return call(node.op, (_folded(node.init), node.body), node.dtype)
    return rebuild(node, _folded)
