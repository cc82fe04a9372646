"""Intel oneDNN on CPUs, from PyPI: its patterns, and C++ for its regions."""

from ...backend.backend import Backend
from ...backend.flops import moved, products
from ...backend.region import Region
from ...patterns.conditions import float32
from ...prepare.integers import DEQUANTIZE
from ..common.attention_pattern import AttentionRules
from .convert import convert
from .int8 import QUANTIZED
from .locate import available, version
from .patterns import PATTERNS
from .raced_kernel import kernel
from .recipes.conv import CONV, CONV_TRANSPOSE

#: Softmax of a product, times values: loops of our own over float32.
ATTENTION = AttentionRules(float32).pattern("attention")
#: The layouts in which its kernels over plain tensors are fast.
WANTS: dict[str, tuple[str, ...]] = {
    "relax.nn.conv1d": ("NWC", "OWI"),
    "relax.nn.conv1d_transpose": ("NWC", "IOW"),
    "relax.nn.conv2d": ("NHWC", "OHWI"),
    "relax.nn.conv2d_transpose": ("NHWC", "IOHW"),
}

#: Products in a microsecond with channels last, and in other layouts: a 3 x 3 convolution of 64
#: channels over 56 x 56 took 2.35 and 5.42 ms in one thread.
LAST, ELSEWHERE = 5e4, 2e4
#: How many times faster products of int8 are.
SMALL = 3


def cost(region: Region) -> float:
    """Microseconds: 1 for the call, plus its traffic at 10 GB/s, plus the products of convolutions.

    The arithmetic of other operators does not depend on layouts or grouping, so it is left out.
    """
    memory = moved(region) / 1e4
    call = region.find(*CONV, *CONV_TRANSPOSE)
    if call is None:
        return 1.0 + memory
    rate = LAST if str(call.attrs["data_layout"]).endswith("C") else ELSEWHERE
    if region.find(DEQUANTIZE) is not None:
        rate *= SMALL
    return 1.0 + memory + products(call) / rate


ONEDNN = Backend("onednn", (*PATTERNS, ATTENTION, *QUANTIZED), convert, available, WANTS, cost,
                 version, implementation=kernel, widens=True)  # fmt: skip
