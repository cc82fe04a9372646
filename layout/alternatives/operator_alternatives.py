"""The alternatives in which an op stays the same operator, or is another one in its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..graph.relax_graph import Op
from ..model.layout import Layout
from .alternative import IN_ORDER, Alternative, Candidates
from .op_spec import OpSpec, buffer_of
from .operator_forms import Elementwise, ProductForm

#: The cost of another operator in place of an op: less than a conversion.
INSTEAD = 0.5


def formed(
    op: Op, spec: OpSpec, form: Elementwise | ProductForm, candidates: Candidates
) -> Iterator[Alternative]:
    """The alternatives in which it stays the same operator."""
    assert spec.flow is not None
    buffers = [buffer_of(spec.flow, k) for k in range(len(op.values))]
    free = frozenset(buffers[k] for k, v in enumerate(op.inputs) if v is None or v.free)
    known = [(buffers[k], x) for k, v in enumerate(op.inputs) if v is not None and not v.free
             for x in candidates[v]]  # fmt: skip
    for layout in candidates[op.outputs[0]]:
        for order in form.orders(known):
            for layouts in form.of_result(layout, order, free):
                alternative = _of_layouts(
                    op, [layouts[b] for b in buffers], candidates, spec.own_form
                )
                if alternative is not None:
                    yield alternative


def _of_layouts(
    op: Op, layouts: Sequence[Layout], candidates: Candidates, own: bool
) -> Alternative | None:
    """The alternative with these layouts of parameters; None if one is not a candidate."""
    inputs: list[frozenset[Layout] | None] = []
    for value, layout in zip(op.inputs, layouts, strict=False):
        assert value is not None
        if not value.free and layout not in candidates[value]:
            return None
        inputs.append(None if value.free else frozenset((layout,)))
    usual = tuple(None if x is None else y for x, y in zip(inputs, layouts, strict=False))
    constants = tuple(y if x is None else None for x, y in zip(inputs, layouts, strict=False))
    outputs = tuple(layouts[len(op.inputs) :])
    cost, why = (0.0, IN_ORDER) if own else (INSTEAD, "as a matrix product")
    return Alternative(outputs, tuple(inputs), cost, why, usual, constants=constants)
