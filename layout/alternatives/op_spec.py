"""The op spec of a PrimFunc: how layouts flow through it, and what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..access.flow import BlockGraph
from ..model.layout import Layout
from .alternative import Alternative
from .layout_constraint import LayoutConstraint
from .operator_forms import Elementwise, ProductForm


@dataclass(frozen=True)
class OpSpec:
    """The op spec of a PrimFunc.

    Attributes:
        flow: How layouts flow through it; None if that is unknown.
        reason: Why the flow is unknown.
        constraint: The constraint on it.
        moves: Whether it is layout-only: the output permutes the elements of the only input.
        replacement: A PrimFunc that is proved to compute the same in the constraint's layouts.
        offers: Constraints that it may meet; otherwise it stays unchanged.
        strings: The operator's layout strings.
        note: Why a given implementation of its operator is not used.
        operator: Whether it must stay a Relax operator.
        form: How its layouts then depend on each other; None if that is not known.
        cached: The alternatives that were computed, by candidate layouts.
    """

    flow: BlockGraph | None
    reason: str = ""
    constraint: LayoutConstraint | None = None
    moves: bool = False
    replacement: Any = None
    offers: tuple[LayoutConstraint, ...] = ()
    strings: tuple[str, ...] = ()
    note: str = ""
    operator: bool = False
    form: Elementwise | ProductForm | None = None
    cached: dict[Any, list[Alternative]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def named(self) -> bool:
        """Whether the constraint is a named implementation, which has other loops."""
        return self.constraint is not None and self.constraint.saved_bytes is not None

    @property
    def constraints(self) -> tuple[LayoutConstraint, ...]:
        """The constraint, or the offers if there is none."""
        return self.offers if self.constraint is None else (self.constraint,)

    @property
    def own_form(self) -> bool:
        """Whether its form describes the operator itself, not a matrix product in its place."""
        return isinstance(self.form, Elementwise) or (self.form is not None and self.form.matmul)

    @property
    def unfuses(self) -> bool:
        """Whether each digit gets a dimension: the indices of an operator are then plain."""
        return self.operator and self.constraint is None

    def spread(self, seeds: dict[int, Layout]) -> dict[int, Layout] | None:
        """The layouts of all buffers from those of some; None if an access would not be local."""
        assert self.flow is not None
        layouts = self.flow.spread(seeds)
        if layouts is None or not self.unfuses:
            return layouts
        return {b: x if b in seeds else x.unfused for b, x in layouts.items()}

    def met(self, chosen: Mapping[int, Layout]) -> LayoutConstraint | None:
        """The constraint, or the offer that these layouts of parameters satisfy."""
        offers = (o for o in self.offers if all(o.takes(k, x) for k, x in chosen.items()))
        return self.constraint or next(offers, None)

    def takes(self, param: int, layout: Layout) -> bool:
        """Whether a parameter may have this layout."""
        if self.constraint is not None or not self.offers:
            return self.constraint is None or self.constraint.takes(param, layout)
        return layout.is_identity or any(o.takes(param, layout) for o in self.offers)


def buffer_of(flow: BlockGraph, param: int) -> int:
    """The number of a parameter's buffer."""
    buffer = flow.params[param]
    assert buffer is not None
    return buffer
