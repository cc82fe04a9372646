"""Products of integers of 8 bits, recovered from products in float32 that are exact.

Before: MatMul(Cast(q) - Cast(z), w), with q and z of uint8 and w a constant of integers
After:  Cast(MatMulInteger(q, w', z, z')), if no sum exceeds what float32 holds exactly

So is a convolution without groups, which ONNX Runtime computes one after the other. The result of
one with groups is known to be integers, so casts to int32 and back are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...backend.region import Array
from ...patterns.symbolic_shapes import same_shape
from ..onnx_operators.graph.element_types import ELEMENT_TYPES
from ..onnx_operators.graph.graph_writer import NodeProto
from .integer_facts import EXACT, Codes, IntegerFacts, greatest


@dataclass(frozen=True)
class IntegerProducts:
    """Recovers products in a graph of which facts are known."""

    facts: IntegerFacts

    def matmul(self, node: NodeProto) -> str | None:
        """The result of a `MatMulInteger` in place of a product of matrices."""
        weights = self.facts.writer.arrays.get(node.inputs[1])
        codes = self.facts.codes(node.inputs[0])
        if weights is None or weights.ndim < 2 or codes is None:
            return None
        shapes = [self.facts.shape(n) or () for n in (node.inputs[0], codes.name)]
        if len(shapes[0]) < 2 or not same_shape(*shapes):
            return None  # a vector, or a zero point of more axes
        total = self._total(node, weights, (-2,), codes)
        stored = None if total is None else in_8_bits(weights)
        if total is None or stored is None or self.facts.dtype(codes.name) != "uint8":
            return None
        return self._written("MatMulInteger", node, codes, stored, total)

    def convolution(self, node: NodeProto) -> str | None:
        """The result of a `ConvInteger` in place of a convolution without a bias."""
        weights = self.facts.writer.arrays.get(node.inputs[1])
        codes = self.facts.codes(node.inputs[0])
        if weights is None or codes is None or len(node.inputs) != 2:
            return None
        total = self._total(node, weights, tuple(range(1, weights.ndim)), codes)
        if total is None:
            return None
        self.facts.bounds[node.output] = total
        groups = node.attrs.get("group", 1)
        stored = in_8_bits(weights, "uint8") if groups == 1 else None  # int8 is five times slower
        if stored is None or self.facts.dtype(codes.name) != "uint8":
            return None
        return self._written("ConvInteger", node, codes, stored, total)

    def _total(
        self, node: NodeProto, weights: Array, axes: tuple[int, ...], codes: Codes
    ) -> int | None:
        """The largest magnitude of a sum of products; None if one may be rounded."""
        if self.facts.dtype(node.output) != "float32" or greatest(weights) is None:
            return None
        sums = np.abs(weights.astype("float64")).sum(axes)
        total = int(sums.max(initial=0)) * codes.bound
        return total if total <= EXACT else None

    def _written(
        self, op: str, node: NodeProto, codes: Codes, stored: tuple[Array, Array], total: int
    ) -> str:
        writer, (weights, point) = self.facts.writer, stored
        inputs = [codes.name, writer.constant(weights), codes.zero or writer.scalar(0, "uint8")]
        if point.any():
            inputs.append(writer.constant(point))
        product = writer.node(op, inputs, **node.attrs)
        result = writer.tensors[node.output]
        writer.tensors[product] = replace(result, dtype="int32")
        self.facts.bounds[product] = total
        output = writer.node("Cast", [product], to=ELEMENT_TYPES[result.dtype])
        writer.tensors[output] = result
        self.facts.cast(writer.nodes[output])
        return output


def in_8_bits(weights: Array, dtype: str = "int8") -> tuple[Array, Array] | None:
    """Integers in 8 bits with the zero point that is to be subtracted from them.

    Args:
        weights: A matrix, several, or the kernel of a convolution.
        dtype: int8 or uint8.

    Returns:
        The numbers and their zero point: a scalar, or one for each column of a matrix. None if the
        numbers of a column span more than 8 bits.
    """
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    for axes in (None, 0) if weights.ndim == 2 else (None,):
        low, high = (np.asarray(f(weights, axis=axes)) for f in (np.min, np.max))
        point = np.where(high > most, most - high, np.where(low < least, least - low, 0))
        moved = weights + point
        if min(moved.min(), point.min()) >= least and max(moved.max(), point.max()) <= most:
            return moved.astype(dtype), point.astype(dtype)
    return None
