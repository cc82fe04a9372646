"""Products of integers of 8 bits, recovered from exact products in float32 or int32.

Before: MatMul(Cast(q) - Cast(z), w), with q and z of uint8 and w a constant of integers, or codes
After:  Cast(MatMulInteger(q, w', z, z')), if no sum exceeds what the dtype holds exactly

So is a convolution without groups, which ONNX Runtime computes one after the other. The result of
one with groups is known to be integers, so casts to int32 and back are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...backend.region import Array
from ...patterns.extents.symbolic_shapes import same_shape
from ..onnx_operators.graph.element_types import ELEMENT_TYPES
from ..onnx_operators.graph.graph_writer import NodeProto
from .integer_facts import EXACT, IntegerCodes, IntegerFacts, greatest


@dataclass(frozen=True)
class IntegerProducts:
    """Recovers products in a graph of which facts are known."""

    facts: IntegerFacts

    def matmul(self, node: NodeProto) -> str | None:
        """The result of a `MatMulInteger` in place of a product of matrices."""
        codes = self._matrix(node.inputs[0])
        if codes is None or self.facts.dtype(codes.name) != "uint8":
            return None
        weights = self.facts.writer.arrays.get(node.inputs[1])
        if weights is None:
            return self._of_two(node, codes)
        if weights.ndim < 2:
            return None
        total = self._total(node, weights, (-2,), codes)
        stored = None if total is None else in_8_bits(weights)
        if total is None or stored is None:
            return None
        return self._written("MatMulInteger", node, codes, stored, total)

    def _of_two(self, node: NodeProto, left: IntegerCodes) -> str | None:
        """The product of two tensors of codes, with the bound that their depth gives.

        None for int8 at the right: without VNNI, ONNX Runtime adds pairs of such products in 16
        bits, which saturate. It has an exact way for constants alone.
        """
        right, shape = self._matrix(node.inputs[1]), self.facts.shape(node.inputs[1])
        depth = None if shape is None else shape[-2]
        if right is None or not isinstance(depth, int) or self.facts.dtype(right.name) == "int8":
            return None
        total = depth * left.bound * right.bound
        if total > self._most(node):
            return None
        zeros = [c.zero or self.facts.writer.scalar(0, self.facts.dtype(c.name) or "uint8")
                 for c in (left, right)]  # fmt: skip
        return self._product("MatMulInteger", node, [left.name, right.name, *zeros], total)

    def _matrix(self, name: str) -> IntegerCodes | None:
        """Codes of which a tensor of two axes or more is made, with one zero point."""
        codes = self.facts.codes(name)
        shapes = [self.facts.shape(n) or () for n in (name, codes.name if codes else name)]
        return codes if len(shapes[0]) >= 2 and same_shape(*shapes) else None

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
        self, node: NodeProto, weights: Array, axes: tuple[int, ...], codes: IntegerCodes
    ) -> int | None:
        """The largest magnitude of a sum of products; None if one may be rounded."""
        if greatest(weights) is None:
            return None
        sums = np.abs(weights.astype("float64")).sum(axes)
        total = int(sums.max(initial=0)) * codes.bound
        return total if total <= self._most(node) else None

    def _most(self, node: NodeProto) -> int:
        """Up to which magnitude a product in the dtype of a node is exact; -1 for none."""
        return {"float32": EXACT, "int32": (1 << 31) - 1}.get(
            self.facts.dtype(node.output) or "", -1
        )

    def _written(
        self, op: str, node: NodeProto, codes: IntegerCodes, stored: tuple[Array, Array], total: int
    ) -> str:
        writer, (weights, point) = self.facts.writer, stored
        inputs = [codes.name, writer.constant(weights), codes.zero or writer.scalar(0, "uint8")]
        if point.any():
            inputs.append(writer.constant(point))
        return self._product(op, node, inputs, total)

    def _product(self, op: str, node: NodeProto, inputs: list[str], total: int) -> str:
        """A product of integers as a node's dtype."""
        writer = self.facts.writer
        product = writer.node(op, inputs, **node.attrs)
        result = writer.tensors[node.output]
        writer.tensors[product] = replace(result, dtype="int32")
        self.facts.bounds[product] = total
        if result.dtype == "int32":
            return product
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
