"""Constants of regions that are only matched have their type, and no memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opinfo.byoc.backend.region import _zeros
from opinfo.layout.graph.relax_graph import Value


@pytest.mark.parametrize(("dtype", "expected"), [
    ("float32", np.float32), ("bool", np.bool_), ("uint8", np.uint8),
    ("bfloat16", ml_dtypes.bfloat16), ("float8_e4m3fn", ml_dtypes.float8_e4m3fn),
])  # fmt: skip
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (1 << 20, 1 << 20)])
def test_zeros_of_any_size_take_one_element(
    dtype: str, expected: Any, shape: tuple[int, ...]
) -> None:
    zeros = _zeros(Value("w", shape, dtype, None, constant=True))
    assert (zeros.shape, zeros.dtype) == (shape, np.dtype(expected))
    assert zeros.strides == (0,) * len(shape)
    assert zeros.size == 0 or zeros[(-1,) * len(shape)] == 0
