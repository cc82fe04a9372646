"""Interpolation of torch programs along symbolic sizes, by every way in which sizes are given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from .test_torch_programs import check, imported

Dim = torch.export.Dim
SHAPES = {1: (2, 3, 7), 2: (1, 2, 5, 6), 3: (1, 2, 3, 4, 5)}
OTHER = {1: (2, 3, 12), 2: (1, 2, 9, 4), 3: (1, 2, 5, 3, 4)}


def _compared(function: Any, rank: int, dtype: torch.dtype = torch.float32) -> None:
    torch.manual_seed(0)
    dims = {k + 2: Dim(f"n{k}", min=3, max=64) for k in range(rank)}
    runs = [(torch.randn(shape).to(dtype),) for shape in (SHAPES[rank], OTHER[rank])]
    check(function, *runs, shapes=(dims,))


@pytest.mark.parametrize(
    ("rank", "modes"),
    [(1, ["nearest", "linear"]), (2, ["nearest-exact", "bilinear", "bicubic"]), (3, ["trilinear"])],
)
def test_a_fraction_as_factor(rank: int, modes: list[str]) -> None:
    _compared(lambda x: [F.interpolate(x, scale_factor=1.5, mode=mode) for mode in modes], rank)


def test_every_way_to_give_sizes() -> None:
    """A whole factor, a smaller one, and sizes; nearest elements and between elements."""
    resize = F.interpolate

    def net(x: torch.Tensor) -> Any:
        small = [resize(x, scale_factor=0.75, mode=mode) for mode in ("nearest", "linear")]
        return (*small, resize(x, scale_factor=2), resize(x, size=x.shape[2] + 3),
                resize(x, size=x.shape[2] + 3, mode="linear"))  # fmt: skip

    _compared(net, 1)


def test_aligned_corners() -> None:
    """The one element of a result is the first."""
    resize = F.interpolate

    def net(x: torch.Tensor) -> Any:
        aligned: dict[str, Any] = {"mode": "bilinear", "align_corners": True}
        return resize(x, scale_factor=1.5, **aligned), resize(x, size=[1, x.shape[3]], **aligned)

    _compared(net, 2)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_aligned_corners_of_sizes_that_grow_with_the_data(mode: str) -> None:
    """TVM cannot bound places whose scale is a quotient of symbolic sizes."""
    aligned: dict[str, Any] = {"mode": mode, "align_corners": True}
    _compared(lambda x: (F.interpolate(x, scale_factor=2, **aligned),
                         F.interpolate(x, size=[x.shape[2] * 3, 9], **aligned)), 2)  # fmt: skip


def test_sizes_that_are_computed_as_real_numbers() -> None:
    def net(x: torch.Tensor) -> Any:
        large = F.interpolate(x, scale_factor=1.5, recompute_scale_factor=True)
        ratio = x.shape[2] / 4
        return large, torch.arange(torch.sym_int(x.shape[2] * 2.5)), x * ratio, x + x.shape[2] / 8

    _compared(net, 1)


def test_other_dtypes_have_positions_of_their_own() -> None:
    _compared(lambda x: F.interpolate(x, scale_factor=1.25, mode="linear"), 1, torch.float64)
    _compared(lambda x: F.interpolate(x, scale_factor=1.25), 1, torch.float16)


def test_what_cannot_be_read_is_refused_with_the_mend() -> None:
    n = Dim("n", min=4, max=64)
    for smooth in ({}, {"antialias": True}):
        with pytest.raises(NotImplementedError, match="convert the tensor to float32"):
            imported(lambda x, s=smooth: F.interpolate(x, size=(9, 9), mode="bilinear", **s),
                     (torch.ones(1, 2, 8, 8, dtype=torch.uint8),))  # fmt: skip
    for function, mend in (
        (lambda x: F.interpolate(x, scale_factor=1.7), "a fraction with a small denominator"),
        (lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True),
         "give antialias=False"),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match=mend):
            imported(function, (torch.randn(1, 2, 8, 8),), ({2: n},))
