"""How far rounding may move the outputs of a model: runs with noise after each inexact node.

Where rounding decides, as next to a step of `Floor` or between two nearly equal elements, two right
implementations differ by more than any tolerance. Each node that rounds is followed by a product
with 1 plus a few units in the last place, drawn anew for each element and run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .graphs import runtime
from .graphs.runtime import Array

SAMPLES = 24
#: The standard deviation of the noise by dtype.
NOISE = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-13}
#: Operators that round nothing: they move or select elements, or have an exact result.
EXACT = {"Identity", "Transpose", "Reshape", "Slice", "Gather", "GatherElements", "GatherND",
         "Concat", "Split", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Tile", "Pad", "Where",
         "DepthToSpace", "SpaceToDepth", "Trilu", "Abs", "Neg", "Floor", "Ceil", "Round", "Sign",
         "Relu", "Max", "Min", "Clip", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin",
         "OneHot", "EyeLike", "ConstantOfShape", "Range", "TopK", "Constant", "CastLike",
         "Hardmax"}  # fmt: skip


def samples(model: Any, feeds: Mapping[str, Array]) -> list[dict[str, Array]]:
    """Return the outputs of runs with noise."""
    import onnx
    from onnx import helper

    known = runtime.all_values(model, feeds)
    noisy = onnx.ModelProto()
    noisy.CopyFrom(model)
    del noisy.graph.node[:]
    rounded: dict[str, Array] = {}
    for node in model.graph.node:
        own = onnx.NodeProto()
        own.CopyFrom(node)
        noisy.graph.node.append(own)
        for k, name in enumerate(node.output):
            if name and node.op_type not in EXACT and _rounds(known[name]):
                raw, factor = f"{name} before noise", f"{name} noise"
                noisy.graph.node[-1].output[k] = raw
                rounded[factor] = known[name]
                noisy.graph.input.append(runtime.entry(factor, known[name]))
        for name in node.output:
            if f"{name} noise" in rounded:
                inputs = [f"{name} before noise", f"{name} noise"]
                noisy.graph.node.append(helper.make_node("Mul", inputs, [name]))
    session = runtime.session(noisy)
    names = [output.name for output in session.get_outputs()]
    out = []
    for seed in range(SAMPLES):
        rng = np.random.default_rng(seed)
        factors = {name: np.asarray(1 + NOISE[str(a.dtype)] * rng.normal(size=a.shape), a.dtype)
                   for name, a in rounded.items()}  # fmt: skip
        out.append(dict(zip(names, session.run(names, {**feeds, **factors}), strict=True)))
    return out


def _rounds(array: Array) -> bool:
    """Return whether elements may be rounded: floats that are not all small integers."""
    if array.dtype.kind != "f" or str(array.dtype) not in NOISE:
        return False
    finite = array[np.isfinite(array)].astype("float64")
    return not bool((np.round(finite) == finite).all() and (np.abs(finite) < 1000).all())
