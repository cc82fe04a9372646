"""Resizing of images."""

from __future__ import annotations

from typing import Any

from tvm import topi

from .case import Foreign, script, tensors


def _resize(method: str, mode: str, layout: str = "NCHW") -> Foreign:
    def build(x: Any) -> Any:
        return topi.image.resize2d(
            x, (0.0,) * 4, (8, 10), layout=layout, method=method,
            coordinate_transformation_mode=mode, rounding_method="round",
        )  # fmt: skip

    shape = "1,2,4,5" if layout == "NCHW" else "1,4,5,2"
    attrs: dict[str, Any] = {
        "size": [8, 10],
        "method": method,
        "coordinate_transformation_mode": mode,
        "layout": layout,
    }
    if method == "nearest_neighbor":
        attrs["rounding_method"] = "round"
    form = f"resize2d {method}, {mode}, {layout}"
    return Foreign(form, tensors(build, shape), "relax.image.resize2d", attrs)


CASES = [
    _resize("nearest_neighbor", "half_pixel"),
    _resize("linear", "half_pixel"),
    _resize("linear", "align_corners", "NHWC"),
    _resize("cubic", "half_pixel"),
    Foreign(
        "nearest neighbour by integer division",
        script(
            "x 1,2,4,5; out 1,2,8,10",
            "for c, i, j in T.grid(2, 8, 10):\n    out[0, c, i, j] = x[0, c, i // 2, j // 2]",
        ),
        "relax.image.resize2d",
        {
            "size": [8, 10],
            "method": "nearest_neighbor",
            "coordinate_transformation_mode": "asymmetric",
            "rounding_method": "floor",
        },
    ),
    Foreign(
        "upsampling by topi",
        tensors(lambda x: topi.nn.upsampling(x, 2, 2, "NCHW", "bilinear", True), "1,2,4,5"),
        "relax.image.resize2d",
        {
            "size": [8, 10],
            "layout": "NCHW",
            "method": "linear",
            "coordinate_transformation_mode": "align_corners",
        },
    ),
]
