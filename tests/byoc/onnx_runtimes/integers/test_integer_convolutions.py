"""Convolutions of integers, and how integers of few bits are stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

from opinfo.byoc.backends.onnx_integers.integer_products import in_8_bits
from opinfo.byoc.compile import compile_module
from opinfo.frontend.formats.from_onnx import from_model

from ....onnx_import.against_runtime import model as onnx_model
from ....onnx_import.against_runtime import session_of
from .integer_models import Array, written

op, nn = relax.op, relax.op.nn
RANDOM = np.random.default_rng(0)


def test_casts_of_integers_that_float32_holds_are_dropped() -> None:
    """The result of a convolution of codes is a whole number; any float32 is not."""
    kernel = relax.const(RANDOM.integers(-9, 9, (2, 4, 3, 3)).astype("float32"))

    def build(emit: Any, rng: Any, q: Any, x: Any) -> Any:
        y = emit(nn.conv2d(emit(op.subtract(emit(op.astype(q, "float32")), relax.const(5.0))),
                           kernel))  # fmt: skip
        whole = [emit(op.astype(emit(op.astype(v, "int32")), "float32")) for v in (y, x)]
        return emit(relax.Tuple(whole))

    q = relax.Var("q", relax.TensorType((1, 4, 7, 6), "uint8"))
    x = relax.Var("x", relax.TensorType((3, 4), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [q, x]):
        with bb.dataflow():
            out = bb.emit_output(build(bb.emit, None, q, x))
        bb.emit_func_output(out)
    nodes = sorted(n for region in written(bb.get()) for n in region)
    assert nodes == ["Cast", "Cast", "Cast", "ConvInteger"]


KERNELS: dict[str, tuple[Array, dict[str, Any]]] = {
    "uint8, with strides and uneven pads": (
        RANDOM.integers(0, 256, (5, 3, 3, 2)).astype("uint8"),
        {"strides": [2, 1], "pads": [1, 0, 2, 1]}),
    "int8, dilated": (
        RANDOM.integers(-128, 128, (4, 3, 3, 3)).astype("int8"),
        {"dilations": [1, 2], "pads": [1, 2, 1, 2]}),
    "1-d": (RANDOM.integers(-90, 90, (4, 3, 5)).astype("int8"), {"pads": [2, 2]}),
    "three groups": (RANDOM.integers(0, 256, (6, 1, 3, 3)).astype("uint8"), {"group": 3}),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_convolutions_of_integers_are_those_of_onnx_runtime(name: str) -> None:
    kernel, attrs = KERNELS[name]
    node = helper.make_node
    nodes = [node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
             node("ConvInteger", ["q", "w", "z"], ["p"], **attrs),
             node("Cast", ["p"], ["f"], to=1),
             node("Mul", ["f", "s"], ["y"])]  # fmt: skip
    shape = (2, 3, 9, 8)[: kernel.ndim]
    proto = onnx_model(nodes, {"x": (shape, "float32")}, ["y", "q"], {"w": kernel})
    mod = from_model(proto, {})
    nodes_written = [n for region in written(mod) for n in region]
    assert ("ConvInteger" in nodes_written) == ("group" not in attrs)
    main = compile_module(mod, ["onnxruntime"]).machine()["main"]
    session = session_of(proto)
    for scale, offset in ((1, 0), (1, 3), (1, -9), (1e20, 0)):
        x = (scale * (RANDOM.standard_normal(shape) + offset)).astype("float32")
        ours = main(tvm.runtime.tensor(x))
        for found, expected in zip(ours, session.run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(found.numpy(), expected)


def test_integers_are_stored_around_a_number() -> None:
    for low, high, point in ((-128, 127, 0), (-100, 155, -28), (0, 255, -128), (-255, 0, 127)):
        stored = in_8_bits(np.array([[low, high]] * 2, "float32"))
        assert stored is not None and stored[0].dtype == stored[1].dtype == np.int8
        assert stored[1].tolist() == point
        restored = stored[0].astype(int) - stored[1]
        np.testing.assert_array_equal(restored, [[low, high]] * 2)
    assert in_8_bits(np.array([[-128.0], [128.0]])) is None
    by_column = in_8_bits(np.array([[-255.0, 255.0], [0.0, 0.0]]))
    assert by_column is not None and by_column[1].tolist() == [127, -128]
    assert in_8_bits(np.array([[[-255.0, 255.0], [0.0, 0.0]]])) is None


def test_integers_are_stored_without_signs_around_a_number() -> None:
    for low, high, point in ((0, 255, 0), (-128, 127, 128), (-255, 0, 255), (-100, 20, 100)):
        stored = in_8_bits(np.array([[[low, high]]], "float32"), "uint8")
        assert stored is not None and stored[0].dtype == stored[1].dtype == np.uint8
        assert stored[1].tolist() == point
        np.testing.assert_array_equal(stored[0].astype(int) - stored[1], [[[low, high]]])
    assert in_8_bits(np.array([[[1.0, 256.0]]]), "uint8") is None
    assert in_8_bits(np.array([[[-1.0, 255.0]]]), "uint8") is None
