"""Attention as one call of cuDNN's: views of tensors by batch, heads, rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....backend.region import Array, Tensor
from ....patterns.extents.symbolic_extents import Extent

Four = tuple[Extent, Extent, Extent, Extent]


@dataclass(frozen=True)
class HeadsView:
    """A tensor by batch, heads, rows and columns: extents, steps, and the offset of the first."""

    extents: Four
    steps: Four
    offset: Extent = 0


@dataclass(frozen=True)
class Sdpa:
    """A region as one call of cuDNN's.

    Attributes:
        tensors: Queries, keys, values.
        views: The views of these, then of the result.
        scale: The factor of the scores.
        causal: The corner from which keys after a query are hidden, or empty.
        mask: The term that is added: a tensor of the call, or a constant of these elements.
        mask_view: Its view.
        summed: Whether the mask is the sum of several constants.
    """

    tensors: tuple[Tensor, Tensor, Tensor]
    views: tuple[HeadsView, HeadsView, HeadsView, HeadsView]
    scale: float
    causal: str = ""
    mask: Tensor | Array | None = None
    mask_view: HeadsView | None = None
    summed: bool = False

    @property
    def rounds(self) -> str:
        """How it rounds differently from its operators one by one."""
        dtype = self.tensors[0].dtype
        summed = f"constant terms are added first, rounded to {dtype}; " if self.summed else ""
        return (f"{summed}scores are float32, scaled there, their softmax is rounded to {dtype} "
                "before the second product")  # fmt: skip


def four(values: Sequence[Extent]) -> Four:
    """Four values as a tuple."""
    a, b, c, d = values
    return a, b, c, d
