"""An alternative of an op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..graph.relax_graph import Value
from ..model.layout import Layout

GIVEN = "as given"
IN_ORDER = "in the order of its accesses"
Candidates = Mapping[Value, Sequence[Layout]]


@dataclass(frozen=True)
class Alternative:
    """One alternative of an op.

    Attributes:
        outputs: The layouts of its results.
        inputs: The layouts in which it may read each input; None for a scalar, or for a constant,
            which takes any layout for free.
        cost: Its cost.
        why: The reason, for reports.
        usual: The layout of each input that the operator has with these results.
        moves: Whether it is a conversion, and costs as much as one.
        constants: The layouts of free inputs; None for other inputs. Empty if they follow from the
            layouts of the others.
    """

    outputs: tuple[Layout, ...]
    inputs: tuple[frozenset[Layout] | None, ...]
    cost: float
    why: str
    usual: tuple[Layout | None, ...] = ()
    moves: bool = False
    constants: tuple[Layout | None, ...] = ()

    @property
    def strict(self) -> Alternative:
        """The alternative with the usual input layouts only."""
        inputs = tuple(
            allowed if allowed is None or layout is None else frozenset((layout,))
            for allowed, layout in zip(self.inputs, self.usual, strict=True)
        )
        return replace(self, inputs=inputs)

    def same_as(self, other: Alternative) -> bool:
        """Whether it reads and writes the same layouts at the same cost."""
        left, right = ((c.outputs, c.inputs, c.cost, c.moves) for c in (self, other))
        return left == right
