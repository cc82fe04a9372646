"""Fold nodes whose inputs are constants, with the reference implementation of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

#: Limit on the bytes that a node may read or write to be folded, except for nodes that only move.
SMALL = 1 << 22
LARGE = 1 << 30
#: Nodes that move or convert elements; on weights, they are folded at any size.
MOVES = {"Cast", "Concat", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Split",
         "Transpose", "Unsqueeze", "Flatten"}  # fmt: skip
#: Layers, of which the reference implementation ignores attributes, or has other formulas.
LAYERS = {"AveragePool", "BatchNormalization", "Conv", "ConvInteger", "ConvTranspose", "DeformConv",
          "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "GroupNormalization", "GRU",
          "InstanceNormalization", "LayerNormalization", "LpNormalization", "LpPool", "LRN",
          "LSTM", "MaxPool", "MeanVarianceNormalization", "QLinearConv", "QLinearMatMul",
          "RNN"}  # fmt: skip
#: Nodes that are never folded: layers, random nodes, and quantisation, which backends match.
KEEP = LAYERS | {"DequantizeLinear", "QuantizeLinear", "DynamicQuantizeLinear", "RandomNormal",
        "Multinomial", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli",
        "Dropout", "If", "Loop", "Scan"}  # fmt: skip
#: Nodes that flatten all axes from one on before operator set 13; the reference does so for none.
FLATTENING = {"Softmax", "LogSoftmax", "Hardmax"}


def folded(
    proto: Any, inputs: Sequence[np.ndarray[Any, Any] | None], opset: int
) -> list[np.ndarray[Any, Any]] | None:
    """Return the results of a node of the default domain, or None if it should not be folded.

    Args:
        proto: The `onnx.NodeProto`.
        inputs: The array of each input, None if it is absent.
        opset: The version of the operator set.
    """
    if proto.op_type in KEEP or not inputs or (opset < 13 and proto.op_type in FLATTENING):
        return None
    limit = LARGE if proto.op_type in MOVES else SMALL
    present = [x for x in inputs if x is not None]
    if sum(x.nbytes for x in present) > limit or _grows(proto.op_type, present, limit):
        return None
    if any(x.dtype.kind not in "biuf" for x in present):
        return None
    if proto.op_type == "Clip" and (len(present) < 3 and not np.isfinite(present[0]).all()):
        return None  # by the text, infinities have finite bounds; not so in the reference
    if proto.op_type == "Pow" and _takes_roots(*present):
        return None
    results = _evaluated(proto, inputs, opset)
    if results is None or any(not isinstance(x, (np.ndarray, np.generic)) for x in results):
        return None
    arrays = [np.asarray(x) for x in results]
    if sum(x.nbytes for x in arrays) > limit:
        return None
    return None if any(x.dtype.kind not in "biuf" for x in arrays) else arrays


def _takes_roots(base: np.ndarray[Any, Any], exponent: np.ndarray[Any, Any]) -> bool:
    """Return whether numpy's powers are roots where they differ: of -0 and -inf, by 0.5."""
    return base.dtype.kind == "f" and bool(np.signbit(base).any() and (exponent == 0.5).any())


def _grows(op: str, inputs: Sequence[np.ndarray[Any, Any]], limit: int) -> bool:
    """Return whether the result may exceed the limit, for operators with any size of result."""
    if op in ("ConstantOfShape", "Expand", "Tile"):
        factor = inputs[-1].astype(object).prod() if inputs[-1].size else 1
        return bool(abs(factor) * max(x.nbytes for x in inputs) > limit)
    if op == "Range":
        start, stop, step = (float(x.reshape(-1)[0]) for x in inputs)
        return step == 0 or abs((stop - start) / step) * 8 > limit
    if op in ("Pad", "OneHot", "Resize", "Upsample", "EyeLike", "Col2Im", "CenterCropPad"):
        return True
    return False


def _evaluated(
    proto: Any, inputs: Sequence[np.ndarray[Any, Any] | None], opset: int
) -> list[Any] | None:
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    names = [f"x{k}" if x is not None else "" for k, x in enumerate(inputs)]
    node = helper.make_node(
        proto.op_type, names, [f"y{k}" if y else "" for k, y in enumerate(proto.output)]
    )
    node.attribute.extend(proto.attribute)
    feeds = {f"x{k}": x for k, x in enumerate(inputs) if x is not None}
    values = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for name, x in feeds.items()]  # fmt: skip
    outputs = [helper.make_empty_tensor_value_info(y) for y in node.output if y]
    graph = helper.make_graph([node], "node", values, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    try:
        with np.errstate(all="ignore"):
            results = iter(ReferenceEvaluator(model).run(None, feeds))
    except Exception:  # not implemented there, or wrong arguments, which a converter reports
        return None
    return [next(results) if y else np.zeros(0) for y in node.output]
