"""Undo packed, fused and permuted layouts: a tensor expression over logical buffers.

Each parameter's buffer is treated as a view of a logical one, through a sequence of bijections of
its coordinates (`analysis.undo_layouts.coordinate_change`): digits of one coordinate are merged
(`analysis.undo_layouts.merges`), fused coordinates split (`analysis.undo_layouts.splits`), padding
cropped (`analysis.undo_layouts.crop`), dimensions reordered
(`analysis.undo_layouts.dimension_orders`). The views are guessed from the accesses. A wrong guess
is harmless: no operator is recognised.

    Before: out[n, co, h, w, ci] = Σ x[n, ro, h, w, ri] * w[co, ro, ri, ci]     (NCHW4c, OI4i4o)
    After:  out[n, c, h, w]      = Σ x[n, r, h, w] * w[c, r]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from ..lifting.effects.tensor_expression import TensorExpression
from ..lifting.loops.reduction import canonical
from ..results.buffer_layout import LETTERS, BufferLayout, PhysicalIndices
from ..terms.term import TensorVar
from ..terms.traversal import subterms
from .crop import crop_padding
from .dimension_orders import candidates, reorder
from .logical_places import place
from .logical_state import LogicalState, simplify_indices
from .merges import components, merge_pairs
from .splits import split_fused
from .tensor_access import accesses

#: The most views of one PrimFunc, and of one with more terms than `_MANY`: each costs its size.
LIMIT = 40
_FEW = 8
_MANY = 300


@dataclass(frozen=True)
class LogicalForm:
    """A tensor expression over logical buffers, and the layouts of the PrimFunc's buffers."""

    state: LogicalState
    physical: TensorExpression

    @property
    def lifted(self) -> TensorExpression:
        return self.state.lifted

    @property
    def notes(self) -> tuple[str, ...]:
        return self.state.notes

    @cached_property
    def places(self) -> tuple[PhysicalIndices | None, ...]:
        return tuple(
            place(self.state.of(k), param.shape)
            if isinstance(param, TensorVar) and not param.scalar
            else None
            for k, param in enumerate(self.physical.params)
        )

    def name(self, position: int, logical: str) -> str:
        """Return the layout string of a parameter from that of its logical buffer; or empty."""
        indices = self.places[position]
        if indices is None or len(indices.axes) > len(LETTERS):
            return ""
        return indices.name(logical or LETTERS[: len(indices.axes)])

    def layouts(self) -> tuple[BufferLayout | None, ...]:
        """Return, for each parameter, where the logical buffer's elements are."""
        return tuple(
            None
            if indices is None or not isinstance(param, TensorVar)
            else indices.layout(param.shape)
            for indices, param in zip(self.places, self.physical.params, strict=True)
        )


def logical_forms(lifted: TensorExpression) -> Iterator[LogicalForm]:
    """Yield views of a tensor expression over logical buffers, the most likely first."""
    seen: set[tuple[object, ...]] = set()
    size = sum(1 for output in lifted.outputs for _ in subterms(output.body))
    most = LIMIT if size <= _MANY else _FEW
    for form in _forms(simplify_indices(LogicalState(lifted))):
        for orders in (None, *candidates(form)):
            state = form if orders is None else reorder(form, orders)
            state = _canonical(state)
            key = _key(state)
            if state.moves and key not in seen:
                seen.add(key)
                yield LogicalForm(state, lifted)
            if len(seen) >= most:
                return


def _key(state: LogicalState) -> tuple[object, ...]:
    """A key that is equal for states with the same view of every buffer."""
    params = [t for t in state.lifted.params if isinstance(t, TensorVar)]
    return tuple(
        (indices.axes, indices.indices)
        for tensor in params
        for indices in (place(state.of(tensor.position), tensor.shape),)
    )


def _forms(state: LogicalState) -> Iterator[LogicalState]:
    """Yield states with layouts undone: those that the accesses show, then those they allow."""
    packed = _packed(state)
    yield from _with_padding(packed)
    for form in (packed, state):
        for split in split_fused(form):
            yield from _with_padding(_packed(_canonical(split)))
    for _ in range(4):
        merges = components(packed, accesses(packed))
        if not merges:
            return
        packed = _packed(_canonical(merge_pairs(packed, merges[0])))
        yield from _with_padding(packed)


def _with_padding(state: LogicalState) -> Iterator[LogicalState]:
    yield state
    short = _canonical(crop_padding(state))
    if short.moves != state.moves:
        yield short


def _packed(state: LogicalState) -> LogicalState:
    """The state with all dimensions merged that the accesses show to be digits."""
    for _ in range(8):
        merges = components(state, accesses(state))
        if not merges or not merges[0].evidence:
            break
        state = _canonical(merge_pairs(state, merges[0]))
    return state


def _canonical(state: LogicalState) -> LogicalState:
    outputs = tuple(replace(c, body=canonical(c.body)) for c in state.lifted.outputs)
    return replace(state, lifted=replace(state.lifted, outputs=outputs))


__all__ = ["BufferLayout", "LogicalForm", "logical_forms"]
