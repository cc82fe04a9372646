"""The ways in which an op can be done: layouts of its results, and those that it may read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..access.flow import BlockGraph
from ..graph.relax_graph import Op, Value
from ..model.buffer_bytes import size_of
from ..model.digit import Digit
from ..model.layout import Layout
from .constraints import Want

GIVEN = "as given"
Candidates = Mapping[Value, Sequence[Layout]]


@dataclass(frozen=True)
class Choice:
    """One implementation of an op: it writes ``outputs`` and reads each input in any of a set.

    None stands for an input that is no tensor, or a constant, which takes any layout for free.
    ``usual`` has the one that an operator of the result's layout would read. ``moves``: it is a
    conversion of its result itself, and costs as much as one.
    """

    outputs: tuple[Layout, ...]
    inputs: tuple[frozenset[Layout] | None, ...]
    cost: float
    why: str
    usual: tuple[Layout | None, ...] = ()
    moves: bool = False

    @property
    def strict(self) -> Choice:
        """Only with the usual layouts."""
        inputs = tuple(
            given if given is None or u is None else frozenset((u,))
            for given, u in zip(self.inputs, self.usual, strict=True)
        )
        return replace(self, inputs=inputs)

    def same_as(self, other: Choice) -> bool:
        """Whether it reads and writes the same layouts at the same cost."""
        mine, others = ((c.outputs, c.inputs, c.cost, c.moves) for c in (self, other))
        return mine == others


@dataclass(frozen=True)
class Kind:
    """What is known of a PrimFunc: its flow or why it has none, what is wanted, if it only moves.

    ``moves``: each element of the output is one of the only input, all of them. ``replacement`` is
    a PrimFunc that is proved to compute the same in the wanted layouts. ``offers`` are wants that
    may be met, beside which it only stays as given. ``strings`` are the operator's layout strings.
    """

    flow: BlockGraph | None
    reason: str = ""
    want: Want | None = None
    moves: bool = False
    replacement: Any = None
    offers: tuple[Want, ...] = ()
    strings: tuple[str, ...] = ()
    known: dict[Any, list[Choice]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def named(self) -> bool:
        """Whether what is wanted is an implementation with loops of its own."""
        return self.want is not None and self.want.worth is not None

    @property
    def wants(self) -> tuple[Want, ...]:
        """What is wanted, or offered."""
        return self.offers if self.want is None else (self.want,)

    def met(self, chosen: Mapping[int, Layout]) -> Want | None:
        """What is wanted, or the offer that these layouts by parameter are."""
        offers = (o for o in self.offers if all(o.takes(k, x) for k, x in chosen.items()))
        return self.want or next(offers, None)

    def takes(self, param: int, layout: Layout) -> bool:
        """Whether a parameter may have this layout."""
        if self.want is not None or not self.offers:
            return self.want is None or self.want.takes(param, layout)
        return layout.is_identity or any(o.takes(param, layout) for o in self.offers)


def choices(op: Op, kind: Kind, candidates: Candidates) -> list[Choice]:
    """The implementations among the candidate layouts; the given one is always there."""
    key = tuple(tuple(candidates[v]) if v is not None and not v.free else None for v in op.values)
    found = kind.known.get(key)
    if found is None:
        local = list(dict.fromkeys(_local(op, kind, candidates)))
        found = kind.known[key] = local or list(_asked(op, kind, candidates))
    if found and kind.want is not None and not kind.named:
        return found
    given = as_given(op, kind)
    if kind.named:
        return [*found, given]
    same = any(c.outputs == given.outputs
               and all(a is None or b is None or a >= b
                       for a, b in zip(c.inputs, given.inputs, strict=True))
               for c in found)  # fmt: skip
    return found if same else [*found, given]


def as_given(op: Op, kind: Kind) -> Choice:
    """The op as the program has it; one that only moves elements pays for it."""
    inputs = tuple(
        None if v is None or v.free else frozenset((Layout.identity(v.rank),)) for v in op.inputs
    )
    outputs = tuple(Layout.identity(v.rank) for v in op.outputs)
    moves = kind.moves and not op.outputs[0].weight and not _still(op, kind)
    worth = kind.want.worth if kind.want is not None else None
    return Choice(outputs, inputs, worth or 0.0, GIVEN, (None,) * len(inputs), moves)


def _still(op: Op, kind: Kind) -> bool:
    """Whether a move leaves memory as it is: only its shape is another."""
    assert kind.flow is not None
    source = next((k for k, v in enumerate(op.inputs) if v is not None), None)
    if source is None:
        return True
    out = len(op.inputs)
    seed = {_buffer(kind.flow, out): Layout.identity(op.outputs[0].rank)}
    given = kind.flow.spread(seed)
    value = op.inputs[source]
    if given is None or value is None:
        return False
    own = given[_buffer(kind.flow, source)]
    return own.order(value.shape) == Layout.identity(value.rank).order(value.shape)


def weight(v: Value) -> int:
    """Bytes of a value as the program has it; a symbolic extent counts 64."""
    return size_of(v.shape, v.dtype)


def _buffer(flow: BlockGraph, param: int) -> int:
    found = flow.params[param]
    assert found is not None
    return found


def _local(op: Op, kind: Kind, candidates: Candidates) -> Iterator[Choice]:
    """Those that keep every access local."""
    flow = kind.flow
    if flow is None or not op.outputs:
        return
    out = _buffer(flow, len(op.inputs))
    laid = [k for k, v in enumerate(op.inputs) if v is not None and not v.free]
    firsts = _leading(op, flow, laid)
    for one in candidates[op.outputs[0]]:
        if not firsts:
            yield from _choice(op, kind, flow, candidates, {out: one})
        for k in firsts:
            b = _buffer(flow, k)
            for other in candidates[_value(op, k)]:
                yield from _choice(op, kind, flow, candidates, {out: one, b: other})


def _asked(op: Op, kind: Kind, candidates: Candidates) -> Iterator[Choice]:
    """What is wanted of all operands and the result, whether accesses are local or not."""
    if kind.want is None or kind.named or not op.outputs:
        return
    every = [None if v is None or v.free else kind.want.layouts.get(k, Layout.identity(v.rank))
             for k, v in enumerate(op.values)]  # fmt: skip
    pairs = zip(op.values, every, strict=True)
    if any(v is not None and x is not None and x not in candidates[v] for v, x in pairs):
        return
    usual, outputs = tuple(every[: len(op.inputs)]), every[len(op.inputs) :]
    inputs = tuple(None if x is None else frozenset((x,)) for x in usual)
    made = tuple(x for x in outputs if x is not None)
    yield Choice(made, inputs, 0.0, kind.want.why, usual)


#: More inputs of an op do not lead.
LEADING = 3


def _leading(op: Op, flow: BlockGraph, laid: Sequence[int]) -> list[int]:
    """The largest input, and those whose layouts decide the ones of inner buffers.

    A convolution pads its data, however large the kernel is.
    """
    inner = set(range(len(flow.ranks))) - set(flow.params)
    through = {p.buffer for s in flow.steps for p in s.reads
               if any(w.buffer in inner for w in s.writes)}  # fmt: skip
    large = sorted(laid, key=lambda k: -weight(_value(op, k)))
    return [k for k in large if k == large[0] or _buffer(flow, k) in through][:LEADING]


def _choice(
    op: Op, kind: Kind, flow: BlockGraph, candidates: Candidates, seeds: dict[int, Layout]
) -> Iterator[Choice]:
    """The choices with these layouts of some buffers, one for all that is wanted or offered."""
    known = flow.spread(seeds)
    if known is not None:
        for want in kind.wants or (None,):
            yield from _met(op, want, flow, candidates, seeds, known)


def _met(
    op: Op, want: Want | None, flow: BlockGraph, candidates: Candidates, seeds: dict[int, Layout],
    known: dict[int, Layout],
) -> Iterator[Choice]:  # fmt: skip
    takes = _anything if want is None else want.takes
    outputs = tuple(known[_buffer(flow, len(op.inputs) + k)] for k in range(len(op.outputs)))
    for k, (out, layout) in enumerate(zip(op.outputs, outputs, strict=True)):
        if layout not in candidates[out] or not takes(len(op.inputs) + k, layout):
            return
    inputs: list[frozenset[Layout] | None] = []
    usual: list[Layout | None] = []
    for k, v in enumerate(op.inputs):
        if v is None or v.free:
            inputs.append(None)
            usual.append(None)
            continue
        b = _buffer(flow, k)
        own = [seeds[b]] if b in seeds else candidates[v]
        kept = [x for x in own if takes(k, x)
                and (b in seeds or flow.admits(known, b, x, seeds))]  # fmt: skip
        if not kept:
            return
        inputs.append(frozenset(kept))
        usual.append(known[b] if known[b] in kept else None)
    why = "in the order of its accesses" if want is None else want.why
    yield Choice(outputs, tuple(inputs), 0.0, why, tuple(usual))


def _anything(param: int, layout: Layout) -> bool:
    return True


def _value(op: Op, k: int) -> Value:
    found = op.inputs[k]
    assert found is not None
    return found


def constants(op: Op, kind: Kind, chosen: Mapping[int, Layout]) -> dict[int, Layout]:
    """The layouts of an op's constants, by parameter, that go with those of its other values."""
    laid = [k for k, v in enumerate(op.inputs) if v is not None and v.free]
    given = all(x.is_identity for x in chosen.values())
    want = kind.met(chosen)
    wanted = want.layouts if want is not None else {}
    if not laid or (given and not wanted):
        return {}
    known = None
    if kind.flow is not None:
        known = kind.flow.spread({_buffer(kind.flow, k): x for k, x in chosen.items()})
    exact = want is not None and want.exact
    if kind.flow is None or known is None:  # what was asked for does not flow
        return {} if given and not exact else {k: wanted[k] for k in laid if k in wanted}
    out = {}
    for k in laid:
        found = known[_buffer(kind.flow, k)]
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
