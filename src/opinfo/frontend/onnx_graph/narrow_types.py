"""Types of less than 8 bits, of which only constants are read."""

from __future__ import annotations

from .onnx_node import OnnxNode
from .values import TensorValue, constant

#: The type of 8 bits as whose elements those of a narrow type are read.
NARROW = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}


def as_bytes(node: OnnxNode, k: int) -> TensorValue:
    """Return input `k`, with elements of 8 bits if it is a constant of a narrow type."""
    value = node.value(k)
    if value.dtype not in NARROW:
        return value
    if not value.is_constant or value.elements is None:
        node.refuse(f"a tensor of {value.dtype} that is computed, expected a constant")
    return constant(value.elements.astype(NARROW[value.dtype]))


def check_result(node: OnnxNode, dtype: str) -> None:
    """Refuse a result of a narrow type, or of strings."""
    if dtype == "object":
        node.refuse("its result has strings, which TVM has no type for, expected numbers: write "
                    "numbers, and turn them into texts after the call")  # fmt: skip
    if dtype in NARROW:
        node.refuse(f"its result is {dtype}, expected a type of at least 8 bits")
