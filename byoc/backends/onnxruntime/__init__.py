"""ONNX Runtime on CPUs, from PyPI: whole parts of a graph, each one as an ONNX model."""

from math import prod

from ...backend.backend import Backend
from ...backend.region import Region, Tensor
from .convert import convert
from .locate import available, version
from .ops import NETWORK

#: ONNX has these operators in one layout only.
WANTS = {"relax.nn.conv2d": ("NCHW", "OIHW")}


def cost(region: Region) -> float:
    """Microseconds for a call, for each operator, and for what all of them write at 10 GB/s."""
    written = sum(_bytes(c.result) for c in region.calls)
    return 10.0 + len(region.calls) + (written + sum(map(_bytes, region.inputs))) / 1e4


def _bytes(t: Tensor) -> int:
    return 4 * prod(e if isinstance(e, int) else 64 for e in t.shape)


ONNXRUNTIME = Backend(
    "onnxruntime", (), convert, available, WANTS, cost, version, coarse=(NETWORK,)
)
