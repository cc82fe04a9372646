"""From the effects of one iteration to the effects of the loop.

Three cases. If iterations do not see each other's writes, the loop variable becomes one more
variable of each write. If every iteration combines into the same element, the loop is a reduction.
If iterations update some elements from their previous values, the loop is a fold. Any other loop is
refused.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from ...terms.order import bounds, nonneg
from ...terms.scalar import conj, ge0, parts
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
    fresh,
    load,
)
from ...terms.traversal import free, ints, substitute, subterms, tensors
from ..effects.effects import Effects, Write, coordinates, pinned_value, same_or_later
from ..tir.from_tir import Unliftable
from .accumulate import NoReduction, accumulate, runs
from .fold import close_together
from .scan import close_scan
from .scatter_loops import close_scatter, scatters


def close(i: Var, body: Effects) -> Effects:
    """Return the effects of ``for i in range(extent): body``."""
    out = Effects()
    for tensor, writes in body.writes.items():
        if len(writes) == 1 and _independent(i, writes[0], body):
            w = writes[0]
            out.writes[tensor] = [Write((*w.vars, i), TRUE, w.index, w.value)]
            continue
        if len(writes) == 1 and scatters(i, writes[0]):
            out.writes[tensor] = [close_scatter(i, tensor, writes[0], body, carried_by)]
            continue
        for position, w in enumerate(writes):
            carried = carried_by(i, w, body)
            value = None if carried else pinned_value(w.guard, i)
            if value is not None and i.extent is not None:
                w = _fix(w, i, value)
                inside = conj(w.guard, ge0(value), ge0(i.extent - 1 - value))
                w = Write(w.vars, inside, w.index, w.value, w.scattered)
            for later in writes[position + 1 :]:
                _check_order(w, later, i, tensor)
            closed = _close(i, tensor, w, carried, body)
            closed = replace(closed, scattered=True) if w.scattered else closed
            out.writes.setdefault(tensor, []).append(closed)
    return out


def _independent(i: Var, w: Write, body: Effects) -> bool:
    """Whether iterations store unconditionally, and to other elements than the body reads."""
    if w.guard is not TRUE or w.scattered or i.extent is None or i.extent is ONE:
        return False
    if any(map(tensors, w.index)) or not any(i in free(e) for e in w.index):
        return False
    return tensors(w.value).isdisjoint(body.writes)


def _fix(w: Write, i: Var, value: Int) -> Write:
    at = {i: value}
    return Write(
        w.vars,
        substitute(w.guard, at),
        tuple(as_int(substitute(e, at)) for e in w.index),
        substitute(w.value, at),
        w.scattered,
    )


def _check_order(w: Write, later: Write, i: Var, tensor: TensorVar) -> None:
    """Check that ``w`` in a later iteration does not overwrite ``later`` in an earlier one."""
    flipped = Write((*w.vars, i), TRUE, w.index, TRUE)
    probe = flipped.inverse.get(i)
    if probe is not None:
        values = dict(zip(coordinates(len(later.index)), later.index, strict=True))
        _, hi = bounds(ints(probe, values) - as_int(i))
        if hi is not None and nonneg(-hi):
            return
    try:
        if flipped.at(later.index, tensor.name)[0] is FALSE:
            return
    except Unliftable:
        pass
    raise Unliftable("two stores of a loop may overwrite each other across iterations", tensor.name)


def _close(i: Var, tensor: TensorVar, w: Write, carried: Set[Term], body: Effects) -> Write:
    if not carried:
        return _quantify(i, w)
    previous = load(tensor, w.index)
    state = (previous.atom or previous) if isinstance(previous, Int) else previous
    independent = all(o is w or _disjoint(i, o, w, tensor) for o in body.writes[tensor])
    if carried == {state} and i not in free(previous) and independent:
        try:
            return accumulate(i, tensor, w, state)
        except NoReduction:
            pass
    group = _group(i, tensor, body)
    if group is not None:
        places = {t: n for n, t in enumerate(body.writes)}
        return close_together(i, tensor, group, places)
    return _quantify(i, close_scan(i, tensor, w, body, carried_by))


def _group(i: Var, tensor: TensorVar, body: Effects) -> dict[TensorVar, Write] | None:
    """The writes of tensors whose elements depend on each other's values around the loop."""
    writes: dict[TensorVar, Write] = {}
    pending = [tensor]
    while pending:
        t = pending.pop()
        if t in writes:
            continue
        (w, *others) = body.writes[t]
        moves = (i in free(e) or not tensors(e).isdisjoint(body.writes) for e in w.index)
        if others or any(moves):
            return None
        writes[t] = w
        for x in carried_by(i, w, body):
            assert isinstance(x, Load)
            if x.indices != body.writes[x.tensor][0].index:
                return None
            pending.append(x.tensor)
    return writes


def _disjoint(i: Var, earlier: Write, w: Write, tensor: TensorVar) -> bool:
    """Whether ``other``, in no iteration, writes the element that ``w`` carries."""
    every = Write((*earlier.vars, i), earlier.guard, earlier.index, TRUE)
    try:
        return every.at(w.index, tensor.name)[0] is FALSE
    except Unliftable:
        return False


def carried_by(i: Var, w: Write, body: Effects) -> Set[Term]:
    """Return loads in w that may see a write of an earlier iteration, in order of occurrence."""
    written = frozenset(body.writes)
    loads: dict[Term, None] = {}
    for part in (w.value, w.guard, *w.index):
        if written.isdisjoint(tensors(part)):
            continue
        for t in subterms(part):
            if isinstance(t, Load) and t.tensor in written:
                others = body.writes[t.tensor]
                if not all(same_or_later(o, i, t.indices, t.tensor.name) for o in others):
                    loads[t] = None
    return loads.keys()


def _quantify(i: Var, w: Write) -> Write:
    """Quantify over independent iterations; if the element does not depend on i, the last stays."""
    if not any(i in free(e) for e in w.index) and i not in free(w.guard):
        assert i.extent is not None
        last = _fix(w, i, i.extent - 1)
        return Write(last.vars, conj(last.guard, runs(i)), last.index, last.value)
    return _shrunk(i, w)


def _shrunk(i: Var, w: Write) -> Write:
    """A loop whose guard says ``i < k`` for a smaller k, as a loop over ``[0, k)``."""
    assert i.extent is not None
    for c in parts(w.guard):
        if isinstance(c, CallTerm) and c.op == "ge0":
            extent = as_int(c.args[0]) + as_int(i) + 1
            if all(v.kind in SIZES for v in free(extent)) and nonneg(i.extent - extent):
                if not nonneg(extent - 1):
                    continue
                j = fresh(extent)
                w = _fix(w, i, ZERO if extent is ONE else as_int(j))
                return w if extent is ONE else Write((*w.vars, j), w.guard, w.index, w.value)
    return Write((*w.vars, i), w.guard, w.index, w.value)
