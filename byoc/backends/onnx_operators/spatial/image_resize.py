"""Resizing of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .....analysis.support.tvm_compat import sym
from ....backend.region import Call
from ....patterns.pattern import Node
from ....patterns.suggest import Unmet
from ..graph.element_types import FLOAT
from ..graph.graph_writer import GraphWriter
from ..graph.onnx_conditions import OnnxOperator, expressible, first_tensor, is_, plain, typed
from .convolutions import data_layout, in_onnx, order, out_of_onnx, spatial_extents

METHODS = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
#: ONNX's mode for each of TVM's; both round halves of coordinates of at least 0 up.
ROUNDINGS = {"round": "round_prefer_ceil", "floor": "floor", "ceil": "ceil",
             "round_prefer_floor": "round_prefer_floor",
             "round_prefer_ceil": "round_prefer_ceil"}  # fmt: skip
#: Factors that are looked for where extents are symbolic.
_FACTORS = (2, 3, 4, 8)


def resize(writer: GraphWriter, call: Call, xs: list[str]) -> str:
    attrs, layout = call.attrs, str(call.attrs["layout"])
    data = first_tensor(call)
    before, after = (spatial_extents(t.shape, layout) for t in (data, call.result))
    method, mode = str(attrs["method"]), str(attrs["coordinate_transformation_mode"])
    more: dict[str, Any] = {"coordinate_transformation_mode": mode, "mode": METHODS[method]}
    if method == "nearest_neighbor":
        more["nearest_mode"] = ROUNDINGS[rounding(attrs)]
    if method == "cubic":
        more["cubic_coeff_a"] = float(attrs["cubic_alpha"])
        more["exclude_outside"] = int(attrs["cubic_exclude"])
    image = in_onnx(writer, xs[0], layout)
    factors = [factor(b, a) for b, a in zip(before, after, strict=True)]
    if all(f is not None for f in factors):
        scales = writer.constant(np.asarray([1, 1, *factors], "float32"))
        resized = writer.node("Resize", [image, "", scales], **more)
    else:
        whole = [*_outer(data.shape, layout), *after]
        resized = writer.node("Resize", [image, "", "", writer.vector(whole)], **more)
    return out_of_onnx(writer, resized, layout)


def _outer(shape: Any, layout: str) -> list[Any]:
    return [shape[k] for k in order(layout, data_layout(len(layout)))[:2]]


def rounding(attrs: Any) -> str:
    """The rounding method, which depends on the coordinates by default."""
    method = str(attrs["rounding_method"] or "")
    by_default = "round" if attrs["coordinate_transformation_mode"] == "align_corners" else "floor"
    return method or by_default


def factor(before: Any, after: Any) -> int | None:
    """The whole number that an extent grows by."""
    if isinstance(before, int) and isinstance(after, int):
        return after // before if after % before == 0 else None
    if isinstance(before, int) or isinstance(after, int):
        return None
    prove = sym.Analyzer().can_prove_equal
    return next((f for f in (1, *_FACTORS) if prove(before * f, after)), None)


def same_pixels(node: Node) -> str | Unmet | None:
    """Both round each coordinate to the same pixel, and the extents can be computed."""
    data, attrs, layout = node.operand(0), node.info.attrs, str(plain(node, "layout"))
    if data is None:
        return "the data is a literal"
    before, after = (spatial_extents(v.shape, layout) for v in (data, node.result))
    factors = [factor(b, a) for b, a in zip(before, after, strict=True)]
    static = all(isinstance(e, int) for e in (*before, *after))
    if str(attrs["method"]) == "nearest_neighbor":
        if not static and None in factors:
            return "the shape is symbolic, expected a whole factor for the nearest neighbour"
        mode, method = str(attrs["coordinate_transformation_mode"]), rounding(attrs)
        pairs = zip(before, after, strict=True) if static else [(61, 61 * f) for f in factors if f]
        if not all(_agree(b, a, mode, method) for b, a in pairs):
            return f"{mode} with {method} has coordinates that ONNX rounds to another pixel"
    return None if static or None not in factors else expressible(node)


def _agree(before: int, after: int, mode: str, method: str) -> bool:
    """Whether TVM and ONNX select the same pixels of an axis, with errors of float32."""
    y = np.arange(after, dtype="float64")
    if mode == "align_corners":
        c = y * ((before - 1) / (after - 1) if after > 1 else 0.0)
    elif mode == "asymmetric":
        c = y * (before / after)
    elif mode == "half_pixel" or after > 1:
        c = (y + 0.5) * (before / after) - 0.5
    else:
        c = np.zeros(1)
    limit = before - 1
    theirs = np.clip(_ROUND_TVM[method](c), 0, limit)
    exact = mode == "asymmetric" and after % before == 0  # whole numbers divided by the factor
    errors = (0.0,) if exact else (0.0, 2e-6 * before, -2e-6 * before)
    return all(bool((theirs == np.clip(_ROUND_ONNX[method](c + e), 0, limit)).all())
               for e in errors)  # fmt: skip


def _away(c: npt.NDArray[np.float64]) -> Any:
    return np.sign(c) * np.floor(abs(c) + 0.5)


Round = Callable[[npt.NDArray[np.float64]], Any]
_ROUND_ONNX: dict[str, Round] = {
    "round": lambda c: np.floor(c + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda c: np.ceil(c - 0.5),
    "round_prefer_ceil": lambda c: np.floor(c + 0.5),
}
_ROUND_TVM: dict[str, Round] = {
    **_ROUND_ONNX,
    "round": _away,
    "floor": lambda c: np.floor(c + 1e-5),
    "ceil": lambda c: np.ceil(c - 1e-5),
}

RESIZE: dict[str, OnnxOperator] = {
    "relax.image.resize2d": OnnxOperator(resize, (
        typed(FLOAT), is_("method", *METHODS), is_("coordinate_transformation_mode", *MODES),
        same_pixels)),
}  # fmt: skip
