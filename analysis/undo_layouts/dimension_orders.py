"""Orders of dimensions: the place of each of a buffer's dimensions in the logical buffer.

Dimensions that share an axis form a class. An order is a list of slots for each buffer, each filled
by the dimension of a class. A dimension of extent 1, which leaves no trace in a term, fills an
empty slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..terms.term import ONE, TensorVar, only
from ..terms.traversal import free
from .coordinate_change import LogicalState, apply_change, arrange
from .tensor_access import Accesses, accesses, classes

Order = Sequence[int | None]
Holes = Callable[[list[int], Sequence[int | None], int], list[int]]
Orders = Mapping[int, Order]
"""Orders by position of the parameter; other parameters are unchanged."""


def reorder(state: LogicalState, orders: Orders) -> LogicalState:
    """Return the state with the dimensions of its buffers reordered."""
    for position, order in orders.items():
        tensor = state.tensor(position)
        if list(order) != list(range(len(tensor.shape))):
            state = apply_change(state, position, arrange(tensor, order))
    return state


def candidates(state: LogicalState) -> Iterator[Orders]:
    """Yield orders to try, the usual ones first."""
    view = _View.of(state)
    yield from _contraction(view)
    yield from _like_head(view)
    yield from _window(view)


@dataclass(frozen=True)
class _View:
    """The dimensions of a state's buffers; those of extent 1 have no class."""

    state: LogicalState
    accesses: Accesses
    number: Mapping[tuple[int, int], int]
    tensors: tuple[TensorVar, ...]
    outputs: tuple[int, ...]

    @classmethod
    def of(cls, state: LogicalState) -> _View:
        uses = accesses(state)
        outputs = tuple(c.out.position for c in state.lifted.outputs)
        params = [t for t in state.lifted.params if isinstance(t, TensorVar)]
        used = tuple(t for t in params if uses.at(t.position))
        return cls(state, uses, classes(uses, used), used, outputs)

    @property
    def inputs(self) -> tuple[TensorVar, ...]:
        return tuple(t for t in self.tensors if t.position not in self.outputs)

    def dims(self, tensor: TensorVar) -> list[int]:
        """Return the dimensions whose extent is not 1."""
        return [d for d, e in enumerate(tensor.shape) if e is not ONE]

    def classes(self, tensor: TensorVar) -> list[int]:
        return [self.number[tensor.position, d] for d in self.dims(tensor)]

    def bare(self, tensor: TensorVar, d: int) -> bool:
        """Return whether a dimension is always read at a single axis."""
        return all(only(x.indices[d]) is not None for x in self.accesses.at(tensor.position))

    def stored(self, tensor: TensorVar, d: int) -> bool:
        """Return whether an axis of an output occurs in the dimension's index."""
        of = self.accesses.outputs
        return any(free(x.indices[d]) & of for x in self.accesses.at(tensor.position))


def _or_unit(dimensions: Sequence[int]) -> list[int | None]:
    return list(dimensions) or [None]


def _filled(tensor: TensorVar, slots: Sequence[int | None]) -> Order | None:
    """The slots with the empty ones filled by dimensions of extent 1, while these last."""
    units = iter([d for d, e in enumerate(tensor.shape) if e is ONE])
    order = [next(units, None) if d is None else d for d in slots]
    kept = [d for d in slots if d is not None]
    complete = sorted(kept) == [d for d, e in enumerate(tensor.shape) if e is not ONE]
    return order if complete else None


# ---------------------------------------------------------------------------- contractions


def _contraction(view: _View) -> Iterator[Orders]:
    """Convolutions as NCHW, OIHW (IOHW where transposed), NCHW; matrix products as MK, KN, MN."""
    if len(view.inputs) != 2 or len(view.outputs) != 1:
        return
    first, second = view.inputs
    out = view.state.tensor(view.outputs[0])
    for data, kernel in ((first, second), (second, first)):
        roles = _Roles(view, data, kernel, out)
        for orders in (roles.conv(), roles.conv(transposed=True), roles.matmul()):
            if orders is not None:
                yield orders


