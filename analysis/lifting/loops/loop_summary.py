"""From the effects of one iteration to the effects of the loop.

Three cases. If iterations do not see each other's writes, the loop variable becomes one more
variable of each write. If every iteration combines into the same element, the loop is a reduction.
If iterations update some elements from their previous values, the loop is a fold. Any other loop is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from ...terms.condition_terms import conj, ge0, ite, parts
from ...terms.order import bounds, nonneg
from ...terms.term import (
    FALSE,
    ONE,
    SIZES,
    TRUE,
    ZERO,
    CallTerm,
    Int,
    Load,
    TensorVar,
    Term,
    Var,
    as_int,
    bare,
    fresh,
    load,
)
from ...terms.traversal import free, ints, substitute, subterms, tensors
from ..effects.effects import Effects, Write, coordinates, pinned_value
from ..effects.store_order import are_apart, same_or_later
from ..tir.unliftable import Unliftable
from .accumulate import NoReduction, accumulate, runs
from .counting.counters import without_counters
from .element_registers import by_element
from .fold import close_together
from .scan import close_scan
from .scatter_loops import close_scatter, scatters
from .scattered_sums import close_scattered_sum


def close(var: Var, body: Effects) -> Effects:
    """Return the effects of ``for i in range(extent): body``."""
    apart = without_counters(var, body, close) or by_element(var, body, close)
    if apart is not None:
        return apart
    out = Effects()
    body = _last_wins(var, body)
    for tensor, writes in body.writes.items():
        if len(writes) == 1 and _independent(var, writes[0], body):
            write = writes[0]
            out.writes[tensor] = [Write((*write.vars, var), TRUE, write.index, write.value)]
            continue
        if all(scatters(var, w) for w in writes) and _apart(var, tensor, writes):
            out.writes[tensor] = [close_scatter(var, tensor, w, body, carried_by) for w in writes]
            continue
        last = _last_iteration(var, writes, body)
        if last is not None:
            out.writes[tensor] = last
            continue
        for position, write in enumerate(writes):
            carried = carried_by(var, write, body)
            value = None if carried else pinned_value(write.guard, var)
            if value is not None and tensors(value) and any(e.atom is var for e in write.index):
                value = None  # the element says which iteration it is, not the data
            if value is not None and var.extent is not None:
                write = _fix(write, var, value)
                inside = conj(write.guard, ge0(value), ge0(var.extent - 1 - value))
                write = Write(write.vars, inside, write.index, write.value, write.scattered)
            for later in writes[position + 1 :]:
                _check_order(write, later, var, tensor)
            closed = _close(var, tensor, write, carried, body)
            closed = replace(closed, scattered=True) if write.scattered else closed
            out.writes.setdefault(tensor, []).append(closed)
    return out


def _last_iteration(var: Var, writes: Sequence[Write], body: Effects) -> list[Write] | None:
    """The stores of the last iteration, if each iteration makes all of them again."""
    if len(writes) < 2 or var.extent is None:
        return None
    for write in writes:
        terms = (write.guard, *write.index)
        if any(var in free(x) or not tensors(x).isdisjoint(body.writes) for x in terms):
            return None
        if write.scattered or write.distinct or carried_by(var, write, body):
            return None
    fixed = (_fix(w, var, var.extent - 1) for w in writes)
    return [replace(w, guard=conj(w.guard, runs(var))) for w in fixed]


def _last_wins(var: Var, body: Effects) -> Effects:
    """Return an iteration whose stores into one element, as data decide, are one update of it.

    ``if c: x = a; if d: x = b`` is ``x = b if d else a if c else x``, a fold.
    """
    merged = {t: w for t, ws in body.writes.items() if (w := _update(var, t, ws)) is not None}
    if not merged:
        return body
    out = Effects()
    out.writes = {t: [merged[t]] if t in merged else ws for t, ws in body.writes.items()}
    return out


def _update(var: Var, tensor: TensorVar, writes: Sequence[Write]) -> Write | None:
    """The stores as one update, if each is into the same element and data decide which happen."""
    index = writes[0].index
    if any(var in free(e) or tensors(e) for e in index):
        return None
    if any(w.vars or w.index != index or w.scattered or w.distinct for w in writes):
        return None
    if not any(var in free(w.guard) and tensors(w.guard) for w in writes):
        return None
    old = load(tensor, index)
    if any(tensor in tensors(part) for w in writes for part in (w.guard, w.value)):
        return None
    value: Term = old
    for write in writes:
        value = ite(write.guard, write.value, value)
    return Write((), TRUE, index, value)


def _apart(var: Var, tensor: TensorVar, writes: Sequence[Write]) -> bool:
    """Whether no two stores of a loop, in any iterations, are into one element."""
    return all(_disjoint(var, a, b, tensor) for k, a in enumerate(writes) for b in writes[k + 1 :])


def _independent(var: Var, write: Write, body: Effects) -> bool:
    """Whether iterations store unconditionally, and to other elements than the body reads."""
    if write.guard is not TRUE or write.scattered or var.extent is None or var.extent is ONE:
        return False
    if any(map(tensors, write.index)) or not any(var in free(e) for e in write.index):
        return False
    return tensors(write.value).isdisjoint(body.writes)


def _fix(write: Write, var: Var, value: Int) -> Write:
    mapping = {var: value}
    return Write(
        write.vars,
        substitute(write.guard, mapping),
        tuple(as_int(substitute(e, mapping)) for e in write.index),
        substitute(write.value, mapping),
        write.scattered,
    )


def _check_order(write: Write, later: Write, var: Var, tensor: TensorVar) -> None:
    """Check that ``write`` in a later iteration does not overwrite ``later`` in an earlier one."""
    flipped = Write((*write.vars, var), TRUE, write.index, TRUE)
    probe = flipped.inverse.get(var)
    if probe is not None:
        values = dict(zip(coordinates(len(later.index)), later.index, strict=True))
        _, hi = bounds(ints(probe, values) - as_int(var))
        if hi is not None and nonneg(-hi):
            return
    try:
        if flipped.at(later.index, tensor.name)[0] is FALSE:
            return
    except Unliftable:
        pass
    if are_apart(write, var, later.index, later.guard, 1):
        return
    raise Unliftable("two stores of a loop may overwrite each other across iterations", tensor.name)


def _close(var: Var, tensor: TensorVar, write: Write, carried: Set[Term], body: Effects) -> Write:
    if not carried:
        return _quantify(var, write)
    previous = load(tensor, write.index)
    state = bare(previous)
    independent = all(o is write or _disjoint(var, o, write, tensor) for o in body.writes[tensor])
    if carried == {state} and var not in free(previous) and independent:
        try:
            return accumulate(var, tensor, write, state)
        except NoReduction:
            pass
    scattered = close_scattered_sum(var, tensor, write, carried, body)
    if scattered is not None:
        return scattered
    group = _group(var, tensor, body)
    if group is not None:
        places = {t: n for n, t in enumerate(body.writes)}
        return close_together(var, tensor, group, places)
    return _quantify(var, close_scan(var, tensor, write, body, carried_by))


def _group(var: Var, tensor: TensorVar, body: Effects) -> dict[TensorVar, Write] | None:
    """The writes of tensors whose elements depend on each other's values around the loop."""
    writes: dict[TensorVar, Write] = {}
    pending = [tensor]
    while pending:
        member = pending.pop()
        if member in writes:
            continue
        (write, *others) = body.writes[member]
        moves = (var in free(e) or not tensors(e).isdisjoint(body.writes) for e in write.index)
        if others or any(moves):
            return None
        writes[member] = write
        for term in carried_by(var, write, body):
            assert isinstance(term, Load)
            if term.indices != body.writes[term.tensor][0].index:
                return None
            pending.append(term.tensor)
    return writes


