"""OpenVINO on CPUs, from PyPI: subgraphs as ONNX models that it reads.

OpenVINO computes with int32 where a model has int64, with float32 where it has float64, and with
float32 in many operators of integers: see `small_integers`.
A convolution whose channels are innermost would be written between two transposes, through which
OpenVINO 2026.4 misreads a tensor that is also concatenated, as it does that in place. Two layers
that read one sequence of a batch above 1 get wrong inputs, and the order of equal elements in a
sort is not defined.
"""

from __future__ import annotations

import numpy as np

from ....analysis.recurrent.quantized_lstm_operator import NAME as QUANTIZED_LSTM
from ....analysis.recurrent.recurrence_operator import NAME as RECURRENCE
from ...backend.backend import Backend, OnnxReader
from ...patterns.pattern import Node
from ...patterns.value_bounds import bounds
from ..common.whole_axes import part_of_axes
from ..onnx_models.region_cost import cost
from ..onnx_operators.graph.element_types import DLPACK
from ..onnx_operators.onnx_writers import network
from .convert import convert, convert_file
from .locate import available, version
from .small_integers import narrow, small_or_clamped

#: ONNX defines these operators in one layout only.
WANTS = {"relax.nn.conv2d": ("NCHW", "OIHW")}


#: Operators that OpenVINO has, but not as TVM defines them, or lacks.
WITHOUT = ("relax.topk", "relax.argsort", QUANTIZED_LSTM)
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
    if node.info.name == "relax.mod" and node.result.dtype == "float32":
        return "OpenVINO computes remainders of floats from rounded quotients"
    if node.info.name == "relax.min" and "float" in node.result.dtype:
        return "OpenVINO has the largest finite number as the minimum of infinities"
    if node.info.name == "relax.divide" and node.result.dtype != "float32":
        return f"the dtype is {node.result.dtype}, of which OpenVINO rounds quotients down"
    if node.info.name == "relax.matmul" and node.result.dtype == "int32":
        return "the dtype is int32, of which OpenVINO rounds sums of products to float32"
    return part_of_axes(node)


def exact(node: Node) -> str | None:
    """No operator of a file is one that OpenVINO computes differently for some values only."""
    name = node.info.name
    if name in ("relax.topk", "relax.argsort", "relax.sort"):
        return f"{name} leaves the order of equal elements open in OpenVINO"
    if name == "relax.add" and not _even_point(node):
        return ODD
    if _of_nan(node):
        return f"{name} of floats that may be NaN, which OpenVINO has as greater and as false"
    return None if name == "relax.matmul" else halves(node) or single(node)


def _of_nan(node: Node) -> bool:
    """Whether an operator of a file makes a bool of NaN that ONNX does not; regions avoid these."""
    if node.info.name not in ("relax.greater", "relax.greater_equal", "relax.astype"):
        return False
    operands = [v for v in node.tensors if v is not node.result]
    return node.result.dtype == "bool" and any(
        "float" in v.dtype and bounds(v, node.infos) is None for v in operands
    )


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
    reader=OnnxReader(convert_file, frozenset(DLPACK) - {"float16"}, (exact, small_or_clamped),
                      drops_unused=True, clamps=True),
    widens=True,
)  # fmt: skip
