"""Check attributes of ONNX Runtime's operators, for which ONNX has no schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .onnx_node import OnnxNode


def check_attributes(node: OnnxNode, read: str, neutral: Mapping[str, Any]) -> None:
    """Refuse an attribute that a converter does not read.

    Args:
        node: The node.
        read: The names of the attributes that the converter reads.
        neutral: The values of attributes that change nothing, by name; others are refused.
    """
    known = {*read.split(), *neutral}
    for name, value in node.attrs.items():
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            node.refuse(f"unknown attribute '{name}'; the attributes are: {names}")
        shown = value.decode() if isinstance(value, bytes) else value
        if name in neutral and shown != neutral[name]:
            node.refuse(f"its attribute '{name}' is {shown}, expected {neutral[name]}: export the "
                        "model without it")  # fmt: skip


def check_absent(node: OnnxNode, inputs: Mapping[int, str]) -> None:
    """Refuse an input that a converter does not read; `inputs` has their names."""
    for k, name in inputs.items():
        if node.has(k):
            node.refuse(f"its input '{name}' has no lowering: export the model without it")


def count_of_heads(node: OnnxNode, name: str) -> int:
    """Return an attribute that is a number of heads."""
    heads = int(node.attr(name, 0))
    if heads < 1:
        node.refuse(f"its attribute '{name}' is {heads}, expected at least 1")
    return heads
