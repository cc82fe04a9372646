"""Attributes and defaults of the operators that ONNX Runtime adds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.frontend.onnx_functions.contributed_functions import BODIES
from opinfo.frontend.onnx_graph.conversion.converter_table import MICROSOFT
from opinfo.frontend.onnx_operators import CONVERTERS
from tests.onnx_import.against_runtime import compare, contributed, floats, model

ALL = sorted({op for domain, op in CONVERTERS if domain == MICROSOFT} | BODIES.keys())


@pytest.mark.parametrize("op", ALL)
def test_unknown_attributes_are_refused(op: str) -> None:
    """A typo, or an attribute of a later version, changes what a node computes."""
    assert len(ALL) > 50
    node = contributed(op, ["x"], ["y"], name="here", colour=1)
    expected = "here.*unknown attribute 'colour'; the attributes are: "
    with pytest.raises(FrontendError, match=expected) as caught:
        from_model(model([node], {"x": (["n", 4, 4], "float32")}), {})
    assert "\n" not in str(caught.value) and not str(caught.value).endswith("are: ")


@pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
@pytest.mark.parametrize("op", ["SkipSimplifiedLayerNormalization", "SkipLayerNormalization"])
def test_norms_of_sums_have_a_small_epsilon(op: str) -> None:
    """By its schema it is 1e-12, which shows where elements are small."""
    node = contributed(op, ["x", "s", "g"], ["y"])
    inputs: dict[str, Any] = {"x": (["b", 3, 8], "float32"), "s": (["b", 3, 8], "float32")}
    weights = {"g": 1 + floats(8)}
    feeds = [{"x": 1e-3 * floats(b, 3, 8), "s": 1e-3 * floats(b, 3, 8, seed=1)} for b in (1, 2)]
    compare(model([node], inputs, weights=weights), *feeds)


@pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
def test_attributes_of_fused_layers() -> None:
    """All of those that ONNX Runtime reads are read."""
    nodes = [
        contributed("FusedGemm", ["a", "a"], ["g"], alpha=0.5, beta=2.0, transA=1, transB=0,
                    activation="LeakyRelu", activation_alpha=0.2),
        contributed("FusedMatMul", ["a", "a"], ["m"], alpha=0.5, transA=0, transB=1, transBatchA=0,
                    transBatchB=0),
        contributed("FusedConv", ["x", "w"], ["c"], auto_pad="NOTSET", dilations=[1, 1], group=1,
                    kernel_shape=[2, 2], pads=[0, 1, 0, 0], strides=[1, 2], activation="Relu"),
        helper.make_node("SimplifiedLayerNormalization", ["a", "v"], ["r"], axis=-1, epsilon=1e-6,
                         stash_type=1),
    ]  # fmt: skip
    inputs: dict[str, Any] = {"a": ([4, 4], "float32"), "x": (["b", 3, 5, 6], "float32")}
    weights = {"w": floats(2, 3, 2, 2, seed=2), "v": np.ones(4, "float32")}
    proto = model(nodes, inputs, ["g", "m", "c", "r"], weights)
    compare(proto, {"a": floats(4, 4), "x": floats(2, 3, 5, 6, seed=1)})
