"""Undo packed, fused and permuted layouts: a comprehension over logical buffers.

Each parameter's buffer is taken as another view of a logical one, by moves that are bijections
(`analysis.undo_layouts.move`): digits of one coordinate are merged
(`analysis.undo_layouts.merges`), fused coordinates split (`analysis.undo_layouts.splits`), padding
left out (`analysis.undo_layouts.crop`), dimensions ordered (`analysis.undo_layouts.orders`). What
the views are is guessed from the accesses; a wrong guess only fails to be recognised.

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
from .crop import cropped
from .merges import components, merged
from .move import LogicalState, tidied
from .orders import arranged, candidates
from .places import place
from .splits import unfused
from .tensor_access import accesses

#: How many views of one PrimFunc are tried.
LIMIT = 40


@dataclass(frozen=True)
class LogicalForm:
    """A comprehension over logical buffers, and how those of the PrimFunc lie."""

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
            place(self.state.of(k), t.shape) if isinstance(t, TensorVar) else None
            for k, t in enumerate(self.physical.params)
        )

    def name(self, position: int, logical: str) -> str:
        """The layout string of a parameter, from the one of its logical buffer; or empty."""
        found = self.places[position]
        if found is None or len(found.axes) > len(LETTERS):
            return ""
        return found.name(logical or LETTERS[: len(found.axes)])

    def layouts(self) -> tuple[BufferLayout | None, ...]:
        """By parameter, where the logical buffer's elements are."""
        return tuple(
            None if p is None or not isinstance(t, TensorVar) else p.layout(t.shape)
            for p, t in zip(self.places, self.physical.params, strict=True)
        )


def relayings(lifted: TensorExpression) -> Iterator[LogicalForm]:
    """Views of a comprehension over other buffers, the most likely first."""
    seen: set[tuple[object, ...]] = set()
    for form in _forms(tidied(LogicalState(lifted))):
        for orders in (None, *candidates(form)):
            state = form if orders is None else arranged(form, orders)
            state = _canonical(state)
            key = _key(state)
            if state.moves and key not in seen:
                seen.add(key)
                yield LogicalForm(state, lifted)
            if len(seen) >= LIMIT:
                return


def _key(state: LogicalState) -> tuple[object, ...]:
    """Equal for states that came to the same view of every buffer."""
    params = [t for t in state.lifted.params if isinstance(t, TensorVar)]
    return tuple(
        (p.axes, p.indices) for t in params for p in (place(state.of(t.position), t.shape),)
    )


def _forms(state: LogicalState) -> Iterator[LogicalState]:
    """The state with what the accesses show undone, then with what they only allow."""
    packed = _packed(state)
    yield from _with_padding(packed)
    for form in (packed, state):
        for apart in unfused(form):
            yield from _with_padding(_packed(_canonical(apart)))
    for _ in range(4):
        found = components(packed, accesses(packed))
        if not found:
            return
        packed = _packed(_canonical(merged(packed, found[0])))
        yield from _with_padding(packed)


def _with_padding(state: LogicalState) -> Iterator[LogicalState]:
    yield state
    short = _canonical(cropped(state))
    if short.moves != state.moves:
        yield short


def _packed(state: LogicalState) -> LogicalState:
    """The state with all dimensions merged that the accesses show to be digits."""
    for _ in range(8):
        found = components(state, accesses(state))
        if not found or not found[0].evidence:
            break
        state = _canonical(merged(state, found[0]))
    return state


def _canonical(state: LogicalState) -> LogicalState:
    outputs = tuple(replace(c, body=canonical(c.body)) for c in state.lifted.outputs)
    return replace(state, lifted=replace(state.lifted, outputs=outputs))


__all__ = ["BufferLayout", "LogicalForm", "relayings"]
