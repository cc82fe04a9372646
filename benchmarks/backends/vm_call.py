"""A compiled module as a call of its `main`, and the first output of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.common.resources import Call


def call(machine: Any, arguments: Sequence[Any]) -> Call:
    main = machine["main"]
    return lambda: main(*arguments)


def first(result: Any) -> Any:
    """Return the first output as an array."""
    if isinstance(result, np.ndarray):
        return result
    return result.numpy() if hasattr(result, "numpy") else first(result[0])
