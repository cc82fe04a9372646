"""Constant second operands of products: the matrix, also where a batch has copies of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ....backend.region import Array, Region
from .gemm import Gemm, all_ones, gemm


def product_with_weights(region: Region) -> tuple[Gemm, Array | None]:
    """The product of a region, and its second operand if that is a constant.

    torch repeats weights for each element of a batch: if all copies are equal, one is multiplied by
    the rows of all.
    """
    product = gemm(region)
    b = product.b
    if b.source != "constant":
        return product, None
    weights = region.constants[b.index]
    matrix = _repeated(product, weights)
    if matrix is None:
        return product, weights
    return replace(product, b=replace(b, shape=matrix.shape), merge=True), matrix


def _repeated(product: Gemm, weights: Array) -> Array | None:
    """The matrix that a batch of weights has copies of, each for rows of its own."""
    a, b = product.a, product.b
    if product.turned[0] or all_ones(b.shape[:-2]) or not (a.static and b.static):
        return None
    if math.prod(a.shape[:-2]) != math.prod(b.shape[:-2]):
        return None
    copies = weights.reshape(-1, *b.shape[-2:])
    equal = all(np.array_equal(copies[0], copy, equal_nan=True) for copy in copies[1:])
    return np.ascontiguousarray(copies[0]) if equal else None
