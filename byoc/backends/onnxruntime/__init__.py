"""ONNX Runtime on CPUs, from PyPI: subgraphs as ONNX models."""

from __future__ import annotations

from ...backend.backend import Backend, OnnxReader
from ..onnx_models.region_cost import cost
from ..onnx_operators.graph.element_types import DLPACK, WIDER
from ..onnx_operators.onnx_writers import network
from .convert import convert, convert_file
from .locate import available, version

#: ONNX defines these operators in one layout only.
WANTS = {"relax.nn.conv2d": ("NCHW", "OIHW")}
NETWORK = network()

ONNXRUNTIME = Backend(
    "onnxruntime", (), convert, available, WANTS, cost, version, coarse=(NETWORK,),
    reader=OnnxReader(convert_file, frozenset((*DLPACK, *WIDER))),
)  # fmt: skip
