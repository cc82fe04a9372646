"""The alternatives of an op that keep every access local."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..access.flow import BlockGraph
from ..graph.relax_graph import Op, Value
from ..model.layout import Layout
from .alternative import IN_ORDER, Alternative, Candidates
from .layout_constraint import LayoutConstraint
from .op_spec import OpSpec, buffer_of

#: The most inputs of an op whose layouts are enumerated.
LEADING = 3


def copied(op: Op, spec: OpSpec, candidates: Candidates) -> Iterator[Alternative]:
    """The alternatives of a layout-only op in which memory stays the same."""
    assert spec.flow is not None
    source, value = next((k, v) for k, v in enumerate(op.inputs) if v is not None)
    if value.free:
        yield from local(op, spec, candidates)
        return
    for layout in candidates[op.outputs[0]]:
        layouts = spec.flow.spread({buffer_of(spec.flow, len(op.inputs)): layout})
        if layouts is None:
            continue
        order = value.order(layouts[buffer_of(spec.flow, source)])
        same = frozenset(x for x in candidates[value] if value.order(x) == order)
        if same:
            inputs = tuple(same if k == source else None for k in range(len(op.inputs)))
            yield Alternative((layout,), inputs, 0.0, IN_ORDER, (None,) * len(inputs))


def local(op: Op, spec: OpSpec, candidates: Candidates) -> Iterator[Alternative]:
    """The alternatives that keep every access local."""
    flow = spec.flow
    if flow is None or not op.outputs:
        return
    out = buffer_of(flow, len(op.inputs))
    movable = [k for k, v in enumerate(op.inputs) if v is not None and not v.free]
    leading = _leading(op, flow, movable)
    if spec.unfuses and any(_value(op, k).shape == op.outputs[0].shape for k in leading):
        leading = []  # the layout of the result determines theirs
    for layout in candidates[op.outputs[0]]:
        if not leading:
            yield from _from_seeds(op, spec, flow, candidates, {out: layout})
        for k in leading:
            buffer = buffer_of(flow, k)
            for read in candidates[_value(op, k)]:
                yield from _from_seeds(op, spec, flow, candidates, {out: layout, buffer: read})


def _leading(op: Op, flow: BlockGraph, movable: Sequence[int]) -> list[int]:
    """The largest input, and the inputs whose layouts determine those of inner buffers.

    For example, a convolution pads its data, so the data counts even if the kernel is larger.
    """
    inner = set(range(len(flow.ranks))) - set(flow.params)
    through = {p.buffer for s in flow.steps for p in s.reads
               if any(w.buffer in inner for w in s.writes)}  # fmt: skip
    large = sorted(movable, key=lambda k: -weight(_value(op, k)))
    return [k for k in large if k == large[0] or buffer_of(flow, k) in through][:LEADING]


def _from_seeds(
    op: Op, spec: OpSpec, flow: BlockGraph, candidates: Candidates, seeds: dict[int, Layout]
) -> Iterator[Alternative]:
    """The alternatives with these layouts of some buffers, one for each constraint or offer."""
    layouts = spec.spread(seeds)
    if layouts is not None:
        for constraint in spec.constraints or (None,):
            yield from _under_constraint(op, constraint, flow, candidates, seeds, layouts)


def _under_constraint(
    op: Op,
    constraint: LayoutConstraint | None,
    flow: BlockGraph,
    candidates: Candidates,
    seeds: dict[int, Layout],
    layouts: dict[int, Layout],
) -> Iterator[Alternative]:
    """The alternative with these layouts if they meet a constraint, else none."""
    takes = _takes_any if constraint is None else constraint.takes
    outputs = tuple(layouts[buffer_of(flow, len(op.inputs) + k)] for k in range(len(op.outputs)))
    for k, (out, layout) in enumerate(zip(op.outputs, outputs, strict=True)):
        if layout not in candidates[out] or not takes(len(op.inputs) + k, layout):
            return
    inputs: list[frozenset[Layout] | None] = []
    usual: list[Layout | None] = []
    for k, value in enumerate(op.inputs):
        if value is None or value.free:
            inputs.append(None)
            usual.append(None)
            continue
        buffer = buffer_of(flow, k)
        options = [seeds[buffer]] if buffer in seeds else candidates[value]
        kept = [x for x in options if takes(k, x)
                and (buffer in seeds or flow.admits(layouts, buffer, x, seeds))]  # fmt: skip
        if not kept:
            return
        inputs.append(frozenset(kept))
        usual.append(layouts[buffer] if layouts[buffer] in kept else None)
    why = IN_ORDER if constraint is None else constraint.why
    yield Alternative(outputs, tuple(inputs), 0.0, why, tuple(usual))


def _takes_any(param: int, layout: Layout) -> bool:
    return True


def _value(op: Op, k: int) -> Value:
    value = op.inputs[k]
    assert value is not None
    return value


def weight(value: Value) -> int:
    """The bytes of a value without padding; a symbolic extent counts as 64."""
    return value.size(Layout.identity(value.rank))
