"""Statistics of normalisations, signs of infinities, shifts past the width, requested sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.testing.unoptimised import unoptimised

from .against_runtime import compare, floats, model

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")


@pytest.mark.parametrize("axis", [1, -1])
def test_the_mean_and_inverse_deviation_of_a_layer_norm(axis: int) -> None:
    node = helper.make_node("LayerNormalization", ["x", "s", "b"], ["y", "mean", "inverse"],
                            axis=axis, epsilon=1e-3)  # fmt: skip
    sizes = (3, 4)[axis:] if axis < 0 else (3, 4)
    weights = {"s": floats(*sizes, seed=1), "b": floats(*sizes, seed=2)}
    proto = model([node], {"x": (("n", 3, 4), "float32")}, ["y", "mean", "inverse"], weights)
    compare(proto, {"x": floats(2, 3, 4)}, {"x": floats(5, 3, 4)})


def test_a_layer_norm_of_a_symbolic_size() -> None:
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"])
    proto = model([node], {"x": ((2, "n"), "float32"), "s": (("m",), "float32")})
    compare(proto, {"x": floats(2, 5), "s": floats(5)})


def test_a_batch_norm_in_training_mode() -> None:
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "mean", "var"],
                            training_mode=1, momentum=0.75)  # fmt: skip
    weights = {k: floats(3, seed=seed) for seed, k in enumerate("sbm")} | {"v": 1 + floats(3)}
    proto = model([node], {"x": (("n", 3, 4), "float32")}, ["y", "mean", "var"], weights)
    x, momentum = floats(2, 3, 4), 0.75
    mean, var = x.mean((0, 2)), x.var((0, 2))  # ONNX Runtime for CPUs has no training mode
    from opinfo.frontend.formats.from_onnx import from_model

    y, running_mean, running_var = _run(from_model(proto, {}), x)
    at = (slice(None), None)
    expected = (x - mean[at]) / np.sqrt(var[at] + 1e-5) * weights["s"][at] + weights["b"][at]
    np.testing.assert_allclose(y, expected, atol=1e-5)
    np.testing.assert_allclose(running_mean, weights["m"] * momentum + mean * 0.25, atol=1e-6)
    np.testing.assert_allclose(running_var, weights["v"] * momentum + var * 0.25, atol=1e-6)


@pytest.mark.parametrize("sign", ["detect_positive", "detect_negative"])
def test_infinities_of_one_sign(sign: str) -> None:
    node = helper.make_node("IsInf", ["x"], ["y"], **{sign: 0})
    values = np.array([-1.5, np.nan, np.inf, -np.inf], "float32")
    compare(model([node], {"x": ((4,), "float32")}, opset=20), {"x": values})


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", ["uint8", "uint32"])
def test_shifts_past_the_width_shift_all_bits_out(dtype: str, direction: str) -> None:
    node = helper.make_node("BitShift", ["x", "z"], ["y"], direction=direction)
    from opinfo.frontend.formats.from_onnx import from_model

    proto = model([node], {"x": ((4,), dtype), "z": ((4,), dtype)})
    bits = np.dtype(dtype).itemsize * 8
    x, z = np.array([3, 129, 255, 7], dtype), np.array([1, bits - 1, bits, 200], dtype)
    shift = {"LEFT": int.__lshift__, "RIGHT": int.__rshift__}[direction]
    expected = [shift(int(a), int(b)) % 2**bits for a, b in zip(x, z, strict=True)]
    np.testing.assert_array_equal(_run(from_model(proto, {}), x, z)[0], np.array(expected, dtype))


def test_a_transposed_convolution_of_a_larger_requested_size() -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[3, 2],
                            output_shape=[10, 8])  # fmt: skip
    proto = model([node], {"x": ((1, 1, 3, 3), "float32")}, weights={"w": floats(1, 2, 3, 3)})
    compare(proto, {"x": floats(1, 1, 3, 3, seed=1)})


def test_sizes_of_automatic_pads() -> None:
    """VALID rounds up if asked to; SAME crops, but adds no rows where strides exceed the kernel."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[2, 2], strides=[2, 1],
                         auto_pad="VALID", ceil_mode=1),
        helper.make_node("ConvTranspose", ["x", "w"], ["b"], strides=[3, 1],
                         auto_pad="SAME_UPPER", output_padding=[1, 0]),
    ]  # fmt: skip
    weights = {"w": floats(2, 1, 1, 1)}
    proto = model(nodes, {"x": ((1, 2, 5, 3), "float32")}, ["a", "b"], weights)
    compare(proto, {"x": floats(1, 2, 5, 3)})


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_corners_of_one_element(mode: str) -> None:
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode,
                            nearest_mode="floor",
                            coordinate_transformation_mode="align_corners")  # fmt: skip
    sizes = {"sizes": np.array([1, 2, 3, 1])}
    compare(model([node], {"x": ((1, 2, 5, 1), "float32")}, weights=sizes),
            {"x": floats(1, 2, 5, 1)})  # fmt: skip


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_a_kernel_larger_than_the_data_is_refused(op: str) -> None:
    from opinfo.frontend.checks.error import FrontendError
    from opinfo.frontend.formats.from_onnx import from_model

    node = helper.make_node(op, ["x"], ["y"], name="wide", kernel_shape=[3], strides=[3])
    with pytest.raises(FrontendError, match=r"node 'wide'.* reaches over 3 elements.* has 1"):
        from_model(model([node], {"x": ((1, 2, 1), "float32")}), {})


def _run(mod: Any, *arrays: Any) -> list[Any]:
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    out = machine["main"](*map(tvm.runtime.tensor, arrays))
    return [t.numpy() for t in ([out] if isinstance(out, tvm.runtime.Tensor) else out)]
