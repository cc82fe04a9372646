"""Products with weights of few bits on CPUs, by kernels that read packed weights once."""

from ....analysis.composites.grouped import DEQUANTIZE
from ....layout.model.buffer_bytes import size_of
from ...backend.backend import Backend
from ...backend.flops import elements
from ...backend.region import Region, Tensor
from ..common.installed import no_compiler
from .convert import convert
from .packed_kernels import product_of
from .patterns import PATTERNS

WANTS: dict[str, tuple[str, ...]] = {"relax.matmul": ()}
#: Multiplications and additions in a microsecond, and bytes, on one thread of a typical CPU.
RATE, BANDWIDTH = 6e4, 1e4


def cost(region: Region) -> float:
    """Microseconds: 1 for the call, plus its arithmetic or its traffic, whichever takes longer."""
    product, weights = region.calls[product_of(region)], region.find(DEQUANTIZE)
    assert weights is not None
    left = product.operands[0]
    depth = left.shape[-1] if isinstance(left, Tensor) else 1
    work = 2 * elements((*product.result.shape, depth))
    read = [o for o in (*weights.operands, *region.inputs) if isinstance(o, Tensor)]
    traffic = sum(size_of(t.shape, t.dtype) for t in (*read, *region.results))
    return 1.0 + max(traffic / BANDWIDTH, work / RATE)


def version() -> str:
    """The version of the kernels."""
    return "4"


WEIGHT_ONLY = Backend(
    "weight_only", PATTERNS, convert, no_compiler, WANTS, cost, version, widens=True
)
