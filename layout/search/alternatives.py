"""The alternatives of an op: layouts of its results, and the layouts that it may read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from ..access.flow import BlockGraph
from ..graph.relax_graph import Op, Value
from ..model.digit import Digit
from ..model.layout import Layout
from .constraints import LayoutConstraint
from .operator_forms import Elementwise, ProductForm

GIVEN = "as given"
IN_ORDER = "in the order of its accesses"
#: The cost of another operator in place of an op: less than a conversion.
INSTEAD = 0.5
Candidates = Mapping[Value, Sequence[Layout]]


@dataclass(frozen=True)
class Alternative:
    """One alternative of an op.

    Attributes:
        outputs: The layouts of its results.
        inputs: The layouts in which it may read each input; None for a scalar, or for a constant,
            which takes any layout for free.
        cost: Its cost.
        why: The reason, for reports.
        usual: The layout of each input that the operator has with these results.
        moves: Whether it is a conversion, and costs as much as one.
        constants: The layouts of free inputs; None for other inputs. Empty if they follow from the
            layouts of the others.
    """

    outputs: tuple[Layout, ...]
    inputs: tuple[frozenset[Layout] | None, ...]
    cost: float
    why: str
    usual: tuple[Layout | None, ...] = ()
    moves: bool = False
    constants: tuple[Layout | None, ...] = ()

    @property
    def strict(self) -> Alternative:
        """The alternative with the usual input layouts only."""
        inputs = tuple(
            allowed if allowed is None or layout is None else frozenset((layout,))
            for allowed, layout in zip(self.inputs, self.usual, strict=True)
        )
        return replace(self, inputs=inputs)

    def same_as(self, other: Alternative) -> bool:
        """Whether it reads and writes the same layouts at the same cost."""
        left, right = ((c.outputs, c.inputs, c.cost, c.moves) for c in (self, other))
        return left == right


@dataclass(frozen=True)
class OpSpec:
    """The op spec of a PrimFunc.

    Attributes:
        flow: How layouts flow through it; None if that is unknown.
        reason: Why there is no flow.
        constraint: The constraint on it.
        moves: Whether it is layout-only: the output permutes the elements of the only input.
        replacement: A PrimFunc that is proved to compute the same in the constraint's layouts.
        offers: Constraints that it may meet; otherwise it stays unchanged.
        strings: The operator's layout strings.
        note: Why a given implementation of its operator is not used.
        operator: Whether it must stay a Relax operator.
        form: How its layouts then depend on each other; None if that is not known.
        cached: The alternatives that were computed, by candidate layouts.
    """

    flow: BlockGraph | None
    reason: str = ""
    constraint: LayoutConstraint | None = None
    moves: bool = False
    replacement: Any = None
    offers: tuple[LayoutConstraint, ...] = ()
    strings: tuple[str, ...] = ()
    note: str = ""
    operator: bool = False
    form: Elementwise | ProductForm | None = None
    cached: dict[Any, list[Alternative]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def named(self) -> bool:
        """Whether the constraint is a named implementation, which has other loops."""
        return self.constraint is not None and self.constraint.saved_bytes is not None

    @property
    def constraints(self) -> tuple[LayoutConstraint, ...]:
        """The constraint, or the offers if there is none."""
        return self.offers if self.constraint is None else (self.constraint,)

    @property
    def own_form(self) -> bool:
        """Whether its form describes the operator itself, not a matrix product in its place."""
        return isinstance(self.form, Elementwise) or (self.form is not None and self.form.matmul)

    @property
    def unfuses(self) -> bool:
        """Whether each digit gets a dimension: the indices of an operator are then plain."""
        return self.operator and self.constraint is None

    def spread(self, seeds: dict[int, Layout]) -> dict[int, Layout] | None:
        """The layouts of all buffers from those of some; None if an access would not be local."""
        assert self.flow is not None
        layouts = self.flow.spread(seeds)
        if layouts is None or not self.unfuses:
            return layouts
        return {b: x if b in seeds else x.unfused for b, x in layouts.items()}

    def met(self, chosen: Mapping[int, Layout]) -> LayoutConstraint | None:
        """The constraint, or the offer that these layouts of parameters satisfy."""
        offers = (o for o in self.offers if all(o.takes(k, x) for k, x in chosen.items()))
        return self.constraint or next(offers, None)

    def takes(self, param: int, layout: Layout) -> bool:
        """Whether a parameter may have this layout."""
        if self.constraint is not None or not self.offers:
            return self.constraint is None or self.constraint.takes(param, layout)
        return layout.is_identity or any(o.takes(param, layout) for o in self.offers)


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
    seed = {_buffer(spec.flow, out): Layout.identity(op.outputs[0].rank)}
    layouts = spec.flow.spread(seed)
    value = op.inputs[source]
    if layouts is None or value is None:
        return False
    source_layout = layouts[_buffer(spec.flow, source)]
    return value.order(source_layout) == value.order(Layout.identity(value.rank))


def weight(value: Value) -> int:
    """The bytes of a value without padding; a symbolic extent counts as 64."""
    return value.size(Layout.identity(value.rank))


def _buffer(flow: BlockGraph, param: int) -> int:
    buffer = flow.params[param]
    assert buffer is not None
    return buffer


def _generated(op: Op, spec: OpSpec, candidates: Candidates) -> Iterator[Alternative]:
    if spec.form is not None and spec.own_form:
        return _formed(op, spec, spec.form, candidates)
    if spec.form is not None:
        return chain(_local(op, spec, candidates), _formed(op, spec, spec.form, candidates))
    if spec.moves and spec.unfuses:
        return _copied(op, spec, candidates)
    return _local(op, spec, candidates)


def _copied(op: Op, spec: OpSpec, candidates: Candidates) -> Iterator[Alternative]:
    """The alternatives of a layout-only op in which memory stays the same."""
    assert spec.flow is not None
    source, value = next((k, v) for k, v in enumerate(op.inputs) if v is not None)
    if value.free:
        yield from _local(op, spec, candidates)
        return
    for layout in candidates[op.outputs[0]]:
        layouts = spec.flow.spread({_buffer(spec.flow, len(op.inputs)): layout})
        if layouts is None:
            continue
        order = value.order(layouts[_buffer(spec.flow, source)])
        same = frozenset(x for x in candidates[value] if value.order(x) == order)
        if same:
            inputs = tuple(same if k == source else None for k in range(len(op.inputs)))
            yield Alternative((layout,), inputs, 0.0, IN_ORDER, (None,) * len(inputs))


def _local(op: Op, spec: OpSpec, candidates: Candidates) -> Iterator[Alternative]:
    """The alternatives that keep every access local."""
    flow = spec.flow
    if flow is None or not op.outputs:
        return
    out = _buffer(flow, len(op.inputs))
    movable = [k for k, v in enumerate(op.inputs) if v is not None and not v.free]
    leading = _leading(op, flow, movable)
    if spec.unfuses and any(_value(op, k).shape == op.outputs[0].shape for k in leading):
        leading = []  # the layout of the result determines theirs
    for layout in candidates[op.outputs[0]]:
        if not leading:
            yield from _from_seeds(op, spec, flow, candidates, {out: layout})
        for k in leading:
            buffer = _buffer(flow, k)
            for read in candidates[_value(op, k)]:
                yield from _from_seeds(op, spec, flow, candidates, {out: layout, buffer: read})


def _formed(
    op: Op, spec: OpSpec, form: Elementwise | ProductForm, candidates: Candidates
) -> Iterator[Alternative]:
    """The alternatives in which it stays the same operator."""
    assert spec.flow is not None
    buffers = [_buffer(spec.flow, k) for k in range(len(op.values))]
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


#: The most inputs of an op whose layouts are enumerated.
LEADING = 3


def _leading(op: Op, flow: BlockGraph, movable: Sequence[int]) -> list[int]:
    """The largest input, and the inputs whose layouts determine those of inner buffers.

    For example, a convolution pads its data, so the data counts even if the kernel is larger.
    """
    inner = set(range(len(flow.ranks))) - set(flow.params)
    through = {p.buffer for s in flow.steps for p in s.reads
               if any(w.buffer in inner for w in s.writes)}  # fmt: skip
    large = sorted(movable, key=lambda k: -weight(_value(op, k)))
    return [k for k in large if k == large[0] or _buffer(flow, k) in through][:LEADING]


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
    outputs = tuple(layouts[_buffer(flow, len(op.inputs) + k)] for k in range(len(op.outputs)))
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
        buffer = _buffer(flow, k)
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


def constants(
    op: Op, spec: OpSpec, alternative: Alternative, chosen: Mapping[int, Layout]
) -> dict[int, Layout]:
    """The layouts of an op's constants, by parameter, that fit those of its other values."""
    if alternative.why == GIVEN:
        return {}
    if alternative.constants:
        return {k: x for k, x in enumerate(alternative.constants) if x is not None}
    constant_params = [k for k, v in enumerate(op.inputs) if v is not None and v.free]
    unchanged = all(x.is_identity for x in chosen.values())
    constraint = spec.met(chosen)
    required = constraint.layouts if constraint is not None else {}
    if not constant_params or (unchanged and not required):
        return {}
    layouts = None
    if spec.flow is not None:
        layouts = spec.flow.spread({_buffer(spec.flow, k): x for k, x in chosen.items()})
    exact = constraint is not None and constraint.exact
    if spec.flow is None or layouts is None:  # the required layouts do not flow
        if unchanged and not exact:
            return {}
        return {k: required[k] for k in constant_params if k in required}
    out = {}
    for k in constant_params:
        layout = layouts[_buffer(spec.flow, k)]
        out[k] = required[k] if exact and k in required else layout
        if k in required and not exact:
            out[k] = arranged(layout, required[k])
        if constraint is not None and not constraint.takes(k, out[k]):
            out[k] = required.get(k, Layout.identity(len(layout.dims)))
    return out


def arranged(layout: Layout, target: Layout) -> Layout:
    """The ``target`` layout, with the digits of each axis in the order of ``layout``."""
    if target.permutation is None:
        return target
    digits: dict[int, list[Digit]] = {}
    for digit in layout.digits:
        digits.setdefault(digit.axis, []).append(digit)
    return Layout(tuple(tuple(digits[a]) for a in target.permutation))
