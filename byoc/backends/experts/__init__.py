"""Products of rows with matrices of their experts on CPUs: each matrix multiplies all its rows."""

from ....layout.model.buffer_bytes import size_of
from ...backend.backend import Backend
from ...backend.flops import elements
from ...backend.region import Region, Tensor
from ..common.installed import no_compiler
from .convert import convert, gathered
from .patterns import PATTERNS

#: Multiplications and additions in a microsecond, and bytes, on one thread of a typical CPU.
RATE, BANDWIDTH = 6e4, 1e4


def cost(region: Region) -> float:
    """Microseconds: 1 for the call, plus its arithmetic or its traffic, whichever takes longer.

    As many matrices are read as there are rows, or all of them.
    """
    of = gathered(region)
    work = 2 * elements((*of.result.shape, of.depth))
    part = min(1.0, elements(of.ids.shape) / of.experts)
    matrices = part * sum(size_of(t.shape, t.dtype) for t in of.matrices)
    read = (t for t in region.inputs if isinstance(t, Tensor))
    traffic = matrices + sum(size_of(t.shape, t.dtype) for t in (*read, *region.results))
    return 1.0 + max(traffic / BANDWIDTH, work / RATE)


def version() -> str:
    """The version of the kernels."""
    return "3"


EXPERTS = Backend("experts", PATTERNS, convert, no_compiler, {"relax.matmul": ()}, cost, version,
                  groups=True, widens=True)  # fmt: skip
