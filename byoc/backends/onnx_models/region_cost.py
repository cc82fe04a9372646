"""The estimated cost of a region that a runtime takes whole."""

from __future__ import annotations

from ....analysis.composites.products import TRANSPOSED_MATMUL
from ....layout.model.buffer_bytes import size_of
from ...backend.flops import moved, products
from ...backend.region import Call, Region

#: Multiplications in a microsecond, and bytes of operands that are read and written in one.
PRODUCTS, BYTES = 3e4, 1e4
#: Microseconds for a call of a region, and for each operator in it.
CALL, OPERATOR = 10.0, 1.0


def cost(region: Region) -> float:
    """Microseconds: for the call, for each operator, its products, and its traffic.

    A result that one operator reads next costs no traffic: runtimes fuse elementwise operators.
    """
    products_ = sum(products(c) for c in region.calls if _multiplies(c))
    traffic = moved(region) + sum(size_of(c.result.shape, c.result.dtype) for c in region.calls)
    return CALL + OPERATOR * len(region.calls) + products_ / PRODUCTS + traffic / BYTES


def _multiplies(call: Call) -> bool:
    """Whether a call is a convolution or a product of two tensors."""
    is_product = call.op in ("relax.matmul", TRANSPOSED_MATMUL)
    return (".conv" in call.op or is_product) and len(call.operands) == 2
