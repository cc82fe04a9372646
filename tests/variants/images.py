"""Images: resizing, sampling, regions of interest; gradients of pools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import Variant, family, forms, options, thin

SIZES: dict[str, Any] = {"n": 2, "h": 5, "w": 7}
MODES = (
    "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)  # fmt: skip
ROUNDINGS = ("round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
KEEP = ("", "n", "nhw")
RESIZED = {
    2: ("NCHW", "NHWC", ((10, 14), (9, 4), (5, 7), (1, 3), (3, 7), (1, 1))),
    3: ("NCDHW", "NDHWC", ((4, 10, 14), (3, 4, 3))),
}


@family
def resizes() -> Iterator[Variant]:
    for d, (first, last, sizes) in RESIZED.items():
        every: list[dict[str, Any]] = [
            *options(method=("nearest_neighbor",), rounding_method=ROUNDINGS),
            {"method": "linear"},
            *options(method=("cubic",), cubic_alpha=(-0.75, -0.5), cubic_exclude=(0, 1)),
        ]
        named = options(coordinate_transformation_mode=MODES, size=sizes, layout=(first, last))
        calls = [{**o, **m} for o in named for m in every]
        found: list[Variant] = []
        for o in calls:
            shape = {"NCHW": "n, 3, h, w", "NHWC": "n, h, w, 3", "NCDHW": "n, 2, 3, h, w",
                     "NDHWC": "n, 3, h, w, 2"}[o["layout"]]  # fmt: skip
            found += forms(f"relax.image.resize{d}d", (f"T[{shape}]",), o, keep=KEEP, **SIZES)
        yield from thin(found, 380 if d == 2 else 40)
        few = [v for v in found if not v.symbolic]
        for dtype in ("float16", "uint8"):
            for v in thin(few, 20 if d == 2 else 4):
                texts = tuple(t.replace("float32", dtype) for t in v.operands)
                yield Variant(v.op, texts, v.attrs)


@family
def samples() -> Iterator[Variant]:
    for o in options(
        method=("bilinear", "nearest", "bicubic"), padding_mode=("zeros", "border", "reflection"),
        align_corners=(False, True), layout=("NCHW",),
    ):  # fmt: skip
        yield from forms(
            "relax.image.grid_sample",
            ("T[n, 3, h, w]", "T[n, 2, 4, 6]"),
            o,
            keep=("", "n"),
            **SIZES,
        )
    for corners in (True, False):
        attrs = {"size": (4, 6), "align_corners": corners}
        yield from forms("relax.image.affine_grid", ("T[n, 2, 3]",), attrs, keep=("", "n"), **SIZES)


@family
def regions() -> Iterator[Variant]:
    for o in options(pooled_size=((2, 2), (3, 2)), spatial_scale=(1.0, 0.5), layout=("NCHW",)):
        operands = ("T[n, 3, h, w]", "T[4, 5]")
        yield from forms("relax.vision.roi_pool", operands, o, **SIZES)
        for more in options(sample_ratio=(2, -1), aligned=(False, True), mode=("avg", "max")):
            yield from forms("relax.vision.roi_align", operands, {**o, **more}, **SIZES)


@family
def gradients() -> Iterator[Variant]:
    for o in options(
        pool_size=((2, 2), (3, 3)), strides=((1, 1), (2, 2)), padding=((0,) * 4, (1,) * 4),
        ceil_mode=(False, True), count_include_pad=(False, True),
    ):  # fmt: skip
        ends = [
            (e + 2 * o["padding"][0] - k + (s - 1 if o["ceil_mode"] else 0)) // s + 1
            for e, k, s in zip((6, 7), o["pool_size"], o["strides"], strict=True)
        ]
        operands = (f"T[n, 2, {ends[0]}, {ends[1]}]", "T[n, 2, 6, 7]")
        for kind in ("avg", "max"):
            yield from forms(
                f"relax.grad.{kind}_pool2d_backward", operands, o, keep=("", "n"), **SIZES
            )
    for axis in (0, 1):
        grad = ("T[3, 4]", "T[5, 3]")[axis]
        yield from forms("relax.grad.take_backward", (grad, "T[5, 4]", "int32[3]"), {"axis": axis})
    for o in options(reduction=("none", "sum", "mean"), ignore_index=(-100, 2)):
        grad = "T[n]" if o["reduction"] == "none" else "T[]"
        yield from forms(
            "relax.grad.nll_loss_backward",
            (grad, "T[n, 4]", "int64[n]", "T[4]"),
            o,
            keep=("", "n"),
            **SIZES,
        )
