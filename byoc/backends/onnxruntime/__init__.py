"""ONNX Runtime on CPUs, from PyPI: subgraphs as ONNX models."""

from ....layout.model.buffer_bytes import size_of
from ...backend.backend import Backend
from ...backend.region import Region
from .convert import convert
from .locate import available, version
from .ops import NETWORK

#: ONNX defines these operators in one layout only.
WANTS = {"relax.nn.conv2d": ("NCHW", "OIHW")}


def cost(region: Region) -> float:
    """Microseconds: 10 for the call, 1 for each operator, plus its traffic at 10 GB/s."""
    tensors = (*(c.result for c in region.calls), *region.inputs)
    return 10.0 + len(region.calls) + sum(size_of(t.shape, t.dtype) for t in tensors) / 1e4


ONNXRUNTIME = Backend(
    "onnxruntime", (), convert, available, WANTS, cost, version, coarse=(NETWORK,)
)
