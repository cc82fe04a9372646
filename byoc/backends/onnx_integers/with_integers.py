"""The integer arithmetic of a written graph, in operators that runtimes have for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..onnx_operators.graph.graph_writer import GraphWriter, NodeProto
from .dynamic_quantization import DynamicQuantization
from .integer_facts import IntegerFacts
from .integer_products import IntegerProducts

Rule = Callable[[NodeProto], str | None]
"""Returns the tensor that takes the place of a node's output; None if the node stays."""


def with_integers(writer: GraphWriter, results: Sequence[str]) -> list[str]:
    """Recover integer arithmetic in a graph.

    Args:
        writer: The graph, which is changed; nodes of other operators stay as they are.
        results: The names of its results.

    Returns:
        The names of the results in the new graph.
    """
    rules = _rules(IntegerFacts(writer))
    written, writer.nodes = writer.nodes, {}
    names: dict[str, str] = {}
    for old in written.values():
        node = replace(old, inputs=tuple(names.get(i, i) for i in old.inputs))
        new = rules[node.op](node) if node.op in rules else None
        if new is None:
            writer.nodes[node.output] = node
        else:
            names[node.output] = new
    return [names.get(r, r) for r in results]


def _rules(facts: IntegerFacts) -> Mapping[str, Rule]:
    dynamic, products = DynamicQuantization(facts), IntegerProducts(facts)
    return {
        "Where": dynamic.scale,
        "Round": dynamic.zero_point,
        "Clip": dynamic.codes,
        "Cast": facts.cast,
        "MatMul": products.matmul,
        "Conv": products.convolution,
    }
