"""Intel oneDNN on CPUs, from PyPI: what it takes, and C++ for it."""

from math import prod

from ..backend import Backend, register
from ..region import Region, Tensor
from .convert import convert
from .locate import available, version
from .patterns import PATTERNS

#: The layouts in which its kernels over plain tensors are fast; what must stay what it is.
WANTS: dict[str, tuple[str, ...]] = {
    "relax.nn.conv2d": ("NHWC", "OHWI"),
    "relax.matmul": (),
    "relax.nn.layer_norm": (),
    "relax.nn.softmax": (),
}


def cost(region: Region) -> float:
    """Microseconds for a call, and for what it reads and writes at 10 GB/s.

    Arithmetic is the same however it is grouped, so that it need not be counted.
    """
    return 1.0 + sum(map(_bytes, (*region.inputs, region.result))) / 1e4


def _bytes(t: Tensor) -> int:
    return 4 * prod(e if isinstance(e, int) else 64 for e in t.shape)


ONEDNN = register(Backend("onednn", PATTERNS, convert, available, WANTS, cost, version))
