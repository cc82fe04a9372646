"""The alternatives of an op: layouts of its results, and the layouts that it may read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ..graph.relax_graph import Op
from ..model.layout import Layout
from .alternative import GIVEN, Alternative, Candidates
from .local_alternatives import copied, local
from .op_spec import OpSpec, buffer_of
from .operator_alternatives import formed


def alternatives(op: Op, spec: OpSpec, candidates: Candidates) -> list[Alternative]:
    """The alternatives in the candidate layouts; the unchanged one is always among them."""
    key = tuple(tuple(candidates[v]) if v is not None and not v.free else None for v in op.values)
    cached = spec.cached.get(key)
    if cached is None:
        local = list(dict.fromkeys(_generated(op, spec, candidates)))
        cached = spec.cached[key] = local or list(_required(op, spec, candidates))
    if cached and spec.constraint is not None and not spec.named:
        return cached
    unchanged = as_given(op, spec)
    if spec.named:
        return [*cached, unchanged]
    same = any(alternative.outputs == unchanged.outputs
               and all(a is None or b is None or a >= b
                       for a, b in zip(alternative.inputs, unchanged.inputs, strict=True))
               for alternative in cached)  # fmt: skip
    return cached if same else [*cached, unchanged]


def as_given(op: Op, spec: OpSpec) -> Alternative:
    """The unchanged alternative; a layout-only op costs a conversion."""
    inputs = tuple(
        None if value is None or value.free else frozenset((Layout.identity(value.rank),))
        for value in op.inputs
    )
    outputs = tuple(Layout.identity(v.rank) for v in op.outputs)
    moves = spec.moves and not op.outputs[0].weight and not _keeps_memory(op, spec)
    saved_bytes = spec.constraint.saved_bytes if spec.constraint is not None else None
    return Alternative(outputs, inputs, saved_bytes or 0.0, GIVEN, (None,) * len(inputs), moves)


def _keeps_memory(op: Op, spec: OpSpec) -> bool:
    """Whether a layout-only op changes the shape only, not the memory."""
    assert spec.flow is not None
    source = next((k for k, v in enumerate(op.inputs) if v is not None), None)
    if source is None:
        return True
    out = len(op.inputs)
    seed = {buffer_of(spec.flow, out): Layout.identity(op.outputs[0].rank)}
    layouts = spec.flow.spread(seed)
    value = op.inputs[source]
    if layouts is None or value is None:
        return False
    source_layout = layouts[buffer_of(spec.flow, source)]
    return value.order(source_layout) == value.order(Layout.identity(value.rank))


def _generated(op: Op, spec: OpSpec, candidates: Candidates) -> Iterator[Alternative]:
    if spec.form is not None and spec.own_form:
        return formed(op, spec, spec.form, candidates)
    if spec.form is not None:
        return chain(local(op, spec, candidates), formed(op, spec, spec.form, candidates))
    if spec.moves and spec.unfuses:
        return copied(op, spec, candidates)
    return local(op, spec, candidates)


def _required(op: Op, spec: OpSpec, candidates: Candidates) -> Iterator[Alternative]:
    """The alternative that meets the constraint, whether accesses are local or not."""
    if spec.constraint is None or spec.named or not op.outputs:
        return
    required = spec.constraint.layouts
    op_layouts = [None if v is None or v.free else required.get(k, Layout.identity(v.rank))
                  for k, v in enumerate(op.values)]  # fmt: skip
    pairs = zip(op.values, op_layouts, strict=True)
    if any(v is not None and x is not None and x not in candidates[v] for v, x in pairs):
        return
    usual, outputs = tuple(op_layouts[: len(op.inputs)]), op_layouts[len(op.inputs) :]
    inputs = tuple(None if x is None else frozenset((x,)) for x in usual)
    results = tuple(x for x in outputs if x is not None)
    yield Alternative(results, inputs, 0.0, spec.constraint.why, usual)
