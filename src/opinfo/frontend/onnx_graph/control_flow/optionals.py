"""Optional values whose presence is known; they vanish during the import."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..conversion.converter_table import converts
from ..onnx_node import OnnxNode
from ..values import AbsentValue, TensorValue, constant


def _is_present(node: OnnxNode) -> bool:
    return node.has(0) and not isinstance(node.inputs[0], AbsentValue)


@converts("Optional")
def optional(node: OnnxNode) -> Any:
    """Return the element itself, or an optional without one."""
    return node.inputs[0] if _is_present(node) else AbsentValue()


@converts("OptionalHasElement")
def has_element(node: OnnxNode) -> TensorValue:
    """Return whether there is an element."""
    return constant(np.array(_is_present(node)))


@converts("OptionalGetElement")
def element(node: OnnxNode) -> Any:
    """Return the element."""
    if not _is_present(node):
        node.refuse("its optional has no element: remove the branch that reads it")
    return node.inputs[0]
