"""Dynamic quantisation to uint8, recovered from the operators that compute it.

Before: low = Min(ReduceMin(x), 0), high = Max(ReduceMax(x), 0),
        scale = Where(low == high, 1, (high - low) / 255),
        point = Round(Clip(0 - low / scale, 0, 255)),
        codes = Clip(Round(x / scale) + point, 0, 255)
After:  y, scale, zero = DynamicQuantizeLinear(x), point = Cast(zero), codes = Cast(y)

ONNX Runtime takes scale 1 for low == high too, divides by the scale, and rounds halves to even.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..onnx_operators.graph.element_types import ELEMENT_TYPES
from ..onnx_operators.graph.graph_writer import NodeProto
from .integer_facts import IntegerFacts


@dataclass(frozen=True)
class Quantized:
    """A `DynamicQuantizeLinear`: its operand, the least number, and its results."""

    data: str
    low: str
    codes: str
    zero: str


@dataclass(frozen=True)
class DynamicQuantization:
    """The dynamic quantisations that were recovered in a graph, by their scales."""

    facts: IntegerFacts
    by_scale: dict[str, Quantized] = field(default_factory=dict)

    def scale(self, node: NodeProto) -> str | None:
        """The scale of a new `DynamicQuantizeLinear` in place of a choice."""
        writer, number = self.facts.writer, self.facts.number
        flat, unit, quotient = node.inputs
        equal, divided = writer.before(flat, "Equal"), writer.before(quotient, "Div")
        if equal is None or divided is None or not number(unit, 1.0):
            return None
        span = writer.before(divided.inputs[0], "Sub")
        if span is None or not number(divided.inputs[1], 255.0):
            return None
        high, low = span.inputs
        if set(equal.inputs) != {high, low}:
            return None
        data = self._extreme(low, "Min")
        if data is None or data != self._extreme(high, "Max"):
            return None
        return self._quantized(node, data, low)

    def _quantized(self, node: NodeProto, data: str, low: str) -> str | None:
        writer = self.facts.writer
        tensor, scalar = writer.tensors.get(data), writer.tensors.get(node.output)
        if tensor is None or scalar is None or scalar.shape != () or tensor.dtype != "float32":
            return None
        codes, scale, zero = writer.nodes_of("DynamicQuantizeLinear", [data], 3)
        writer.tensors[codes] = replace(tensor, dtype="uint8")
        writer.tensors[zero] = replace(scalar, dtype="uint8")
        self.by_scale[scale] = Quantized(data, low, codes, zero)
        return scale

    def _extreme(self, name: str, bound: str) -> str | None:
        """The tensor whose least (greatest) element, or 0, is a ``Min`` (``Max``)."""
        writer, kinds = self.facts.writer, (bound, *(("Relu",) if bound == "Max" else ()))
        node = writer.before(name, *kinds)
        if node is None:
            return None
        others = [i for i in node.inputs if not self.facts.number(i, 0.0)]
        reduced = writer.before(others[0], f"Reduce{bound}") if len(others) == 1 else None
        shape = None if reduced is None else self.facts.shape(reduced.inputs[0])
        if reduced is None or shape is None:
            return None
        axes = sorted(writer.arrays[reduced.inputs[1]].tolist())
        return reduced.inputs[0] if axes == list(range(len(shape))) else None

    def zero_point(self, node: NodeProto) -> str | None:
        """The zero point as float32 in place of a rounding."""
        writer = self.facts.writer
        clip = writer.before(node.inputs[0], "Clip")
        moved = None if clip is None else writer.before(clip.inputs[0], "Sub", "Neg")
        if clip is None or moved is None or not self._to_255(clip):
            return None
        if moved.op == "Sub" and not self.facts.number(moved.inputs[0], 0.0):
            return None
        divided = writer.before(moved.inputs[-1], "Div")
        quantized = None if divided is None else self.by_scale.get(divided.inputs[1])
        if divided is None or quantized is None or divided.inputs[0] != quantized.low:
            return None
        return self._cast(quantized.zero, node)

    def codes(self, node: NodeProto) -> str | None:
        """The codes as float32 in place of a clip."""
        writer = self.facts.writer
        added = writer.before(node.inputs[0], "Add")
        if added is None or not self._to_255(node):
            return None
        for rounded, point in (added.inputs, added.inputs[::-1]):
            nearest = writer.before(rounded, "Round")
            divided = None if nearest is None else writer.before(nearest.inputs[0], "Div")
            quantized = None if divided is None else self.by_scale.get(divided.inputs[1])
            if divided is None or quantized is None or divided.inputs[0] != quantized.data:
                continue
            if self.facts.origins.get(point) == quantized.zero:
                return self._cast(quantized.codes, node)
        return None

    def _to_255(self, clip: NodeProto) -> bool:
        return self.facts.number(clip.inputs[1], 0.0) and self.facts.number(clip.inputs[2], 255.0)

    def _cast(self, name: str, node: NodeProto) -> str:
        """A tensor of uint8 as float32, in place of a node."""
        writer = self.facts.writer
        output = writer.node("Cast", [name], to=ELEMENT_TYPES["float32"])
        writer.tensors[output] = writer.tensors[node.output]
        self.facts.cast(writer.nodes[output])
        return output