def _disjoint(var: Var, earlier: Write, write: Write, tensor: TensorVar) -> bool:
    """Whether no iteration of ``earlier`` writes the element that ``write`` carries."""
    every = Write((*earlier.vars, var), earlier.guard, earlier.index, TRUE)
    try:
        return every.at(write.index, tensor.name)[0] is FALSE
    except Unliftable:
        return False


def carried_by(var: Var, write: Write, body: Effects) -> Set[Term]:
    """Return the loads in ``write`` that an earlier iteration may have written, in order."""
    written = frozenset(body.writes)
    loads: dict[Term, None] = {}
    for part in (write.value, write.guard, *write.index):
        if written.isdisjoint(tensors(part)):
            continue
        for term in subterms(part):
            if isinstance(term, Load) and term.tensor in written:
                others = body.writes[term.tensor]
                name, guard = term.tensor.name, write.guard
                if not all(same_or_later(o, var, term.indices, name, guard) for o in others):
                    loads[term] = None
    return loads.keys()


def _quantify(var: Var, write: Write) -> Write:
    """Quantify over independent iterations; if the element does not depend on i, the last stays."""
    if not any(var in free(e) for e in write.index) and var not in free(write.guard):
        assert var.extent is not None
        last = _fix(write, var, var.extent - 1)
        return Write(last.vars, conj(last.guard, runs(var)), last.index, last.value)
    return _shrunk(var, write)


def _shrunk(var: Var, write: Write) -> Write:
    """A loop whose guard says ``i < k`` for a smaller k, as a loop over ``[0, k)``."""
    assert var.extent is not None
    for term in parts(write.guard):
        if isinstance(term, CallTerm) and term.op == "ge0":
            extent = as_int(term.args[0]) + as_int(var) + 1
            if all(v.kind in SIZES for v in free(extent)) and nonneg(var.extent - extent):
                if not nonneg(extent - 1):
                    continue
                shorter = fresh(extent)
                write = _fix(write, var, ZERO if extent is ONE else as_int(shorter))
                return (
                    write
                    if extent is ONE
                    else Write((*write.vars, shorter), write.guard, write.index, write.value)
                )
    return Write((*write.vars, var), write.guard, write.index, write.value)
