"""Inputs of edge cases: random, special and signed numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

INF = float("inf")
#: Functions by name, with what makes their inputs.
Edges = Mapping[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]]


def real(*shape: int) -> torch.Tensor:
    """Return normal numbers."""
    return torch.randn(*shape)


def whole(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Return integers."""
    return torch.randint(low, high, shape, dtype=dtype)


def mask(*shape: int) -> torch.Tensor:
    """Return truth values."""
    return torch.rand(*shape) > 0.5


def special() -> torch.Tensor:
    """Return infinities, zeros, halves, and numbers near the limits."""
    return torch.tensor([INF, -INF, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1e30, -1e-30])


def halves(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return numbers that rounding decides."""
    return torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 3.7, -3.2], dtype=dtype)


def signed(dtype: torch.dtype = torch.int64) -> tuple[torch.Tensor, torch.Tensor]:
    """Return dividends and divisors of all signs."""
    pairs = [(7, 3), (-7, 3), (7, -3), (-7, -3), (6, 3), (-6, 3), (0, -3), (1, 2), (-1, 2)]
    return (torch.tensor([a for a, _ in pairs], dtype=dtype),
            torch.tensor([b for _, b in pairs], dtype=dtype))  # fmt: skip
