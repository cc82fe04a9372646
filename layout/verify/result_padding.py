"""Prove that the padding of results holds the pad values of their layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...analysis.lifting.effects.tensor_expression import OutputDefinition
from ...analysis.proofs.context import simplify, thorough
from ...analysis.proofs.pairing import Different
from ...analysis.proofs.prove import prove as holds
from ...analysis.terms.condition_terms import ge0
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
    Term,
    as_int,
    const,
    integer,
)
from ...analysis.terms.traversal import rebuild, subterms, tensors
from ...analysis.undo_layouts.coordinate_change import Facts, Index
from ...analysis.undo_layouts.logical_state import map_loads
from ..model.extents import literal, term
from ..model.layout import Layout, ParamLayouts


def _padding_conditions(layout: Layout, index: Index, shape: Index) -> list[Term]:
    """Conditions of which at least one holds exactly where an index is in the padding."""
    logical = map(term, layout.backward(index, literal(shape)))
    conditions = (ge0(p - e) for p, e in zip(logical, shape, strict=True))
    return [c for c in conditions if c is not FALSE]


def check_padding(
    definition: OutputDefinition, layouts: ParamLayouts, shapes: Sequence[Index]
) -> None:
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
    layouts: ParamLayouts, shapes: Sequence[Index], condition: Term
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
