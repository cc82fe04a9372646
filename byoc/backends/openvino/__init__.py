"""OpenVINO on CPUs, from PyPI: subgraphs as ONNX models that it reads.

OpenVINO computes with int32 where a model has int64, and with float32 where it has float64. So
int64 is taken only as indices, which extents bound. A convolution whose channels are innermost
would be written between two transposes, through which OpenVINO 2026.4 misreads a tensor that is
also concatenated, as it does that in place.
"""

from __future__ import annotations

from ...backend.backend import Backend
from ...patterns.pattern import Node
from ..onnx_models.region_cost import cost
from ..onnx_operators.indexing import INDEXING
from ..onnx_operators.onnx_writers import network
from .convert import convert
from .locate import available, version

#: ONNX defines these operators in one layout only.
WANTS = {"relax.nn.conv2d": ("NCHW", "OIHW")}


def narrow(node: Node) -> str | None:
    """No number needs more than 32 bits."""
    if node.info.name in ("relax.argmax", "relax.argmin"):
        return None
    tensors = node.tensors
    if node.info.name in INDEXING and (indices := node.operand(1 if len(tensors) > 2 else 0)):
        tensors = [v for v in tensors if v is not indices]
    if any(v.dtype == "int64" for v in tensors):
        return "the dtype is int64, which OpenVINO computes in 32 bits"
    return None


def channels_first(node: Node) -> str | None:
    """A convolution or pool is in the layout that ONNX defines."""
    layout = (node.info.attrs or {}).get("data_layout", (node.info.attrs or {}).get("layout", "NC"))
    if node.info.name.startswith("relax.nn.") and not str(layout).startswith("NC"):
        return f"the layout is {layout}; OpenVINO misreads tensors between transposes"
    return None


NETWORK = network(narrow, channels_first)

OPENVINO = Backend("openvino", (), convert, available, WANTS, cost, version, coarse=(NETWORK,))
