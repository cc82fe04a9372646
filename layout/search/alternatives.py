"""The alternatives of an op: layouts of its results, and the layouts that it may read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..access.flow import BlockGraph
from ..graph.relax_graph import Op, Value
from ..model.buffer_bytes import size_of
from ..model.digit import Digit
from ..model.layout import Layout
from .constraints import LayoutConstraint

GIVEN = "as given"
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
        moves: It is a conversion, and costs as much as one.
    """

    outputs: tuple[Layout, ...]
    inputs: tuple[frozenset[Layout] | None, ...]
    cost: float
    why: str
    usual: tuple[Layout | None, ...] = ()
    moves: bool = False

    @property
    def strict(self) -> Alternative:
        """The alternative with the usual input layouts only."""
        inputs = tuple(
            given if given is None or layout is None else frozenset((layout,))
            for given, layout in zip(self.inputs, self.usual, strict=True)
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
        moves: It is layout-only: the output permutes the elements of the only input.
        replacement: A PrimFunc that is proved to compute the same in the constraint's layouts.
        offers: Constraints that it may meet; otherwise it stays unchanged.
        strings: The operator's layout strings.
        cached: The alternatives by candidate layouts.
    """

    flow: BlockGraph | None
    reason: str = ""
    constraint: LayoutConstraint | None = None
    moves: bool = False
    replacement: Any = None
    offers: tuple[LayoutConstraint, ...] = ()
    strings: tuple[str, ...] = ()
    cached: dict[Any, list[Alternative]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def named(self) -> bool:
        """Whether the constraint is a named implementation, which has other loops."""
        return self.constraint is not None and self.constraint.saved_bytes is not None

    @property
    def constraints(self) -> tuple[LayoutConstraint, ...]:
        """The constraint, or the offers if there is none."""
        return self.offers if self.constraint is None else (self.constraint,)

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
    known = spec.cached.get(key)
    if known is None:
        local = list(dict.fromkeys(_local(op, spec, candidates)))
        known = spec.cached[key] = local or list(_required(op, spec, candidates))
    if known and spec.constraint is not None and not spec.named:
        return known
    given = as_given(op, spec)
    if spec.named:
        return [*known, given]
    same = any(choice.outputs == given.outputs
               and all(a is None or b is None or a >= b
                       for a, b in zip(choice.inputs, given.inputs, strict=True))
               for choice in known)  # fmt: skip
    return known if same else [*known, given]


def as_given(op: Op, spec: OpSpec) -> Alternative:
    """The unchanged alternative; a layout-only op costs a conversion."""
    inputs = tuple(
        None if value is None or value.free else frozenset((Layout.identity(value.rank),))
        for value in op.inputs
    )
    outputs = tuple(Layout.identity(v.rank) for v in op.outputs)
    moves = spec.moves and not op.outputs[0].weight and not _keeps_memory(op, spec)
    worth = spec.constraint.saved_bytes if spec.constraint is not None else None
    return Alternative(outputs, inputs, worth or 0.0, GIVEN, (None,) * len(inputs), moves)


def _keeps_memory(op: Op, spec: OpSpec) -> bool:
    """Whether a layout-only op changes the shape only, not the memory."""
    assert spec.flow is not None
    source = next((k for k, v in enumerate(op.inputs) if v is not None), None)
    if source is None:
        return True
    out = len(op.inputs)
    seed = {_buffer(spec.flow, out): Layout.identity(op.outputs[0].rank)}
    given = spec.flow.spread(seed)
    value = op.inputs[source]
    if given is None or value is None:
        return False
    own = given[_buffer(spec.flow, source)]
    return own.order(value.shape) == Layout.identity(value.rank).order(value.shape)


def weight(value: Value) -> int:
    """The bytes of a value without padding; a symbolic extent counts as 64."""
    return size_of(value.shape, value.dtype)


def _buffer(flow: BlockGraph, param: int) -> int:
    found = flow.params[param]
    assert found is not None
    return found


def _local(op: Op, spec: OpSpec, candidates: Candidates) -> Iterator[Alternative]:
    """The alternatives that keep every access local."""
    flow = spec.flow
    if flow is None or not op.outputs:
        return
    out = _buffer(flow, len(op.inputs))
    laid = [k for k, v in enumerate(op.inputs) if v is not None and not v.free]
    firsts = _leading(op, flow, laid)
    for layout in candidates[op.outputs[0]]:
        if not firsts:
            yield from _from_seeds(op, spec, flow, candidates, {out: layout})
        for k in firsts:
            b = _buffer(flow, k)
            for read in candidates[_value(op, k)]:
                yield from _from_seeds(op, spec, flow, candidates, {out: layout, b: read})


def _required(op: Op, spec: OpSpec, candidates: Candidates) -> Iterator[Alternative]:
    """The alternative that meets the constraint, whether accesses are local or not."""
    if spec.constraint is None or spec.named or not op.outputs:
        return
    every = [None if v is None or v.free else spec.constraint.layouts.get(k, Layout.identity(v.rank))
             for k, v in enumerate(op.values)]  # fmt: skip
    pairs = zip(op.values, every, strict=True)
    if any(v is not None and x is not None and x not in candidates[v] for v, x in pairs):
        return
    usual, outputs = tuple(every[: len(op.inputs)]), every[len(op.inputs) :]
    inputs = tuple(None if x is None else frozenset((x,)) for x in usual)
    results = tuple(x for x in outputs if x is not None)
    yield Alternative(results, inputs, 0.0, spec.constraint.why, usual)


#: Inputs of an op whose layouts are enumerated at most.
LEADING = 3


def _leading(op: Op, flow: BlockGraph, laid: Sequence[int]) -> list[int]:
    """The largest input, and those whose layouts determine those of inner buffers.

    For example, a convolution pads its data, so the data counts even if the kernel is larger.
    """
    inner = set(range(len(flow.ranks))) - set(flow.params)
    through = {p.buffer for s in flow.steps for p in s.reads
               if any(w.buffer in inner for w in s.writes)}  # fmt: skip
    large = sorted(laid, key=lambda k: -weight(_value(op, k)))
    return [k for k in large if k == large[0] or _buffer(flow, k) in through][:LEADING]


def _from_seeds(
    op: Op, spec: OpSpec, flow: BlockGraph, candidates: Candidates, seeds: dict[int, Layout]
) -> Iterator[Alternative]:
    """The alternatives with these layouts of some buffers, one for each constraint or offer."""
    known = flow.spread(seeds)
    if known is not None:
        for want in spec.constraints or (None,):
            yield from _under_constraint(op, want, flow, candidates, seeds, known)


def _under_constraint(
    op: Op, want: LayoutConstraint | None, flow: BlockGraph, candidates: Candidates, seeds: dict[int, Layout],
    known: dict[int, Layout],
) -> Iterator[Alternative]:  # fmt: skip
    takes = _takes_any if want is None else want.takes
    outputs = tuple(known[_buffer(flow, len(op.inputs) + k)] for k in range(len(op.outputs)))
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
        b = _buffer(flow, k)
        own = [seeds[b]] if b in seeds else candidates[value]
        kept = [x for x in own if takes(k, x)
                and (b in seeds or flow.admits(known, b, x, seeds))]  # fmt: skip
        if not kept:
            return
        inputs.append(frozenset(kept))
        usual.append(known[b] if known[b] in kept else None)
    why = "in the order of its accesses" if want is None else want.why
    yield Alternative(outputs, tuple(inputs), 0.0, why, tuple(usual))


def _takes_any(param: int, layout: Layout) -> bool:
    return True


def _value(op: Op, k: int) -> Value:
    found = op.inputs[k]
    assert found is not None
    return found


def constants(op: Op, spec: OpSpec, chosen: Mapping[int, Layout]) -> dict[int, Layout]:
    """The layouts of an op's constants, by parameter, that fit those of its other values."""
    laid = [k for k, v in enumerate(op.inputs) if v is not None and v.free]
    given = all(x.is_identity for x in chosen.values())
    want = spec.met(chosen)
    wanted = want.layouts if want is not None else {}
    if not laid or (given and not wanted):
        return {}
    known = None
    if spec.flow is not None:
        known = spec.flow.spread({_buffer(spec.flow, k): x for k, x in chosen.items()})
    exact = want is not None and want.exact
    if spec.flow is None or known is None:  # the required layouts do not flow
        return {} if given and not exact else {k: wanted[k] for k in laid if k in wanted}
    out = {}
    for k in laid:
        found = known[_buffer(spec.flow, k)]
        out[k] = wanted[k] if exact and k in wanted else found
        if k in wanted and not exact:
            out[k] = arranged(found, wanted[k])
        if want is not None and not want.takes(k, out[k]):
            out[k] = wanted.get(k, Layout.identity(len(found.dims)))
    return out


def arranged(layout: Layout, wanted: Layout) -> Layout:
    """The wanted layout with the digits of each axis in the order that ``layout`` has them."""
    if wanted.permutation is None:
        return wanted
    own: dict[int, list[Digit]] = {}
    for d in layout.digits:
        own.setdefault(d.axis, []).append(d)
    return Layout(tuple(tuple(own[a]) for a in wanted.permutation))
