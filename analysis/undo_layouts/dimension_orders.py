"""Orders of dimensions: the place of each of a buffer's dimensions in the logical buffer.

Dimensions that share an axis form a class. An order is a list of slots for each buffer, each filled
by the dimension of a class. A dimension of extent 1, which leaves no trace in a term, fills an
empty slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..terms.term import ONE, TensorVar
from .buffer_dimensions import BufferDimensions, Order, Orders, filled
from .contraction_orders import contraction_orders
from .coordinate_change import arrange
from .logical_state import LogicalState, apply_change

Holes = Callable[[list[int], Sequence[int | None], int], list[int]]


def reorder(state: LogicalState, orders: Orders) -> LogicalState:
    """Return the state with the dimensions of its buffers reordered."""
    for position, order in orders.items():
        tensor = state.tensor(position)
        if list(order) != list(range(len(tensor.shape))):
            state = apply_change(state, position, arrange(tensor, order))
    return state


def candidates(state: LogicalState) -> Iterator[Orders]:
    """Yield orders to try, the usual ones first."""
    view = BufferDimensions.of(state)
    yield from contraction_orders(view)
    yield from _like_head(view)
    yield from _window(view)


# ---------------------------------------------------------------------------- like one buffer


def _like_head(view: BufferDimensions) -> Iterator[Orders]:
    """Yield all buffers in the order of a head: a buffer with the most dimensions."""
    most = max((len(view.dims(t)) for t in view.tensors), default=0)
    heads = [t for t in view.tensors if len(view.dims(t)) == most]
    for head in sorted(
        heads, key=lambda tensor: (-len(tensor.shape), tensor.position in view.outputs)
    ):
        for holes in (_usual, _right, _none):
            yield {t.position: _like(view, head, t, holes) for t in view.tensors}
        yield {
            tensor.position: _like(view, head, tensor, _usual, tensor.position in view.outputs)
            for tensor in view.tensors
        }
    for head in heads:
        if ONE in head.shape:
            bare = {head.position: view.dims(head)}
            yield {t.position: _like(view, head, t, _none, False) for t in view.tensors} | bare


Slots = Sequence[int | None]
"""The classes of the head's dimensions; None for one of extent 1."""


def _usual(empty: list[int], slots: Slots, count: int) -> list[int]:
    """Slots for dimensions of extent 1: where the head has some, then from the right."""
    return sorted(sorted(empty, key=lambda k: (slots[k] is not None, -k))[:count])


def _right(empty: list[int], slots: Slots, count: int) -> list[int]:
    return sorted(sorted(empty, reverse=True)[:count])


def _none(empty: list[int], slots: Slots, count: int) -> list[int]:
    """All empty slots, if two others are filled and ``count`` suffices; else none."""
    return empty if count >= len(empty) and len(empty) < len(slots) - 1 else []


def _like(
    view: BufferDimensions, head: TensorVar, tensor: TensorVar, holes: Holes, units: bool = True
) -> Order:
    """The order of a tensor's dimensions by the head's; ``holes`` places those of extent 1."""
    if tensor is head:
        return range(len(tensor.shape))
    slots = [None if e is ONE else view.number[head.position, d] for d, e in enumerate(head.shape)]
    rank = {c: k for k, c in reversed(list(enumerate(slots))) if c is not None}
    at = {d: rank.get(view.number[tensor.position, d], len(slots)) for d in view.dims(tensor)}
    ordered = sorted(at, key=lambda d: at[d])
    spare = [d for d, e in enumerate(tensor.shape) if e is ONE] if units else []
    empty = [k for k in range(len(slots)) if k not in at.values()]
    keyed = [(at[d], d) for d in ordered]
    keyed += zip(holes(empty, slots, len(spare)), spare, strict=False)
    return [d for _, d in sorted(keyed, key=lambda item: item[0])]


# ---------------------------------------------------------------------------- windows


def _window(view: BufferDimensions) -> Iterator[Orders]:
    """Yield, for one large input and the outputs, dimensions read at one axis first."""
    if not view.inputs:
        return
    data = max(view.inputs, key=lambda tensor: len(view.dims(tensor)))
    bare = [d for d in view.dims(data) if view.bare(data, d) and view.stored(data, d)]
    space = [d for d in view.dims(data) if d not in bare]
    if len(bare) > 2:
        bare, space = bare[:2], [d for d in view.dims(data) if d not in bare[:2]]
    slots: list[int | None] = [*[None] * (2 - len(bare)), *bare, *space]
    orders: dict[int, Order] = {}
    for buffer in (data, *(view.state.tensor(p) for p in view.outputs)):
        by_class = {view.number[buffer.position, d]: d for d in view.dims(buffer)}
        dimensions = [
            None if slot is None else by_class.get(view.number[data.position, slot])
            for slot in slots
        ]
        order = filled(buffer, dimensions)
        if order is None:
            return
        orders[buffer.position] = order
    yield orders
