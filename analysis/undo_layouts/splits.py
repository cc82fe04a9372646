"""Split dimensions that are two fused coordinates: ``extent * P + Q``.

Before: out[n, y] = Σ x[n, y // W + r, y % W + q]        After: out[n, h, w] = Σ x[n, h + r, w + q]
"""

from __future__ import annotations

from collections.abc import Iterator

from ..terms.quotient import is_div
from ..terms.term import ONE, ZERO, CallTerm, Int, TensorVar, Var, polynomial
from ..terms.traversal import subterms
from .coordinate_change import Facts, clean, factor_out, split
from .logical_state import LogicalState, apply_change, guarded_loads, simplify_indices
from .tensor_access import accesses, coefficient


def split_fused(state: LogicalState) -> Iterator[LogicalState]:
    """Yield the state with one, two, … fused dimensions split."""
    for _ in range(6):
        new = _input(state) or _output(state)
        if new is None:
            return
        state = simplify_indices(new)
        yield state


def _output(state: LogicalState) -> LogicalState | None:
    """Split an output axis y that only occurs in ``y // E`` and ``y % E``."""
    for definition in state.lifted.outputs:
        for d, axis in enumerate(definition.axes):
            if not isinstance(axis.atom, Var):
                continue
            for extent in _divisors(definition.body, axis):
                if not _divides(extent, definition.out.shape[d]):
                    continue
                new = apply_change(state, definition.out.position, split(definition.out, d, extent))
                while (further := _input(new)) is not None:
                    new = further
                if not _combined(new, definition.out.position, d, extent):
                    return new
    return None


def _divisors(body: object, axis: Int) -> list[Int]:
    divisors: dict[Int, None] = {}
    for term in subterms(body):  # type: ignore[arg-type]
        if (
            isinstance(term, CallTerm)
            and is_div(term)
            and term.args[0] is axis
            and isinstance(term.args[1], Int)
        ):
            divisors[term.args[1]] = None
    return list(divisors)


def _divides(extent: Int, total: Int) -> bool:
    if len(extent.terms) != 1 or extent is total or total is ZERO:
        return False
    high, low = factor_out(total, extent)
    return low is ZERO and high is not ONE


def _combined(state: LogicalState, position: int, d: int, extent: Int) -> bool:
    """Whether the two new axes still occur as ``extent * a + b``."""
    uses = accesses(state)
    stores = next(x for x in uses.all if x.position == position)
    outer, inner = (stores.indices[k].atom for k in (d, d + 1))
    if not (isinstance(outer, Var) and isinstance(inner, Var)):
        return True
    indices = [p for x in uses.all if x.position != position for p in x.indices]
    for poly in (*indices, *uses.numbers):
        high, low = coefficient(poly, outer), coefficient(poly, inner)
        if low is None or high is None or (low is not ZERO and high is low * extent):
            return True
    return False


def _input(state: LogicalState) -> LogicalState | None:
    """Split a dimension that every load reads at ``extent * P + Q`` with ``0 <= Q < extent``."""
    written = {c.out.position for c in state.lifted.outputs}
    for param in state.lifted.params:
        if not isinstance(param, TensorVar) or param.position in written:
            continue
        loads = [x for c in state.lifted.outputs for x in guarded_loads(c.body, param)]
        for d in range(len(param.shape)):
            reads = [(x.indices[d], facts) for x, facts in loads]
            for extent in _extents(reads):
                if _divides(extent, param.shape[d]) and _separates(reads, extent):
                    return apply_change(state, param.position, split(param, d, extent))
    return None


def _extents(reads: list[tuple[Int, Facts]]) -> Iterator[Int]:
    """Coefficients that could be the inner extent, largest first."""
    extents: dict[Int, None] = {}
    for poly, _ in reads:
        for mono, coef in poly.terms:
            sizes = tuple(a for a in mono if isinstance(a, Var) and a.kind == "size")
            extent = polynomial({sizes: abs(coef)})
            if len(sizes) < len(mono) and extent is not ONE:
                extents[extent] = None
    yield from sorted(extents, key=lambda poly: (-len(poly.terms[0][0]), -(poly.terms[0][1])))


def _separates(reads: list[tuple[Int, Facts]], extent: Int) -> bool:
    """Whether both parts occur, and the inner one is proved to be in its range everywhere."""
    parts = [factor_out(p, extent) for p, _ in reads]
    separate = any(high.const is None and low.const is None for high, low in parts)
    return separate and all(clean(p, extent, facts) is not None for p, facts in reads)
