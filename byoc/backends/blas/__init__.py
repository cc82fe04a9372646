"""OpenBLAS on CPUs, from PyPI: products of matrices of any extents, and what follows them."""

from math import prod

from ...backend.backend import Backend
from ...backend.region import Region, Tensor
from .convert import convert
from .locate import available, version
from .patterns import PATTERNS

WANTS: dict[str, tuple[str, ...]] = {"relax.matmul": ()}
#: Multiplications and additions in a microsecond, on one thread of a usual CPU.
RATE = 4e4


def cost(region: Region) -> float:
    """Microseconds for a call, its arithmetic, and what it reads and writes at 10 GB/s."""
    product = region.find("relax.matmul")
    assert product is not None
    depth = product.operands[0].shape[-1] if isinstance(product.operands[0], Tensor) else 1
    work = 2 * _count(product.result.shape) * _count((depth,))
    moved = sum(_bytes(t) for t in (*region.inputs, *region.results))
    return 1.0 + moved / 1e4 + work / RATE


def _bytes(t: Tensor) -> int:
    return _count(t.shape) * (8 if t.dtype == "float64" else 4)


def _count(shape: tuple[object, ...]) -> int:
    return prod(e if isinstance(e, int) else 64 for e in shape)


BLAS = Backend("blas", PATTERNS, convert, available, WANTS, cost, version)
