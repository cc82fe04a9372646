"""The cost of a conversion if backends take chains: one inside a chain also cuts it.

conv → add → relu → layout_transform    the chain's result is written, read and written
conv → layout_transform → add → relu    and the convolution's result was written and read before

So the bytes of a value count twice if its only reader could be fused into its producer. Between
plans of equal cost, the one that keeps the chain whole wins.
"""

from __future__ import annotations

from ....analysis.answer.analyser import analyser
from ....layout.graph.relax_graph import Op, Value
from ....layout.model.layout import Layout
from ....layout.search.function_plan import Cost, bytes_moved

POINTWISE = ("kElemWise", "kBroadcast")
#: Bytes added for a cut chain: more than the planner's own tie-breaks for its ops.
WHOLE = 64.0


def keeping_chains() -> Cost:
    """Return an objective for `plan_layout` that counts the bytes moved, twice inside a chain.

    Returns:
        The objective, to be passed as ``plan_layout(..., objective=keeping_chains())``.
    """
    chains = _Chains()

    def cost(value: Value, layout: Layout) -> float:
        moved = bytes_moved(value, layout)
        return 2 * moved + WHOLE if not value.weight and chains.inside(value) else moved

    return cost


class _Chains:
    """Says which values are inside a chain that a backend may take; each answer is cached."""

    def __init__(self) -> None:
        self.analyse = analyser()
        self.anchored: dict[Op, bool] = {}

    def inside(self, value: Value) -> bool:
        """Whether a value is inside a chain."""
        if value.producer is None or value.pinned is not None or len(value.uses) != 1:
            return False
        (reader,) = value.uses
        return self.extends(reader, value) and self.is_anchored(value.producer)

    def extends(self, reader: Op, value: Value) -> bool:
        """Whether an op is elementwise over a value and keeps its shape."""
        same = len(reader.outputs) == 1 and list(reader.outputs[0].shape) == list(value.shape)
        return same and self.kind(reader) in POINTWISE

    def is_anchored(self, op: Op) -> bool:
        """Whether an op is the anchor of a chain or continues one."""
        if op not in self.anchored:
            self.anchored[op] = self.kind(op) == "kOutEWiseFusable" or (
                self.kind(op) in POINTWISE
                and any(v and self.extends(op, v) and self.inside(v) for v in op.inputs)
            )
        return self.anchored[op]

    def kind(self, op: Op) -> str:
        info = self.analyse(op.func).operator
        return "" if info is None else info.kind
