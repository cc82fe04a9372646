"""Outputs of a torch module, and how far they move with its weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .differences import difference
from .reference_error import ROUNDINGS, SEEDS

Arrays = Mapping[str, Any]


def outputs(module: Any, inputs: Arrays) -> list[Any]:
    """Return the arrays that a torch module computes, in order."""
    import torch

    with torch.no_grad():
        return flat(module(**{key: torch.from_numpy(value) for key, value in inputs.items()}))


def spread(module: Any, sets: Sequence[Arrays]) -> float:
    """Return how far a module's outputs move if its weights are moved by a few roundings.

    The difference is the largest over all sets of inputs and `SEEDS`.
    """
    expected = [outputs(module, inputs) for inputs in sets]
    largest = 0.0
    for seed in SEEDS:
        other = moved(module, seed)
        got = [outputs(other, inputs) for inputs in sets]
        largest = max([largest, *map(difference, expected, got)])
    return largest


def moved(module: Any, seed: int) -> Any:
    """Return a copy of a torch module whose parameters are moved by a few roundings."""
    import torch

    other, random = copy.deepcopy(module), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in other.parameters():
            if tensor.is_floating_point():
                factor = ROUNDINGS * torch.finfo(tensor.dtype).eps
                noise = torch.randn(tensor.shape, generator=random, dtype=torch.float64)
                tensor.copy_(tensor.double() * (1 + factor * noise))
    return other


def flat(result: Any) -> list[Any]:
    """Return all arrays of a result, in order; ``None`` is left out."""
    if result is None:
        return []
    if isinstance(result, dict):
        return [array for value in result.values() for array in flat(value)]
    if isinstance(result, Sequence):
        return [array for value in result for array in flat(value)]
    return [result.numpy() if hasattr(result, "numpy") else np.asarray(result)]
