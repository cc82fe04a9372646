"""Orders of the dimensions of contractions, by the buffers that have a class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..terms.term import TensorVar
from .buffer_dimensions import BufferDimensions, Order, Orders, filled, or_unit


def contraction_orders(view: BufferDimensions) -> Iterator[Orders]:
    """Yield those of convolutions and of matrix products.

    Convolutions are NCHW, OIHW (IOHW where transposed), NCHW; matrix products MK, KN, MN.
    """
    if len(view.inputs) != 2 or len(view.outputs) != 1:
        return
    first, second = view.inputs
    out = view.state.tensor(view.outputs[0])
    for data, kernel in ((first, second), (second, first)):
        roles = _ContractionRoles(view, data, kernel, out)
        for orders in (roles.conv(), roles.conv(transposed=True), roles.matmul()):
            if orders is not None:
                yield orders


@dataclass(frozen=True)
class _ContractionRoles:
    """Classes of a contraction, by the buffers that have them."""

    view: BufferDimensions
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
                *or_unit(data_channels),
                *(self.dimension(data, c) for c in space),
            ],
            [*(d for h in heads for d in or_unit(h)), *(self.dimension(kernel, c) for c in space)],
            [
                self.dimension(out, first),
                *or_unit(out_channels),
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
        m, k, n = (or_unit(classes) for classes in (rows[-1:], inner, columns))
        leading = [*batch, *rows[:-1]]
        return self._orders(
            [*(self.dimension(data, c) for c in (*leading, *m, *k))],
            [*(self.dimension(kernel, c) for c in (*batch, *k, *n))],
            [*(self.dimension(out, c) for c in (*leading, *m, *n))],
        )

    def _orders(self, data: Order, kernel: Order, out: Order) -> Orders | None:
        orders = {}
        for tensor, slots in ((self.data, data), (self.kernel, kernel), (self.out, out)):
            order = filled(tensor, slots)
            if order is None:
                return None
            orders[tensor.position] = order
        return orders
