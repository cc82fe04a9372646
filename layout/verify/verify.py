"""Prove that a PrimFunc over other layouts computes the same.

Both are lifted. Every buffer of the new one is taken back to logical coordinates, by one
change (`analysis.undo_layouts.coordinate_change`) with the layout's index map. That leaves two
definitions over the same buffers, which are proved equal output by output.

    out[i] = out'[forward(i)],    x'[q] = x[backward(q)]    where q = forward(backward(q))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...analysis.certify.stated_assumptions import (
    input_assumptions,
    proof_assumptions,
    regroups,
)
from ...analysis.lifting.effects.tensor_expression import TensorExpression
from ...analysis.lifting.lift import lift
from ...analysis.lifting.loops.reduction import canonical
from ...analysis.lifting.tir.unliftable import Unliftable
from ...analysis.proofs.equal import prove_equal
from ...analysis.proofs.pairing import Different
from ...analysis.proofs.proof import Proof
from ...analysis.proofs.prove import prove as holds
from ...analysis.results.op_info import ASSUMED, Certificate, Refusal
from ...analysis.terms.condition_terms import conj, eq0, ge0
from ...analysis.terms.scalar import call
from ...analysis.terms.term import CallTerm, TensorVar, Term, Var, const, load
from ...analysis.terms.traversal import map_loads as rename
from ...analysis.terms.traversal import rebuild
from ...analysis.undo_layouts.coordinate_change import CoordinateChange, Facts, Index
from ...analysis.undo_layouts.logical_state import LogicalState, apply_change
from ..model.extents import literal, physical, term
from ..model.layout import Layout, ParamLayouts
from .result_padding import check_padding

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


def prove(func: Any, new: Any, layouts: ParamLayouts) -> Certificate | Refusal:
    """Whether ``new`` is ``func`` over buffers in these layouts, one for each parameter.

    The proof covers the padding of results as well: it holds the layout's pad value, if there is
    one, provided that the padding of operands does.
    """
    lifted = lift_function(func)
    return prove_moved(lifted, new, layouts) if isinstance(lifted, LiftedFunction) else lifted


def prove_moved(func: LiftedFunction, new: Any, layouts: ParamLayouts) -> Certificate | Refusal:
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
    after: TensorExpression, layouts: ParamLayouts, func: LiftedFunction
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
    layouts: ParamLayouts,
    shapes: Sequence[Index],
) -> Certificate | Refusal:
    """Prove the outputs equal, and their padding right, one by one."""
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
        check_padding(raw, layouts, shapes)
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
