"""Which products of float32 may be products of bfloat16 pieces."""

from __future__ import annotations

import math
import os

import numpy as np

from ....backend.region import Array, Tensor
from ..nvrtc.kernel_compiler import no_kernel_compiler
from .gemm import Gemm, all_ones

#: The fewest multiplications: below, six products and two kernels more do not pay off.
FEWEST = 1 << 26
#: The longest sums. Tensor cores truncate, so the error of positive terms grows with their number.
DEEPEST = 4096
#: Columns of weights, as rows of the other operand, are 0 or have a number of at least this
#: magnitude: what three pieces lose of a number is at most 2^-134.
LEAST = 2.0**-100
#: The largest magnitude of weights, which leaves a wide range to the other operand.
MOST = 2.0**32
#: A variable of the environment: 0 for products of float32 alone. The library reads it, too.
OPTION = "OPINFO_CUBLASLT_PIECES"
ROUNDS = ("products of float32 may be six of bfloat16, of operands in three pieces, which tensor "
          "cores add in float32 and truncate")  # fmt: skip


def most(product: Gemm, result: Tensor, weights: Array | None) -> float | None:
    """The largest magnitude in a row that pieces are multiplied for; None if they never are.

    Below it no sum can overflow, in whatever order its terms are added.
    """
    a, b = product.a, product.b
    if {a.dtype, b.dtype, result.dtype} != {"float32"} or weights is None:
        return None
    if not (a.static and result.static) or product.turned[0] or product.scales:
        return None
    if not (product.merge or (all_ones(a.shape[:-2]) and all_ones(b.shape[:-2]))):
        return None
    depth = a.shape[-1]
    if depth % 4 or depth > DEEPEST or math.prod(result.shape) * depth < FEWEST:
        return None
    if os.environ.get(OPTION, "1") == "0" or no_kernel_compiler() is not None:
        return None
    largest = np.abs(weights.reshape(b.shape[-2:])).max(axis=1 if product.turned[1] else 0)
    if not (largest.max() <= MOST) or largest.max() == 0:  # NaN is not less
        return None
    if ((largest > 0) & (largest < LEAST)).any():
        return None
    return float(min(2.0**126, 2.0**126 / (depth * float(largest.max()))))
