"""The pattern kind of a comprehension, as operator fusion understands it.

- ``kElemWise``: every load is at the output's own coordinates;
- ``kBroadcast``: at some of them, in order, of operands that are smaller;
- ``kInjective``: at any coordinates;
- ``kCommReduce``: one commutative reduction of what is injective, or of one operand only;
- ``kOutEWiseFusable``: a reduction that combines two operands (convolution, matmul);
- ``kOpaque``: several reductions that depend on each other, or one whose extent depends on where
  the element is: a scan, a scatter; a search.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..lifting.effects.tensor_expression import Comprehension, TensorExpression
from ..results.op_info import PatternKind
from ..terms.flat import flat, volume
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
    """The kind of the whole PrimFunc: the least fusable of its outputs'."""
    return max((_kind(c) for c in lifted.outputs), key=_ORDER.index, default="kOpaque")


def fusion_kind(lifted: TensorExpression) -> PatternKind:
    """The kind as ``FuseOps`` wants it in ``op_pattern``.

    TVM calls a broadcast that reads one operand at the output's own coordinates, such as a bias
    added to a convolution, kElemWise: it may follow in the loops of that operand's producer. So may
    one whose axes are packed: ``out[c, h, w, i] = x[c, h, w, i] + bias[8 * c + i]``.
    """
    kind = pattern_kind(lifted)
    follows = kind in ("kBroadcast", "kInjective") and all(map(_follows, lifted.outputs))
    return "kElemWise" if follows else kind


def _follows(c: Comprehension) -> bool:
    """Whether an operand is read at the output's own place, the others in its order."""
    loads = [s for s in subterms(c.body) if isinstance(s, Load)]
    own = [s for s in loads if _in_place(s, c)]
    return bool(own) and all(s in own or _in_order(s, c) for s in loads)


def _in_place(s: Load, c: Comprehension) -> bool:
    """Whether the same place of memory is read; a reshape that does nothing else does not count."""
    if s.tensor.shape == c.out.shape:
        return s.indices == c.axes
    if s is c.body or volume(s.tensor.shape) is not volume(c.out.shape):
        return False
    return flat(s.indices, s.tensor.shape) is flat(c.axes, c.out.shape)


def _in_order(s: Load, c: Comprehension) -> bool:
    """Whether each axis that is read is some of the output's, in their order, as one number."""
    order: list[int] = []
    places = {a.atom: k for k, a in enumerate(c.axes)}
    for i, e in zip(s.indices, s.tensor.shape, strict=True):
        if e is ONE:
            continue
        digits = _digits(i)
        whole = None if digits is None else volume([v.extent or ZERO for v in digits])
        if digits is None or whole is not e or not all(v in places for v in digits):
            return False
        order += [places[v] for v in digits]
    return order == sorted(set(order))


def _digits(i: Int) -> list[Var] | None:
    """The axes that an index is made up of as a number is of its digits, the highest first."""
    found: list[Var] = []
    scale: int | None = 1
    for k, mono in sorted(((k, mono) for mono, k in i.terms), key=lambda t: t[0]):
        if k != scale or len(mono) != 1 or not isinstance(mono[0], Var):
            return None
        extent = mono[0].extent
        scale = None if extent is None or extent.const is None else scale * extent.const
        found.append(mono[0])
    return found[::-1]


def _kind(c: Comprehension) -> PatternKind:
    terms = list(subterms(c.body))
    reductions = [s for s in terms if isinstance(s, (Reduce, Fold))]
    if reductions:
        return _reduction(c, reductions)
    loads = [s for s in terms if isinstance(s, Load)]
    if not _outside_loads(c.body).isdisjoint(_free(c.axes)):
        return "kInjective"
    if all(s.indices == c.axes and s.tensor.shape == c.out.shape for s in loads):
        return "kElemWise" if loads else "kInjective"
    return "kBroadcast" if all(_broadcast(s, c) for s in loads) else "kInjective"


def _outside_loads(t: Term) -> set[Var]:
    """Coordinates that are used for more than to read there: concat, one_hot, pad."""
    found: set[Var] = set()
    seen: set[Term] = {t}
    stack = [t]
    while stack:
        s = stack.pop()
        if isinstance(s, Var):
            found.add(s)
        for x in () if isinstance(s, Load) else children(s):
            if x not in seen:
                seen.add(x)
                stack.append(x)
    return found


def _free(terms: Iterable[Term]) -> frozenset[Var]:
    return frozenset().union(*map(free, terms))


def _broadcast(s: Load, c: Comprehension) -> bool:
    """Whether whole axes are read, in the output's order; 0 where the operand has extent 1."""
    rest = iter(zip(c.axes, c.out.shape, strict=True))
    ends = zip(s.indices, s.tensor.shape, strict=True)
    return all(e is ONE or any(i is a and e is o for a, o in rest) for i, e in ends)


def _reduction(c: Comprehension, reductions: list[Reduce | Fold]) -> PatternKind:
    if len(reductions) > 1:
        return "kOpaque"
    r = reductions[0]
    if not _free(c.axes) <= free(r):  # what is combined is read at several places, as in a norm
        return "kOpaque"
    inside = (r.body,) if isinstance(r, Reduce) else r.updates
    endless = isinstance(r, Fold) and r.axis.extent is FOREVER
    if endless or any(_placed(t, c) for t in inside):
        return "kOpaque"
    operands = {s.tensor for t in inside for s in _reads(t)}
    return "kOutEWiseFusable" if len(operands) > 1 else "kCommReduce"


def _placed(t: Term, c: Comprehension) -> bool:
    """Whether a coordinate of the output decides what is combined, and is read nowhere."""
    deciding = [s.args[0] for s in subterms(t) if isinstance(s, CallTerm) and s.op == "ite"]
    read = frozenset().union(*(free(i) for s in _reads(t) for i in s.indices))
    places = frozenset().union(*map(free, deciding)) & frozenset().union(*map(free, c.axes))
    return not places <= read


def _reads(t: Term) -> list[Load]:
    return [s for s in subterms(t) if isinstance(s, Load)]
