"""OpenVINO on CPUs, from PyPI: subgraphs as ONNX models that it reads.

OpenVINO computes with int32 where a model has int64, and with float32 where it has float64. So
int64 is taken only as indices, which extents bound, and where all numbers are known to be small.
A convolution whose channels are innermost would be written between two transposes, through which
OpenVINO 2026.4 misreads a tensor that is also concatenated, as it does that in place. Two layers
that read one sequence of a batch above 1 get wrong inputs, and the order of equal elements in a
sort is not defined.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ....analysis.recurrent.quantized_lstm_operator import NAME as QUANTIZED_LSTM
from ....analysis.recurrent.recurrence_operator import NAME as RECURRENCE
from ....layout.graph.relax_graph import Value
from ...backend.backend import Backend, OnnxReader
from ...patterns.pattern import Node
from ...patterns.value_bounds import bounds
from ..onnx_models.region_cost import cost
from ..onnx_operators.graph.element_types import DLPACK
from ..onnx_operators.movement.indexing import INDEXING
from ..onnx_operators.onnx_writers import network
from .convert import convert, convert_file
from .locate import available, version

#: ONNX defines these operators in one layout only.
WANTS = {"relax.nn.conv2d": ("NCHW", "OIHW")}


#: Operators that OpenVINO has, but not as TVM defines them, or lacks.
WITHOUT = ("relax.topk", "relax.argsort", QUANTIZED_LSTM)
#: Beyond the integers of 32 bits.
LARGEST = 2.0**31
ODD = "the zero point may be odd, to which OpenVINO adds halves before it rounds to even"


def alone(node: Node) -> str | None:
    """A recurrent layer has a batch of 1."""
    batch = node.result.shape[1] if node.info.name == RECURRENCE else 1
    if isinstance(batch, int) and batch == 1:
        return None
    return f"the batch is {batch}, expected 1: OpenVINO mixes up larger ones"


def single(node: Node) -> str | None:
    """Nothing is float16, in which OpenVINO does not compute; integers are only added to others."""
    if any(v.dtype == "float16" for v in node.tensors):
        return "the dtype is float16, which OpenVINO computes as float32"
    if node.info.name == "relax.divide" and node.result.dtype != "float32":
        return f"the dtype is {node.result.dtype}, of which OpenVINO rounds quotients down"
    if node.info.name == "relax.matmul" and node.result.dtype == "int32":
        return "the dtype is int32, of which OpenVINO rounds sums of products to float32"
    return None


def narrow(node: Node) -> str | None:
    """No number needs more than 32 bits: all int64 have bounds."""
    if any(map(partial(_wide, node), _computed(node))):
        return "the dtype is int64, which OpenVINO computes in 32 bits"
    return None


def _wide(node: Node, value: Value) -> bool:
    """Whether numbers of int64 are not known to fit into 32 bits."""
    if value.dtype != "int64" or node.info.name in ("relax.argmax", "relax.argmin"):
        return False
    within = bounds(value, node.infos)
    return within is None or within[0] < -LARGEST or within[1] >= LARGEST


def _computed(node: Node) -> list[Value]:
    """The tensors of an operator, without indices, which extents bound."""
    tensors = node.tensors
    if node.info.name in INDEXING and (indices := node.operand(1 if len(tensors) > 2 else 0)):
        return [v for v in tensors if v is not indices]
    return tensors


def in_32_bits(node: Node) -> str | None:
    """No number of a file needs more than 32 bits: all int64 have bounds, nothing is float64."""
    for value in _computed(node):
        if value.dtype == "float64":
            return f"{value.name} is float64, which OpenVINO computes as float32"
        if _wide(node, value):
            return f"{value.name} is int64, which OpenVINO computes in 32 bits"
    return None


def exact(node: Node) -> str | None:
    """No operator of a file is one that OpenVINO computes differently for some values only."""
    name = node.info.name
    if name in ("relax.topk", "relax.argsort", "relax.sort"):
        return f"{name} leaves the order of equal elements open in OpenVINO"
    if name == "relax.add" and not _even_point(node):
        return ODD
    return None if name == "relax.matmul" else halves(node) or single(node)


def halves(node: Node) -> str | None:
    """Halves are quantised as in TVM: OpenVINO adds the zero point before it rounds to even."""
    return ODD if node.info.name == "relax.quantize" and not _even_point(node) else None


def _even_point(node: Node) -> bool:
    """Whether all zero points are even: then halves are rounded to the same numbers as in ONNX.

    `QLinearMatMul` and its like are imported as operators, of which one adds to what is rounded.
    """
    at = 2 if node.info.name == "relax.quantize" else 1
    if at == 1 and ((rounded := node.source(0)) is None or rounded.info.name != "relax.round"):
        return True
    value = node.operand(at)
    if value is not None and not value.constant:
        return False
    point: object = (node.info.attrs or {}).get("x2", 0)
    if value is not None:
        point = value.expr.value.numpy()
    elif at < len(node.info.operands):
        point = getattr(node.info.operands[at], "value", 0)
    return not (np.asarray(point).astype("int64") % 2).any()


def channels_first(node: Node) -> str | None:
    """An operator with channels is in the layout that ONNX defines."""
    attrs = node.info.attrs or {}
    layout = str(attrs.get("data_layout", attrs.get("layout", "NC")))
    if not layout.startswith("NC"):
        return f"the layout is {layout}; OpenVINO misreads tensors between transposes"
    return None


NETWORK = network(single, narrow, alone, channels_first, halves, without=WITHOUT)

OPENVINO = Backend(
    "openvino", (), convert, available, WANTS, cost, version, coarse=(NETWORK,),
    reader=OnnxReader(convert_file, frozenset(DLPACK) - {"float16"}, (exact, in_32_bits),
                      drops_unused=True),
)  # fmt: skip
