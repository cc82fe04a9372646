"""NVIDIA cuBLASLt: products of matrices with bias, residual and activation in the epilogue.

Products of int8 are sums of int32, and those of float8 are scaled; see `eight_bits`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....backend.backend import Backend, Code
from ....backend.region import Region, Tensor
from ...common.region_source import Constants, number
from ..grouped_weights.unpacked import unpacked
from ..libraries.dtypes import CUDA
from ..libraries.estimated_cost import conversion, cost
from ..libraries.locate import CUBLASLT, CUDART, available, options
from ..libraries.source import GpuFunction, joined_source, library_headers
from .constant_weights import product_with_weights
from .eight_bits import eight_bits, refused
from .gemm import PRODUCTS
from .piece_limits import ROUNDS, most
from .pieces import pieces_kernel
from .product_patterns import as_half, patterns

#: Its GELU is the tanh approximation.
EPILOGUES = {None: "DEFAULT", "relax.nn.relu": "RELU", "relax.nn.gelu_tanh": "GELU"}
LIBRARIES = (CUBLASLT, CUDART)
#: The C++ of this backend, in its order.
HEADERS = ("cublaslt_product.hpp", "pieces/pieces.h", "pieces/pieces.hpp", "cublaslt_weights.hpp",
           "cublaslt_ladder.hpp", "cublaslt_candidates.hpp", "cublaslt_climb.hpp",
           "cublaslt_algorithms.hpp", "cublaslt.hpp")  # fmt: skip


def source(regions: Sequence[Region]) -> tuple[str, Constants]:
    """The C++ of all regions, and its constants."""
    return joined_source(library_headers(__package__, *HEADERS), regions, _body)


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    text, constants = source(regions)
    rounds = tuple((r.symbol, how) for r in regions for how in _rounds(r))
    symbols = tuple(r.symbol for r in regions)
    return Code(text, symbols, constants.named(symbols[0]), options(*LIBRARIES), rounds)


def _rounds(region: Region) -> list[str]:
    product, weights = product_with_weights(region)
    may = most(product, region.result, weights) is not None
    return [*product.rounds, *[ROUNDS] * may]


def _body(frame: GpuFunction) -> list[str]:
    """C++ that fills a ``Gemm``; ``result`` is the dtype of the result and of the residual."""
    product, weights = product_with_weights(frame.region)
    b = frame.view(product.b) if weights is None else frame.constant(weights)
    body = ["Gemm g;", f"g.type = {CUDA[product.a.dtype]};",
            f"g.result = {CUDA[frame.region.result.dtype]};",
            f"g.a = {frame.view(product.a)};", f"g.b = {b};",
            f"g.d = {frame.view(frame.region.result)};"]  # fmt: skip
    body += [f"g.turned_{x} = true;" for x, t in zip("ab", product.turned, strict=True) if t]
    body += ["g.merge = true;"] * product.merge
    if (limit := most(product, frame.region.result, weights)) is not None:
        body += [f"g.pieces = {frame.image(pieces_kernel.image())};", f"g.most = {number(limit)};"]
    if product.alpha != 1.0:
        body.append(f"g.alpha = {number(product.alpha)};")
    body += [f"g.scales[{k}] = {frame.view(s)};" for k, s in enumerate(product.scales)]
    if product.bias is not None:
        body.append(f"g.bias = {_added(frame, product.bias)};")
    if product.residual is not None:
        body.append(f"g.residual = {_added(frame, product.residual)};")
    how = EPILOGUES[product.activation]
    if product.bias is not None:
        how = "BIAS" if how == "DEFAULT" else f"{how}_BIAS"
    return [*body, f"g.epilogue = CUBLASLT_EPILOGUE_{how};", "return matmul(c, g);"]


def _added(frame: GpuFunction, term: Tensor) -> str:
    """The C++ of a bias or a residual, which is of the dtype of the result."""
    dtype = frame.region.result.dtype
    if term.source != "constant" or term.dtype == dtype:
        return frame.view(term)
    array = as_half(frame.region.constants[term.index], dtype)
    assert array is not None
    return frame.constant(array)


ACTIVATIONS = tuple(a for a in EPILOGUES if a)
BACKEND = Backend(
    "cublaslt", (*patterns(ACTIVATIONS, unpacked, casts=True), *eight_bits(ACTIVATIONS)), convert,
    lambda: available(*LIBRARIES), dict.fromkeys(PRODUCTS, ()), cost, CUBLASLT.version,
    conversion=conversion, row_versions=True, eight_bits=refused,
)  # fmt: skip
