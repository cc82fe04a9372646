"""The dimensions of a state's buffers by class; an order is a list of slots for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..terms.term import ONE, TensorVar, only
from ..terms.traversal import free
from .logical_state import LogicalState
from .tensor_access import Accesses, accesses, classes

Order = Sequence[int | None]
"""The dimension in each slot; None is one of extent 1."""
Orders = Mapping[int, Order]
"""Orders by position of the parameter; other parameters are unchanged."""


@dataclass(frozen=True)
class BufferDimensions:
    """The dimensions of a state's buffers; those of extent 1 have no class."""

    state: LogicalState
    accesses: Accesses
    number: Mapping[tuple[int, int], int]
    tensors: tuple[TensorVar, ...]
    outputs: tuple[int, ...]

    @classmethod
    def of(cls, state: LogicalState) -> BufferDimensions:
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

    def bare(self, tensor: TensorVar, dim: int) -> bool:
        """Return whether a dimension is always read at a single axis."""
        return all(only(x.indices[dim]) is not None for x in self.accesses.at(tensor.position))

    def stored(self, tensor: TensorVar, dim: int) -> bool:
        """Return whether an axis of an output occurs in the dimension's index."""
        of = self.accesses.outputs
        return any(free(x.indices[dim]) & of for x in self.accesses.at(tensor.position))


def or_unit(dimensions: Sequence[int]) -> list[int | None]:
    """The dimensions, or an empty slot where there are none."""
    return list(dimensions) or [None]


def filled(tensor: TensorVar, slots: Sequence[int | None]) -> Order | None:
    """The slots with the empty ones filled by dimensions of extent 1, while these last."""
    units = iter([d for d, e in enumerate(tensor.shape) if e is ONE])
    order = [next(units, None) if d is None else d for d in slots]
    kept = [d for d in slots if d is not None]
    complete = sorted(kept) == [d for d, e in enumerate(tensor.shape) if e is not ONE]
    return order if complete else None
