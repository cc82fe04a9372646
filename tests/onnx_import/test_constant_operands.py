"""Nodes of constants, which ONNX's reference implementation would fold to other results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.formats.from_onnx import from_model

from .against_runtime import compare, floats, model

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
IMAGE = floats(2, 3, 5, 4)
LAST, FAR, STEP, FIRST = (np.array([n]) for n in (-9, -100, -2, 0))


def _node(op: str, *inputs: str, out: str, **attrs: Any) -> Any:
    return helper.make_node(op, inputs, [out], **attrs)


def test_layers_of_constants() -> None:
    """The reference ignores pads of pools, and adds numbers with their signs in a norm."""
    nodes = [
        _node("MaxPool", "w", out="a", kernel_shape=[3, 2], pads=[1, 0, 0, 1]),
        _node("LpPool", "w", out="b", kernel_shape=[3, 3], strides=[2, 1], auto_pad="VALID"),
        _node("LpNormalization", "w", out="c", axis=1, p=1),
        _node("LRN", "w", out="d", size=3, alpha=0.5),
        _node("GlobalMaxPool", "line", out="e"),
        _node("ReduceSumSquare", "whole", out="f", keepdims=0),
        _node("Slice", "whole", "last", "far", "first", "step", out="g"),
        _node("Identity", "x", out="h"),
    ]
    weights = {"w": IMAGE, "line": IMAGE[0], "whole": np.arange(6, dtype="int32"), "last": LAST,
               "far": FAR, "first": FIRST, "step": STEP}  # fmt: skip
    proto = model(nodes, {"x": ((2,), "float32")}, list("abcdefgh"), weights)
    compare(proto, {"x": floats(2)})


def test_axes_of_the_result() -> None:
    """Before operator set 13, the reference inserts axes one after another."""
    node = _node("Unsqueeze", "w", out="y", axes=[-4, 2])
    proto = model([node, _node("Identity", "x", out="z")], {"x": ((2,), "float32")}, ["y", "z"],
                  {"w": floats(5, 4, 4)}, opset=12)  # fmt: skip
    mod = from_model(proto, {})
    assert [int(d) for d in mod["main"].ret_ty.fields[0].shape] == [5, 1, 1, 4, 4]


def test_a_negative_index_and_a_start_before_the_axis() -> None:
    """A scalar index drops its axis; a slice backwards starts at the first element at least."""
    nodes = [
        _node("Gather", "x", "index", out="a", axis=1),
        _node("Slice", "x", "last", "far", "first", "step", out="b"),
        _node("Shape", "x", out="s"),
        _node("Slice", "s", "last", "far", "first", "step", out="c"),
    ]
    weights = {"index": np.array(-1), "last": LAST, "far": FAR, "first": FIRST, "step": STEP}
    proto = model(nodes, {"x": ((2, 3, 5, 4), "float32")}, list("abc"), weights)
    compare(proto, {"x": IMAGE})


def test_operands_of_one_axis_and_extreme_values() -> None:
    """No float holds the largest int64; weights may be a vector, and data a scalar."""
    nodes = [
        _node("Pad", "i", "pads", "most", out="a"),
        _node("MatMulInteger", "q", "vector", out="b"),
        _node("PRelu", "scalar", "slope", out="c"),
        _node("Pow", "none", "k", out="d"),
    ]
    weights = {"pads": np.array([1, 1]), "most": np.array(np.iinfo("int64").max),
               "vector": np.array([1, -2, 3], "int8"), "scalar": np.array(-2, "float32"),
               "none": np.zeros((1, 0), "int32")}  # fmt: skip
    inputs = {"i": ((2,), "int64"), "q": ((2, 3), "uint8"), "slope": ((), "float32"),
              "k": ((), "int32")}  # fmt: skip
    proto = model(nodes, inputs, list("abcd"), weights)
    compare(proto, {"i": np.array([1, 2]), "q": np.array([[1, 2, 3], [200, 5, 6]], "uint8"),
                    "slope": np.array(0.5, "float32"), "k": np.array(2, "int32")})  # fmt: skip


def test_reductions_and_results_without_elements() -> None:
    """TVM leaves sums of nothing unwritten, and saves no constant without elements."""
    nodes = [
        _node("Slice", "x", "end", "end", out="none"),
        _node("ReduceSum", "none", out="a", keepdims=0),
        _node("ReduceMean", "none", out="b"),
        _node("ReduceProd", "none", out="c", axes=[0]),
        _node("MatMul", "w", "none", out="d"),
        _node("Slice", "w", "end", "end", out="e"),
        _node("CumSum", "none", "last", out="f"),
        _node("ReduceMax", "none", out="g", axes=[0], keepdims=0),
        _node("ReduceMin", "none", out="h", axes=[0], keepdims=0),
        _node("ReduceLogSumExp", "none", out="i", axes=[0], keepdims=0),
        _node("Einsum", "w", "none", out="j", equation="ij,jk->ik"),
    ]
    weights = {"w": floats(2, 0), "end": np.array([2]), "last": np.array(1)}
    proto = model(nodes, {"x": ((2, 3), "float32")}, list("abcdefghij"), weights)
    x = floats(2, 3)
    results = opinfo.compile(from_model(proto, {}), []).run(x)
    expected = [np.zeros(()), np.zeros((1, 1)), np.ones((1, 3)), np.zeros((2, 3)), np.zeros((0, 0)),
                np.zeros((0, 3)), np.full(3, -np.inf), np.full(3, np.inf), np.full(3, -np.inf),
                np.zeros((2, 3))]  # fmt: skip
    for got, right in zip(results, expected, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_extrema_of_no_integers_are_limits(dtype: str) -> None:
    nodes = [_node("Slice", "x", "end", "end", out="none"),
             _node("ReduceMax", "none", out="a", axes=[0], keepdims=0),
             _node("ReduceMin", "none", out="b", axes=[0], keepdims=0)]  # fmt: skip
    proto = model(nodes, {"x": ((2, 3), dtype)}, ["a", "b"], {"end": np.array([2])})
    results = opinfo.compile(from_model(proto, {}), []).run(np.ones((2, 3), dtype))
    limits = np.iinfo(dtype)
    for got, right in zip(results, (limits.min, limits.max), strict=True):
        np.testing.assert_array_equal(got, np.full(3, right, dtype))


def test_a_shape_of_two_axes_is_flattened() -> None:
    weights = {"s": np.array([[4, 3]])}
    proto = model([_node("Expand", "x", "s", out="y")], {"x": ((1, 3), "float32")}, ["y"], weights)
    compare(proto, {"x": floats(1, 3)})


def test_sizes_of_constants_hold_for_symbols() -> None:
    """A scale of known size, or weights by group, say what a symbol of the data is."""
    nodes = [
        _node("LayerNormalization", "x", "s", "s", out="a", axis=0),
        _node("Conv", "z", "w", out="b", group=2),
        _node("ConvTranspose", "t", "w", out="c", group=4),
    ]
    inputs = {"x": ((3, "n", 4), "float32"), "z": ((1, "m", 5), "float32"),
              "t": ((1, "k", 5), "float32")}  # fmt: skip
    weights = {"s": floats(3, 5, 4), "w": floats(4, 2, 3)}
    proto = model(nodes, inputs, ["a", "b", "c"], weights)
    compare(proto, {"x": floats(3, 5, 4), "z": floats(1, 4, 5), "t": floats(1, 4, 5)})


def test_slices_of_slices_without_elements() -> None:
    weights = {"from": np.array([7, 1]), "to": np.array([3, 9]), "axes": np.array([2, 0])}
    proto = model([_node("Slice", "x", "from", "to", "axes", out="y")],
                  {"x": ((1, "n", "n", 2), "uint8")}, ["y", "x"], weights)  # fmt: skip
    compiled = opinfo.compile(from_model(proto, {}), [])
    assert compiled.run(np.ones((1, 4, 4, 2), "uint8"))[0].shape == (0, 4, 0, 2)
