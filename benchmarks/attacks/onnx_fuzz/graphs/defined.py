"""Nodes whose results ONNX leaves open for their operands, which no two runtimes share.

Conversions of floats outside of the range of integers, quotients by 0, overflows in powers, shifts
by the width, and the order or the places of NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .runtime import Array

#: Operators that compare floats, or select them by comparisons: NaN is in no order.
ORDERS = {"ArgMax", "ArgMin", "TopK", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Max",
          "Min", "Clip", "Hardmax", "Sign", "Relu", "QuantizeLinear", "DynamicQuantizeLinear",
          "Resize", "ThresholdedRelu", "Shrink", "LeakyRelu", "PRelu", "HardSigmoid", "Elu",
          "Selu", "Celu", "HardSwish"}  # fmt: skip
#: Operators with sums, where the order decides between infinity and NaN.
SUMS = {"Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum", "AveragePool", "GlobalAveragePool",
        "LpPool", "GlobalLpPool", "BatchNormalization", "InstanceNormalization", "LRN",
        "LayerNormalization", "GroupNormalization", "LpNormalization", "CumSum", "Softmax",
        "LogSoftmax", "MeanVarianceNormalization", "Hardmax", "Resize", "DynamicQuantizeLinear",
        "Gelu", "Mish", "RMSNormalization"}  # fmt: skip


def undefined(node: Any, feeds: Mapping[str, Array], opset: int) -> bool:
    """Return whether a node's results are open for these operands."""
    op, arrays = node.op_type, [feeds[name] for name in node.input if name in feeds]
    floats = [a for a in arrays if a.dtype.kind == "f"]
    attrs = {a.name: a for a in node.attribute}
    if any(np.isnan(a).any() for a in floats) and op in ORDERS:
        return True
    if op in SUMS or op.startswith("Reduce"):
        if any(_is_extreme(a) for a in floats):
            return True
    if op in ("Cast", "CastLike"):
        return _out_of_range(arrays[0], _target(node, arrays))
    if op in ("QuantizeLinear",) and any(_is_extreme(a) for a in floats):
        return True
    if op in ("Div", "Mod") and arrays[1].dtype.kind in "iu":
        low = (arrays[0] == np.iinfo(arrays[0].dtype).min).any()
        return bool((arrays[1] == 0).any() or (low and (arrays[1] == -1).any()))
    if op == "Mod":
        return bool((arrays[1] == 0).any() or not np.isfinite(arrays[0]).all())
    if op == "Pow" and "f" not in (arrays[0].dtype.kind, arrays[1].dtype.kind):
        return bool((arrays[1] < 0).any() or (arrays[1] > 3).any() or _extreme_integers(arrays[0]))
    if op == "Pow" and arrays[0].dtype.kind in "iu":
        return True
    if op == "BitShift":
        return bool((arrays[1] >= 8 * arrays[0].dtype.itemsize).any())
    if op in ("Abs", "Neg") and arrays[0].dtype.kind == "i":
        return bool((arrays[0] == np.iinfo(arrays[0].dtype).min).any())
    return op == "TopK" and "sorted" in attrs and not attrs["sorted"].i


def _is_extreme(array: Array) -> bool:
    largest = 1e3 if array.dtype == np.float16 else 1e9
    return not bool((np.abs(array) <= largest).all())


def _extreme_integers(array: Array) -> bool:
    return array.dtype.kind in "iu" and bool((np.abs(array.astype("float64")) > 1000).any())


def _target(node: Any, arrays: list[Array]) -> np.dtype[Any]:
    from onnx import helper

    if node.op_type == "CastLike":
        return np.dtype(arrays[1].dtype)
    to: np.dtype[Any] = helper.tensor_dtype_to_np_dtype(node.attribute[0].i)
    return to


def _out_of_range(array: Array, to: np.dtype[Any]) -> bool:
    """Return whether a conversion of floats is open: beyond the integers, or of halves."""
    if array.dtype.kind != "f":
        return False
    if to.kind == "f":
        finite = array[np.isfinite(array)]
        return bool((np.abs(finite.astype("float64")) > float(np.finfo(to).max)).any())
    if to.kind == "b":
        return bool(np.isnan(array).any())
    info = np.iinfo(to)
    wide = array.astype("float64")
    return not bool(((wide > info.min - 1.0) & (wide < info.max)).all())
