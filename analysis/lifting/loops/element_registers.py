"""Elements of a small buffer at literal places, as tensors of their own.

    for t in range(n): out[t] = r[0] + r[1]; r[0] = r[1]; r[1] = x[t + 2]

Each of ``r[0]`` and ``r[1]`` is stored once an iteration, so that a loop treats them as two
registers, not as one buffer with several stores.
"""

from __future__ import annotations

from ...terms.term import Int, Load, TensorVar, Term, Var, load
from ...terms.traversal import subterms, tensors
from ..effects.effects import Effects, Write
from .counters import Close, Index, mapped

#: Of a larger buffer, the elements stay together.
_MOST = 32


def by_element(var: Var, body: Effects, close: Close) -> Effects | None:
    """Return the effects of a loop whose buffers are split into elements; None if none is.

    Args:
        var: The loop variable.
        body: The effects of one iteration.
        close: Returns the effects of a loop over the elements.
    """
    split = frozenset(t for t, ws in body.writes.items() if len(ws) > 1 and _is_split(t, body))
    if not split:
        return None
    elements: dict[tuple[TensorVar, Index], TensorVar] = {}

    def element(tensor: TensorVar, index: Index) -> TensorVar:
        key = (tensor, index)
        if key not in elements:
            elements[key] = TensorVar(tensor.name, (), tensor.dtype)
        return elements[key]

    def read(tensor: TensorVar, index: Index) -> Term:
        return load(element(tensor, index), ())

    apart = Effects()
    for tensor, writes in body.writes.items():
        for write in writes:
            new = mapped(write, split, read)
            if tensor in split:
                place = element(tensor, write.index)
                stored = Write((), new.guard, (), new.value)
                apart.writes.setdefault(place, []).append(stored)
            else:
                apart.writes.setdefault(tensor, []).append(new)
    back = {new: key for key, new in elements.items()}
    closed, out = close(var, apart), Effects()
    for tensor, writes in closed.writes.items():
        target, index = back.get(tensor, (tensor, None))
        for write in writes:
            new = mapped(write, frozenset(back), lambda t, _: load(*back[t]))
            if index is not None:
                new = Write(new.vars, new.guard, index, new.value, new.scattered)
            out.writes.setdefault(target, []).append(new)
    return out


def _is_split(tensor: TensorVar, body: Effects) -> bool:
    """Whether a buffer is only accessed at literal places, each stored at most once."""
    writes = body.writes[tensor]
    places = {w.index for w in writes}
    if len(places) != len(writes) or len(writes) > _MOST:
        return False
    if any(w.vars or w.scattered or w.distinct for w in writes) or not all(map(_fixed, places)):
        return False
    terms = (x for ws in body.writes.values() for w in ws for x in (w.guard, *w.index, w.value))
    return all(
        _fixed(s.indices)
        for x in terms
        if tensor in tensors(x)
        for s in subterms(x)
        if isinstance(s, Load) and s.tensor is tensor
    )


def _fixed(index: tuple[Int, ...]) -> bool:
    return all(e.const is not None for e in index)
