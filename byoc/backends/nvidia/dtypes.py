"""Types of tensors, as the libraries and DLPack number them."""

from __future__ import annotations

from ....layout.graph.relax_graph import Value
from ...patterns.pattern import Node

#: DLPack's code and bits.
DLPACK = {"float32": (2, 32), "float16": (2, 16), "bfloat16": (4, 16)}
CUDA = {"float32": "CUDA_R_32F", "float16": "CUDA_R_16F", "bfloat16": "CUDA_R_16BF"}


def tensors(node: Node) -> list[Value]:
    """The result and the operands."""
    found = (node.result, *(node.operand(k) for k in range(len(node.info.operands))))
    return [v for v in found if v is not None]


def typed(node: Node) -> str | None:
    """All tensors of the op have one type, which the libraries have."""
    found = sorted({v.dtype for v in tensors(node)})
    if len(found) > 1 or found[0] not in DLPACK:
        return f"the dtypes are {', '.join(found)}: one of {', '.join(DLPACK)} is taken"
    return None
