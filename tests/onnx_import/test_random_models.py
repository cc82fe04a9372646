"""Nodes that `benchmarks.onnx_fuzz` found to be imported wrongly, or to raise."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION

from .against_runtime import compare, floats, model

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int8"])
def test_the_sign_of_integers(dtype: str) -> None:
    x = np.array([0, 1, 2, 127, 255], "uint8").astype(dtype)
    compare(model([helper.make_node("Sign", ["x"], ["y"])], {"x": ((5,), dtype)}), {"x": x})


@pytest.mark.parametrize("mode", ["VALID", "SAME_UPPER", "SAME_LOWER", "NOTSET"])
def test_a_transposed_convolution_of_a_requested_size(mode: str) -> None:
    """By ONNX, `output_shape` decides whatever `auto_pad` is."""
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], auto_pad=mode,
                            output_shape=[8], strides=[3])  # fmt: skip
    proto = model([node], {"x": ((1, 2, 4), "float32")}, weights={"w": floats(2, 1, 3)})
    compare(proto, {"x": floats(1, 2, 4)})
