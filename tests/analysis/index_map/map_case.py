"""Maps whose truth is known by how they were made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .oracle import Fn

Built = tuple[Fn, tuple[Any, ...]]
B, J, N = "bijective", "injective", "not_injective"


@dataclass(frozen=True)
class Case:
    """``build(*sizes)`` gives the function and the shape; ``sizes`` are symbolic extents."""

    name: str
    build: Callable[..., Built]
    truth: str
    sizes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def fixed(name: str, fn: Fn, shape: tuple[int, ...], truth: str) -> Case:
    return Case(name, lambda: (fn, shape), truth)
