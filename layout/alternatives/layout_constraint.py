"""The constraint that a request puts on a PrimFunc."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model.digit import Digit
from ..model.layout import Layout


@dataclass(frozen=True)
class LayoutConstraint:
    """The constraint on a PrimFunc.

    Attributes:
        layouts: The layout of each parameter; others are free.
        why: The reason, for reports.
        exact: Elements inside a dimension may not be reordered either.
        last: The axis of a parameter that must be innermost; the rest of its layout is free.
        saved_bytes: The bytes that a named implementation saves. None: the layouts must hold at any
            price, and loops stay unchanged where nothing moves.
    """

    layouts: Mapping[int, Layout]
    why: str
    exact: bool = False
    last: Mapping[int, int] = field(default_factory=dict)
    saved_bytes: float | None = None

    def takes(self, param: int, layout: Layout) -> bool:
        """Whether a parameter may have this layout.

        Unless ``exact``, elements inside a dimension may be reordered: the operator is then the
        same over a permuted operand.
        """
        if param in self.last:
            return layout.dims[-1:] == ((Digit(self.last[param]),),)
        required = self.layouts.get(param)
        if required is None or layout.dims == required.dims:
            return True
        axes = [tuple({d.axis for d in dim}) for dim in layout.dims]
        unsplit = [(dim[0].axis,) for dim in required.dims]
        return not self.exact and required.permutation is not None and axes == unsplit
