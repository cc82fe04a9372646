"""Results that torch leaves open: the positions of equal elements in an order that is not stable.

torch's CPU kernels order equal float16 elements in another way than equal float32 elements, and
the documentation of `sort`, `topk`, `kthvalue`, `median` and `mode` promises none. So positions are
right if they pick the same elements as torch's, and none twice.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

#: Operators with open positions, and which of their results these are; None if the only one.
_OPEN: Mapping[str, int | None] = {
    "sort": 1, "topk": 1, "argsort": None, "kthvalue": 1, "median": 1, "mode": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Positions:
    """Positions that may differ from torch's.

    Attributes:
        source: The tensor whose elements they pick.
        axis: The axis along which they count.
    """

    source: torch.Tensor
    axis: int

    def difference(self, got: torch.Tensor, expected: torch.Tensor) -> str:
        """Return how positions differ from the expected ones; empty if they pick the same."""
        if got.shape != expected.shape or got.dtype != expected.dtype:
            return f"{got.dtype} {[*got.shape]}, expected {expected.dtype} {[*expected.shape]}"
        source, got, expected = (x.reshape(1) if x.ndim == 0 and self.source.ndim == 0 else x
                                 for x in (self.source, got, expected))  # fmt: skip
        if got.ndim < source.ndim:  # the axis is reduced
            got, expected = got.unsqueeze(self.axis), expected.unsqueeze(self.axis)
        outside = int(((got < 0) | (got >= source.shape[self.axis])).sum())
        if outside:
            return f"{outside} of {got.numel()} positions are outside of their axis"
        ordered = got.sort(self.axis)[0]
        twice = int((ordered.diff(dim=self.axis) == 0).sum())
        if twice:
            return f"{twice} of {got.numel()} positions occur twice"
        ours, theirs = (source.gather(self.axis, x) for x in (got, expected))
        bad = int(((ours != theirs) & ~(ours.isnan() & theirs.isnan())).sum())
        return f"{bad} of {got.numel()} positions pick other elements" if bad else ""


def open_positions(exported: Any, inputs: Sequence[torch.Tensor]) -> dict[int, Positions]:
    """Return which results of a program are open positions, with what they pick from.

    Args:
        exported: The program of `torch.export`, before its decomposition.
        inputs: The tensors with which it is called.
    """
    module = exported.module()
    (out,) = module.graph.find_nodes(op="output")
    results = [x for x in out.args[0] if isinstance(x, fx.Node)
               and isinstance(x.meta.get("val"), torch.Tensor)]  # fmt: skip
    places = {k: node for k, x in enumerate(results) if (node := _open(x)) is not None}
    if not places:
        return {}
    record = _Record(module, set(places.values()))
    record.run(*(x.clone() for x in inputs))
    return {place: record.known[node] for place, node in places.items()}


def _open(result: fx.Node) -> fx.Node | None:
    """Return the operator of which a result holds open positions; None if there are none."""
    node, place = result, None
    if result.target is operator.getitem:
        node, place = result.args
    schema = getattr(node.target, "_schema", None)
    name = schema.name.partition("::")[2] if schema else ""
    if name not in _OPEN or _OPEN[name] != place or _values(node).get("stable"):
        return None
    return node


def _values(node: fx.Node) -> dict[str, Any]:
    schema = node.target._schema.arguments
    known = {a.name: a.default_value for a in schema if a.has_default_value()}
    return known | {a.name: x for a, x in zip(schema, node.args, strict=False)} | dict(node.kwargs)


class _Record(fx.Interpreter):
    """Keeps the first operand of some nodes."""

    def __init__(self, module: fx.GraphModule, nodes: set[fx.Node]) -> None:
        super().__init__(module)
        self._nodes = nodes
        self.known: dict[fx.Node, Positions] = {}

    def run_node(self, node: fx.Node) -> Any:
        if node in self._nodes:
            values = _values(node)
            self.known[node] = Positions(self.env[values["self"]].clone(), values["dim"])
        return super().run_node(node)
