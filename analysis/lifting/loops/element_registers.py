"""Elements of a small buffer at literal places, as tensors of their own.

    for t in range(n): out[t] = r[0] + r[1]; r[0] = r[1]; r[1] = x[t + 2]

Each of ``r[0]`` and ``r[1]`` is stored once an iteration, so that a loop treats them as two
registers, not as one buffer with several stores.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...terms.term import TensorVar, Var, load
from ..effects.effects import Effects, Write
from ..effects.loads import Index, loads_of, with_loads
from .counting.counters import Close

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
    closed = close(var, _split(body, split, elements))
    return _joined(closed, {new: key for key, new in elements.items()})


def _split(
    body: Effects, split: frozenset[TensorVar], elements: dict[tuple[TensorVar, Index], TensorVar]
) -> Effects:
    """The effects with tensors for the elements of split buffers, which are added to `elements`."""

    def element(tensor: TensorVar, index: Index) -> TensorVar:
        key = (tensor, index)
        if key not in elements:
            elements[key] = TensorVar(tensor.name, (), tensor.dtype)
        return elements[key]

    out = Effects()
    for tensor, writes in body.writes.items():
        for write in writes:
            new, target = with_loads(write, split, lambda t, i: load(element(t, i), ())), tensor
            if tensor in split:
                target = element(tensor, write.index)
                new = Write((), new.guard, (), new.value)
            out.writes.setdefault(target, []).append(new)
    return out


def _joined(closed: Effects, places: Mapping[TensorVar, tuple[TensorVar, Index]]) -> Effects:
    """The effects with the buffers and places that the elements stand for."""
    out = Effects()
    for tensor, writes in closed.writes.items():
        target, index = places.get(tensor, (tensor, None))
        for write in writes:
            new = with_loads(write, frozenset(places), lambda t, _: load(*places[t]))
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
    return all(_fixed(x.indices) for x in loads_of(tensor, body))


def _fixed(index: Index) -> bool:
    return all(e.const is not None for e in index)
