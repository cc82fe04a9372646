"""Matrices of experts in panels, one expert after another.

float matrices      data[expert, column // 32, k, column % 32], zeros fill the last panel
few bits            those of one matrix of all columns (`weight_only.weight_panels`)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...backend.region import Array
from ..weight_only.weight_panels import Panels, packed
from .gathered_product import GatheredProduct, of_one_matrix

#: Columns of a panel.
WIDE = 32


def dense_panels(matrices: Array, axis: int, dtypes: Sequence[str]) -> Array:
    """The panels of float matrices that are summed over ``axis``, and cast to some dtypes first."""
    exact = matrices
    for dtype in dtypes:
        exact = exact.astype(dtype)
    small = "float16" in (str(matrices.dtype), *dtypes)  # which loses nothing then
    values = exact.astype("float16" if small else "float32", copy=False)
    values = values if axis == 1 else values.transpose(0, 2, 1)
    experts, depth, columns = values.shape
    count = -(-columns // WIDE)
    out = np.zeros((experts, count, depth, WIDE), values.dtype)
    for panel in range(count):
        part = values[:, :, panel * WIDE : (panel + 1) * WIDE]
        out[:, panel, :, : part.shape[2]] = part
    return out


def grouped_panels(operands: Sequence[Array], of: GatheredProduct) -> Panels:
    """The panels of matrices of few bits, whose columns fill panels."""
    assert of.group is not None
    return packed([_side_by_side(a, of.axis) for a in operands], of_one_matrix(of.group),
                  of.axis - 1)  # fmt: skip


def _side_by_side(matrices: Array, axis: int) -> Array:
    """The columns of all matrices as those of one matrix, whose axis ``axis - 1`` is the depth."""
    if axis == 2:
        return matrices.reshape(-1, matrices.shape[2])
    return np.moveaxis(matrices, 0, 1).reshape(matrices.shape[1], -1)