@dataclass(frozen=True)
class _Roles:
    """Classes of a contraction, by the buffers that have them."""

    view: _View
    data: TensorVar
    kernel: TensorVar
    out: TensorVar

    def within(self, *tensors: TensorVar) -> list[int]:
        """Return the classes of exactly these buffers, in the order of the first."""
        sets = [(t, set(self.view.classes(t))) for t in (self.data, self.kernel, self.out)]
        return [
            label
            for label in dict.fromkeys(self.view.classes(tensors[0]))
            if all((label in s) == any(t is u for u in tensors) for t, s in sets)
        ]

    def at(self, tensor: TensorVar, label: int | None) -> list[int]:
        return [d for d in self.view.dims(tensor) if self.view.number[tensor.position, d] == label]

    def dimension(self, tensor: TensorVar, label: int | None) -> int | None:
        dimensions = self.at(tensor, label)
        return dimensions[0] if dimensions else None

    def conv(self, transposed: bool = False) -> Orders | None:
        data, kernel, out = self.data, self.kernel, self.out
        rows = [c for c in self.within(data, out) if self._bare(c)]
        batch, flat = rows[:1], rows[1:]
        channels = self._channels()
        spatial = [c for c in self.view.classes(data) if c not in (*batch, *channels)]
        spatial = [
            *spatial,
            *(c for c in self.view.classes(kernel) if c not in (*spatial, *channels)),
        ]
        spatial = list(dict.fromkeys([*spatial, *flat]))
        if not spatial:
            return None
        rank = max(3, 2 + len(spatial))
        blank: list[int | None] = [None] * (rank - 2 - len(spatial))
        space: list[int | None] = [*spatial, *blank]
        first = batch[0] if batch else None
        kernel_channels = [d for c in channels for d in self.at(kernel, c)]
        out_dims = [d for d in kernel_channels if self.view.stored(kernel, d)]
        in_dims = [d for d in kernel_channels if d not in out_dims]
        if len(out_dims) > 1 or len(in_dims) > 1:
            return None
        heads = (in_dims, out_dims) if transposed else (out_dims, in_dims)
        data_channels = [d for c in channels for d in self.at(data, c)]
        out_channels = [d for c in channels for d in self.at(out, c)]
        return self._orders(
            [
                self.dimension(data, first),
                *_or_unit(data_channels),
                *(self.dimension(data, c) for c in space),
            ],
            [*(d for h in heads for d in _or_unit(h)), *(self.dimension(kernel, c) for c in space)],
            [
                self.dimension(out, first),
                *_or_unit(out_channels),
                *(self.dimension(out, c) for c in space),
            ],
        )

    def _channels(self) -> list[int]:
        """Classes of C and O: single axes in the kernel, and not part of a window in the data."""
        data, kernel, out = self.data, self.kernel, self.out
        shared = [
            label
            for label in self.within(data, kernel, out)
            if any(self.view.stored(kernel, d) for d in self.at(kernel, label))
        ]
        return [*self.within(kernel, out), *self.within(data, kernel), *shared]

    def _bare(self, label: int) -> bool:
        return all(self.view.bare(self.data, d) for d in self.at(self.data, label))

    def matmul(self) -> Orders | None:
        data, kernel, out = self.data, self.kernel, self.out
        batch, rows = self.within(data, kernel, out), self.within(data, out)
        inner, columns = self.within(data, kernel), self.within(kernel, out)
        if len(inner) > 1 or len(columns) > 1:
            return None
        m, k, n = (_or_unit(classes) for classes in (rows[-1:], inner, columns))
        leading = [*batch, *rows[:-1]]
        return self._orders(
            [*(self.dimension(data, c) for c in (*leading, *m, *k))],
            [*(self.dimension(kernel, c) for c in (*batch, *k, *n))],
            [*(self.dimension(out, c) for c in (*leading, *m, *n))],
        )

    def _orders(self, data: Order, kernel: Order, out: Order) -> Orders | None:
        orders = {}
        for tensor, slots in ((self.data, data), (self.kernel, kernel), (self.out, out)):
            order = _filled(tensor, slots)
            if order is None:
                return None
            orders[tensor.position] = order
        return orders


# ---------------------------------------------------------------------------- like one buffer


def _like_head(view: _View) -> Iterator[Orders]:
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
    view: _View, head: TensorVar, tensor: TensorVar, holes: Holes, units: bool = True
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


def _window(view: _View) -> Iterator[Orders]:
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
        order = _filled(buffer, dimensions)
        if order is None:
            return
        orders[buffer.position] = order
    yield orders
