"""OpenBLAS on CPUs, from PyPI: matrix products of any extents, with elementwise epilogues."""

from ...backend.backend import Backend
from ...backend.flops import elements, moved
from ...backend.region import Region, Tensor
from .convert import convert
from .locate import available, version
from .patterns import PATTERNS, PRODUCTS

WANTS: dict[str, tuple[str, ...]] = dict.fromkeys(PRODUCTS, ())
#: Multiplications and additions in a microsecond, on one thread of a typical CPU.
RATE = 4e4


def cost(region: Region) -> float:
    """Microseconds: 1 for the call, plus its arithmetic, plus its traffic at 10 GB/s."""
    product = region.find(*PRODUCTS)
    assert product is not None
    axis = -2 if product.attrs.get("transposed", (False,))[0] else -1
    depth = product.operands[0].shape[axis] if isinstance(product.operands[0], Tensor) else 1
    work = 2 * elements((*product.result.shape, depth))
    return 1.0 + moved(region) / 1e4 + work / RATE


BLAS = Backend("blas", PATTERNS, convert, available, WANTS, cost, version, widens=True)
