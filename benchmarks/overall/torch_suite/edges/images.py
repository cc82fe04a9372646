"""Windows: interpolation, pooling, convolution."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from .inputs import Edges, real


def _resized(x: Any) -> Any:
    out = []
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
        for size in (dict(size=(7, 3)), dict(scale_factor=2.0), dict(scale_factor=(0.6, 1.7)),
                     dict(scale_factor=1.7, recompute_scale_factor=True)):  # fmt: skip
            for corners in (False, True) if mode.startswith("bi") else (None,):
                out.append(F.interpolate(x, mode=mode, align_corners=corners, **size))
    return out


EDGES: Edges = {
    "interpolations": (_resized, lambda: (real(1, 2, 5, 6),)),
    "interpolations 1d 3d": (
        lambda x, y: (
            F.interpolate(x, 9),
            F.interpolate(x, scale_factor=1.5, mode="linear"),
            F.interpolate(x, 4, mode="linear", align_corners=True),
            F.interpolate(y, (3, 5, 4)),
            F.interpolate(y, scale_factor=2, mode="trilinear"),
            F.interpolate(y, (2, 7, 3), mode="trilinear", align_corners=True),
            F.interpolate(x, 9, mode="nearest-exact"),
        ),
        lambda: (real(1, 2, 7), real(1, 2, 4, 3, 5)),
    ),
    "pools": (
        lambda x: (
            F.avg_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            F.avg_pool2d(x, (2, 3), divisor_override=5),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            F.max_pool2d(x, 3, 2, 1),
            F.max_pool2d(x, 2, ceil_mode=True),
            F.max_pool2d(x, 2, dilation=2),
            F.lp_pool2d(x, 2, 2),
        ),
        lambda: (real(1, 2, 7, 9),),
    ),
    "pools with indices": (
        lambda x: (
            *F.max_pool2d(x, 2, return_indices=True),
            *F.max_pool2d(x, 3, 2, 1, return_indices=True),
            *F.adaptive_max_pool2d(x, (2, 3), return_indices=True),
        ),
        lambda: (real(1, 2, 7, 9),),
    ),
    "unpools": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        lambda: (real(1, 2, 6, 8),),
    ),
    "pools 1d 3d": (
        lambda x, y: (
            F.avg_pool1d(x, 3, 2, 1),
            F.max_pool1d(x, 3, 2, 1),
            F.avg_pool3d(y, 2, 1, divisor_override=3),
            F.max_pool3d(y, 2, 1, ceil_mode=True),
            F.avg_pool3d(y, 2, 2, 1, count_include_pad=False),
            F.adaptive_max_pool1d(x, 4),
            F.adaptive_avg_pool1d(x, 4),
            F.adaptive_avg_pool3d(y, (2, 3, 2)),
            F.adaptive_max_pool3d(y, 2),
        ),
        lambda: (real(1, 2, 9), real(1, 2, 4, 5, 6)),
    ),
    "adaptive pools": (
        lambda x: (
            F.adaptive_avg_pool2d(x, (3, 5)),
            F.adaptive_max_pool2d(x, (3, 5)),
            F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, (None, 2)),
            F.adaptive_max_pool2d(x, (1, 4)),
            F.adaptive_avg_pool2d(x, (9, 14)),
        ),
        lambda: (real(1, 2, 7, 11),),
    ),
    "convolutions": (
        lambda x, w: (
            F.conv2d(x, w, padding="same"),
            F.conv2d(x, w, padding="valid", stride=2),
            F.conv2d(x, w, dilation=2, padding=(1, 3)),
            F.conv2d(x, w[:, :1], groups=4),
            F.conv2d(x, w[:2, :2], torch.ones(2), groups=2),
            F.conv2d(x[0], w),
        ),
        lambda: (real(1, 4, 9, 8), real(4, 4, 3, 3)),
    ),
    "even convolutions": (
        lambda x, y, w: (
            F.conv2d(x, w, padding="same"),
            F.conv1d(y, w[0], padding="same", dilation=3),
        ),
        lambda: (real(1, 4, 9, 8), real(1, 4, 12), real(4, 4, 4, 2)),
    ),
    "transposed convolutions": (
        lambda x, w: (
            F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
            F.conv_transpose2d(x, w[:, :2], groups=2),
            F.conv_transpose2d(x, w, dilation=2),
        ),
        lambda: (real(1, 4, 5, 6), real(4, 3, 3, 3)),
    ),
    "transposed dilated groups": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, dilation=2, groups=2),
        lambda: (real(1, 4, 5, 6), real(4, 3, 3, 3)),
    ),
    "convolutions 1d 3d": (
        lambda x, y: (
            F.conv1d(x, torch.ones(2, 4, 3), stride=2),
            F.conv_transpose1d(x, torch.ones(4, 2, 3), stride=3),
            F.conv3d(y, torch.ones(2, 4, 3, 1, 2)),
            F.conv_transpose3d(y, torch.ones(4, 2, 2, 3, 2), stride=2),
            F.conv_transpose1d(x, torch.ones(4, 2, 3), stride=2, groups=2, output_padding=1),
        ),
        lambda: (real(1, 4, 7), real(1, 4, 3, 4, 5)),
    ),
    "windows": (
        lambda x: (
            F.unfold(x, 3, padding=1, stride=2),
            F.unfold(x, (2, 3), dilation=2),
            x.unfold(2, 3, 2),
            F.pixel_unshuffle(x, 2),
            F.channel_shuffle(x, 2),
            x.unfold(-1, 4, 1).mean(-1),
        ),
        lambda: (real(1, 4, 8, 6),),
    ),
    "folds": (
        lambda x, y: (
            F.fold(x, (5, 6), (2, 3)),
            F.fold(x[:, :, :6], (6, 7), (2, 3), stride=2, padding=0),
            F.pixel_shuffle(y, 2),
            F.fold(x[..., :9], (4, 7), (2, 3), padding=1, stride=2)[:, :, :1],
        ),
        lambda: (real(1, 12, 16), real(1, 8, 3, 4)),
    ),
    "grid samples": (
        lambda x, g: [
            F.grid_sample(x, g, mode=m, padding_mode=p, align_corners=a)
            for m in ("bilinear", "nearest", "bicubic")
            for p in ("zeros", "border", "reflection")
            for a in (False, True)
        ],
        lambda: (real(1, 2, 5, 6), torch.rand(1, 4, 3, 2) * 3 - 1.5),
    ),
    "affine grids": (
        lambda t: (
            F.affine_grid(t, [1, 2, 4, 5], align_corners=False),
            F.affine_grid(t, [1, 2, 4, 5], align_corners=True),
        ),
        lambda: (real(1, 2, 3),),
    ),
}
