"""The pattern kind of a tensor expression, as operator fusion understands it.

- ``kElemWise``: every load is at the output's own coordinates;
- ``kBroadcast``: loads are at some of the output's coordinates, in order, of smaller operands;
- ``kInjective``: loads are at any coordinates;
- ``kCommReduce``: one commutative reduction of an injective term, or of a single operand;
- ``kOutEWiseFusable``: a reduction that combines two operands (convolution, matmul);
- ``kOpaque``: several reductions that depend on each other, a reduction whose extent depends on the
  element (a scan, a scatter), or a search.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ..results.op_info import PatternKind
from ..terms.row_major import flat, volume
from ..terms.term import FOREVER, ONE, ZERO, CallTerm, Fold, Int, Load, Reduce, Term, Var
from ..terms.traversal import children, free, subterms

_ORDER: tuple[PatternKind, ...] = (
    "kElemWise",
    "kBroadcast",
    "kInjective",
    "kCommReduce",
    "kOutEWiseFusable",
    "kOpaque",
)


def pattern_kind(lifted: TensorExpression) -> PatternKind:
    """Return the kind of the PrimFunc: the least fusable of its outputs'."""
    if lifted.externs:
        return "kOpaque"
    return max((_kind(c) for c in lifted.outputs), key=_ORDER.index, default="kOpaque")


def fusion_kind(lifted: TensorExpression) -> PatternKind:
    """Return the kind that ``FuseOps`` expects in ``op_pattern``.

    TVM calls a broadcast that reads one operand at the output's own coordinates, such as a bias
    added to a convolution, kElemWise: it may follow in the loops of that operand's producer. So may
    one whose axes are packed: ``out[c, h, w, i] = x[c, h, w, i] + bias[8 * c + i]``.
    """
    kind = pattern_kind(lifted)
    follows = kind in ("kBroadcast", "kInjective") and all(map(_follows, lifted.outputs))
    return "kElemWise" if follows else kind


def _follows(definition: OutputDefinition) -> bool:
    """Whether one operand is read at the output's coordinates and the others in their order."""
    loads = [s for s in subterms(definition.body) if isinstance(s, Load)]
    in_place = [s for s in loads if _in_place(s, definition)]
    return bool(in_place) and all(s in in_place or _in_order(s, definition) for s in loads)


def _in_place(load: Load, definition: OutputDefinition) -> bool:
    """Whether the load is at the output's own address; a mere reshape does not count."""
    if load.tensor.shape == definition.out.shape:
        return load.indices == definition.axes
    if load is definition.body or volume(load.tensor.shape) is not volume(definition.out.shape):
        return False
    return flat(load.indices, load.tensor.shape) is flat(definition.axes, definition.out.shape)


def _in_order(load: Load, definition: OutputDefinition) -> bool:
    """Whether each index is one axis of the output, or several fused, in the output's order."""
    order: list[int] = []
    places = {a.atom: k for k, a in enumerate(definition.axes)}
    for index, extent in zip(load.indices, load.tensor.shape, strict=True):
        if extent is ONE:
            continue
        digits = _digits(index)
        fused = None if digits is None else volume([v.extent or ZERO for v in digits])
        if digits is None or fused is not extent or not all(v in places for v in digits):
            return False
        order += [places[v] for v in digits]
    return order == sorted(set(order))


def _digits(poly: Int) -> list[Var] | None:
    """The axes that are the digits of an index in mixed radix, the highest first."""
    axes: list[Var] = []
    scale: int | None = 1
    for k, mono in sorted(((k, mono) for mono, k in poly.terms), key=lambda t: t[0]):
        if k != scale or len(mono) != 1 or not isinstance(mono[0], Var):
            return None
        extent = mono[0].extent
        scale = None if extent is None or extent.const is None else scale * extent.const
        axes.append(mono[0])
    return axes[::-1]


def _kind(output: OutputDefinition) -> PatternKind:
    terms = list(subterms(output.body))
    reductions = [s for s in terms if isinstance(s, (Reduce, Fold))]
    if reductions:
        return _reduction(output, reductions)
    loads = [s for s in terms if isinstance(s, Load) and not s.tensor.scalar]
    if not _outside_loads(output.body).isdisjoint(_free(output.axes)):
        return "kInjective"
    if all(s.indices == output.axes and s.tensor.shape == output.out.shape for s in loads):
        return "kElemWise" if loads else "kInjective"
    return "kBroadcast" if all(_broadcast(s, output) for s in loads) else "kInjective"


def _outside_loads(body: Term) -> set[Var]:
    """Coordinates that are used outside loads, as in concat, one_hot and pad."""
    coordinates: set[Var] = set()
    seen: set[Term] = {body}
    stack = [body]
    while stack:
        term = stack.pop()
        if isinstance(term, Var):
            coordinates.add(term)
        for child in () if isinstance(term, Load) else children(term):
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return coordinates


def _free(terms: Iterable[Term]) -> frozenset[Var]:
    return frozenset().union(*map(free, terms))


def _broadcast(load: Load, definition: OutputDefinition) -> bool:
    """Whether whole axes are read, in the output's order, and 0 where the operand has extent 1."""
    remaining = iter(zip(definition.axes, definition.out.shape, strict=True))
    ends = zip(load.indices, load.tensor.shape, strict=True)
    return all(e is ONE or any(i is a and e is o for a, o in remaining) for i, e in ends)


def _reduction(definition: OutputDefinition, reductions: list[Reduce | Fold]) -> PatternKind:
    if len(reductions) > 1:
        return "kOpaque"
    reduction = reductions[0]
    if not _free(definition.axes) <= free(reduction):
        # what is combined is read at several places, as in a norm
        return "kOpaque"
    inside = (reduction.body,) if isinstance(reduction, Reduce) else reduction.updates
    endless = isinstance(reduction, Fold) and reduction.axis.extent is FOREVER
    if endless or any(_depends_on_place(t, definition) for t in inside):
        return "kOpaque"
    operands = {s.tensor for t in inside for s in _reads(t) if not s.tensor.scalar}
    return "kOutEWiseFusable" if len(operands) > 1 else "kCommReduce"


def _depends_on_place(term: Term, definition: OutputDefinition) -> bool:
    """Whether a condition on an output coordinate that no load uses decides what is combined."""
    deciding = [s.args[0] for s in subterms(term) if isinstance(s, CallTerm) and s.op == "ite"]
    read = frozenset().union(*(free(i) for s in _reads(term) for i in s.indices))
    conditions = frozenset().union(*map(free, deciding)) & frozenset().union(
        *map(free, definition.axes)
    )
    return not conditions <= read


def _reads(term: Term) -> list[Load]:
    return [s for s in subterms(term) if isinstance(s, Load)]
