"""Images sampled at positions that are data, and padded by sizes, as torch does both."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from .test_torch_edges import agrees
from .test_torch_programs import imported

DYNAMIC = torch.export.Dim.DYNAMIC
_PADDINGS = ("zeros", "border", "reflection")


def _grid(*shape: int) -> torch.Tensor:
    """Positions inside, outside, and at the borders of pixels."""
    torch.manual_seed(0)
    grid = torch.rand(*shape, len(shape) - 1) * 5 - 2.5
    grid.view(-1)[:5] = torch.tensor([-1.0, 1.0, 0.0, -0.5, 1.25])
    return grid


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_images_are_sampled_in_all_modes(mode: str) -> None:
    def sampled(x: Any, grid: Any) -> Any:
        pairs = zip(_PADDINGS, (False, True, True), strict=True)
        return tuple(F.grid_sample(x, grid, mode, *pair) for pair in pairs)

    # A grid of two by two positions has the same extents in torch's and in TVM's order.
    agrees(sampled, (torch.randn(2, 3, 4, 6), _grid(2, 2, 2)))


def test_volumes_are_sampled() -> None:
    def sampled(x: Any, grid: Any) -> Any:
        return (F.grid_sample(x, grid, "bilinear", "zeros", align_corners=False),
                F.grid_sample(x, grid, "nearest", "reflection", align_corners=False))  # fmt: skip

    agrees(sampled, (torch.randn(2, 2, 3, 4, 5), _grid(2, 4, 2, 3)))


def test_sampled_sizes_may_be_symbolic() -> None:
    runs = [(torch.randn(n, 3, h, 6), _grid(n, h + 1, 4)) for n, h in ((2, 5), (3, 9), (1, 2))]
    agrees(lambda x, grid: (F.grid_sample(x, grid, align_corners=False),), *runs,
           shapes=({0: DYNAMIC, 2: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}))  # fmt: skip


@pytest.mark.parametrize("aligned", [False, True])
def test_positions_are_reflected_from_afar(aligned: bool) -> None:
    """TVM counted reflections in int32; infinite positions are the first element in torch."""
    far = torch.tensor([torch.inf, -torch.inf, torch.nan, 1e6, -1e6, 3e38, 1e5, -7.7, 100.25, 3])
    row = torch.stack([far, torch.full_like(far, 0.3)], -1)
    grid = torch.stack([row, row.flip(-1)])[None]

    def sampled(x: Any, grid: Any) -> Any:
        return tuple(F.grid_sample(x, grid, mode, "reflection", aligned)
                     for mode in ("bilinear", "nearest"))  # fmt: skip

    agrees(sampled, (torch.randn(1, 2, 4, 5), grid))
    runs = [(torch.randn(1, 2, h, 6), grid) for h in (4, 7)]
    if not aligned:
        agrees(sampled, *runs, shapes=({2: DYNAMIC}, None))


def test_a_reflection_of_one_element_is_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"reflects.*'1'.*border"):
        imported(lambda x, g: F.grid_sample(x, g, "bicubic", "reflection", align_corners=True),
                 (torch.randn(1, 1, 1, 3), _grid(1, 2, 2)))  # fmt: skip


def test_padding_by_symbolic_numbers_of_any_sign() -> None:
    def padded(x: torch.Tensor) -> Any:
        n = x.shape[1]
        return (F.pad(x, (0, -n % 4)), F.pad(x, (n, 1, 2, 0), value=2.5), F.pad(x, (2, 1 - n)),
                F.pad(x[:, :, None] > 0, (0, 0, 1, n % 3), value=True))  # fmt: skip

    agrees(padded, *((torch.randn(2, n),) for n in (5, 8, 3)), shapes=({1: DYNAMIC},))


def test_the_size_of_a_padded_tensor_may_be_static() -> None:
    """Then the symbols of the widths are in the PrimFunc only if they are passed to it."""

    def padded(x: torch.Tensor, y: torch.Tensor) -> Any:
        n = y.shape[0]
        return F.pad(x, (n, 5 - n)), F.pad(x, (0, 0, n - 2, 2 - n), value=2.5)

    runs = [(torch.randn(3, 5), torch.randn(n, 2)) for n in (3, 2, 5)]
    agrees(padded, *runs, shapes=(None, {0: DYNAMIC}))


def test_windows_of_symbolic_images_have_static_numbers() -> None:
    def pools(x: torch.Tensor) -> Any:
        return (F.adaptive_max_pool2d(x, (3, 2)),
                *F.adaptive_max_pool2d(x, (1, 5), return_indices=True))  # fmt: skip

    runs = [(torch.randn(2, 2, h, w),) for h, w in ((9, 8), (4, 5), (3, 7), (12, 3))]
    agrees(pools, *runs, shapes=({2: DYNAMIC, 3: DYNAMIC},))


def test_a_reflection_by_symbolic_numbers_is_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"pads by \[0, .*make the sizes static"):
        imported(lambda x: F.pad(x, (0, x.shape[2] - 1), mode="reflect"),
                 (torch.randn(1, 2, 5),), ({2: DYNAMIC},))  # fmt: skip


def test_numbers_of_padding_have_the_dtype_of_the_tensor() -> None:
    """Any number but 0 is true."""
    agrees(lambda x, n: (F.pad(x, (1, 2), value=2), F.pad(x, (1, 0)), F.pad(n, (0, 1), value=-3)),
           (torch.tensor([[True, False]]), torch.arange(4).reshape(2, 2)))  # fmt: skip
