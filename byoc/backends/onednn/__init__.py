"""Intel oneDNN on CPUs, from PyPI: its patterns, and C++ for its regions."""

from ...backend.backend import Backend
from ...backend.flops import moved, products
from ...backend.region import Region
from ...prepare.integers import DEQUANTIZE
from .convert import convert
from .int8 import QUANTISED
from .locate import available, version
from .patterns import CONV, CONV_TRANSPOSE, PATTERNS

#: The layouts in which its kernels over plain tensors are fast.
WANTS: dict[str, tuple[str, ...]] = {
    "relax.nn.conv2d": ("NHWC", "OHWI"),
    "relax.nn.conv2d_transpose": ("NHWC", "IOHW"),
}

#: Products in a microsecond where the channels are innermost, and elsewhere: 64 of them, 3 x 3 over
#: 56 x 56, took 2.35 and 5.42 ms in one thread.
LAST, ELSEWHERE = 5e4, 2e4
#: How many times as many of int8.
SMALL = 3


def cost(region: Region) -> float:
    """Microseconds for a call, for what it reads and writes at 10 GB/s, and for convolutions.

    Of other operators the arithmetic is the same in all layouts and however they are grouped.
    """
    memory = moved(region) / 1e4
    call = region.find(*CONV, *CONV_TRANSPOSE)
    if call is None:
        return 1.0 + memory
    rate = LAST if str(call.attrs["data_layout"]).endswith("C") else ELSEWHERE
    if region.find(DEQUANTIZE) is not None:
        rate *= SMALL
    return 1.0 + memory + products(call) / rate


ONEDNN = Backend("onednn", (*PATTERNS, *QUANTISED), convert, available, WANTS, cost, version)
