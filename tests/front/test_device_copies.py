"""Copies of arguments to the device of a model."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from opinfo.front.compiled_model import _on


@pytest.mark.parametrize("array", [
    np.array(2.5, "float32"), np.arange(6, dtype="int64").reshape(2, 3).T, np.zeros((0, 3), "int8"),
], ids=["rank 0", "strided", "empty"])  # fmt: skip
def test_a_copy_has_the_shape_of_the_array(array: np.ndarray) -> None:
    copy = _on(tvm.cpu(), array).numpy()
    assert copy.shape == array.shape
    np.testing.assert_array_equal(copy, array)
