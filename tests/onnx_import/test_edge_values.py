"""Infinities, booleans, empty sets, powers of integers and remainders by infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.testing.unoptimised import unoptimised
from tests.models.weights import Array

from .against_runtime import compare, floats, model, outputs, reference

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
INF, NAN = np.float32("inf"), np.float32("nan")
#: The lowest finite number, from which TVM's maximum starts.
LOWEST = np.finfo("float32").min


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize(("op", "sign"), [("ReduceMax", 1), ("ReduceMin", -1)])
def test_extrema_of_infinities(op: str, sign: int, keep: int) -> None:
    node = helper.make_node(op, ["x"], ["y"], axes=[-1, 0], keepdims=keep)
    x = sign * np.array([[[-INF, -INF], [1, -INF]], [[-INF, -INF], [-INF, 3]]], "float32")
    compare(model([node], {"x": (("n", 2, 2), "float32")}), {"x": x}, {"x": floats(3, 2, 2)})


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_extrema_of_booleans_and_of_no_elements(op: str) -> None:
    node = helper.make_node(op, ["x", "a"], ["y"], keepdims=0)
    axes = {"a": np.array([1])}
    inputs = {"x": ((3, "n"), "bool"), "f": ((3, "n"), "float32")}
    nodes = [node, helper.make_node(op, ["f", "a"], ["z"], keepdims=0)]
    proto = model(nodes, inputs, ["y", "z"], axes, opset=20)
    compiled = opinfo.compile(from_model(proto, {}), [])  # TVM's leaves sums of nothing undefined
    x = np.array([[True, True], [False, True], [False, False]])
    expected = [True, op == "ReduceMax", False]
    np.testing.assert_array_equal(compiled.run(x, floats(3, 2))[0], expected)
    of_none, limit = compiled.run(x[:, :0].copy(), floats(3, 0))
    np.testing.assert_array_equal(of_none, [op == "ReduceMin"] * 3)
    np.testing.assert_array_equal(limit, [-INF if op == "ReduceMax" else INF] * 3)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(("op", "sign"), [("ArgMax", 1), ("ArgMin", -1)])
def test_places_of_infinities(op: str, sign: int, last: int) -> None:
    node = helper.make_node(op, ["x"], ["y"], axis=1, keepdims=0, select_last_index=last)
    rows = [[-INF, -INF, -INF], [-INF, LOWEST, -INF], [-INF, 2, 2], [INF, INF, 1]]
    x = sign * np.array(rows, "float32")
    if last:  # the last of equal elements
        expected = 2 - np.argmax(np.flip(sign * x, 1), 1)
    else:
        expected = np.argmax(sign * x, 1)
    mod = from_model(model([node], {"x": ((4, 3), "float32")}), {})
    np.testing.assert_array_equal(_call(_machine(mod), x)[0], expected)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_old_opsets_count_the_axis_from_the_end(op: str) -> None:
    node = helper.make_node(op, ["x"], ["y"], axis=-1, keepdims=0)
    mod = from_model(model([node], {"x": ((4, 3, 5), "float32")}, opset=9), {})
    x = floats(4, 3, 5)
    expected = np.argmax(x if op == "ArgMax" else -x, -1)
    np.testing.assert_array_equal(_call(_machine(mod), x)[0], expected)


def test_a_row_of_attention_whose_keys_are_all_masked_is_zero() -> None:
    node = helper.make_node("Attention", ["q", "k", "v", "m"], ["y"])
    inputs = {name: ((1, 2, 2, 4), "float32") for name in "qkv"} | {"m": ((2, 2), "bool")}
    mod = from_model(model([node], inputs, opset=23), {})
    q, k, v = (floats(1, 2, 2, 4, seed=seed) for seed in range(3))
    (y,) = _call(_machine(mod), q, k, v, np.array([[False, False], [False, True]]))
    np.testing.assert_array_equal(y[:, :, 0], 0)
    np.testing.assert_allclose(y[:, :, 1], v[:, :, 1], atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("names", [["x"], ["x", "low"], ["x", "", "high"]])
def test_a_missing_bound_is_the_last_finite_number(names: list[str], dtype: str) -> None:
    """By the text of `Clip`; the reference keeps infinities."""
    kinds = {"low": np.array(-2, dtype), "high": np.array(2, dtype)}
    weights = {name: kinds[name] for name in names if name in kinds}
    node = helper.make_node("Clip", names, ["y"])
    x = np.array([-INF, INF, 1, -3, 3, 60000], dtype)
    proto = model([node], {"x": (("n",), dtype)}, weights=weights)
    result = _call(_machine(from_model(proto, {})), x)[0]
    np.testing.assert_array_equal(result, reference(proto, {"x": x})[0])
    limits: dict[str, Any] = {"low": np.finfo(dtype).min, "high": np.finfo(dtype).max, **weights}
    np.testing.assert_array_equal(result, np.clip(x, limits["low"], limits["high"]))
    constant = model([node, helper.make_node("Add", ["y", "z"], ["s"])], {"z": ((6,), dtype)}, "s",
                     {**weights, "x": x})  # fmt: skip
    np.testing.assert_array_equal(
        _call(_machine(from_model(constant, {})), np.zeros(6, dtype))[0], result
    )


def test_old_bounds_are_those_of_float32() -> None:
    node = helper.make_node("Clip", ["x"], ["y"], min=-1.0)
    mod = from_model(model([node], {"x": ((3,), "float64")}, opset=6), {})
    result = _call(_machine(mod), np.array([INF, -INF, 2], "float64"))[0]
    np.testing.assert_array_equal(result, [np.finfo("float32").max, -1, 2])


def test_a_cast_to_texts_is_refused() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=8, name="here")
    with pytest.raises(FrontendError, match=r"here.*its result has strings, .* expected numbers"):
        from_model(model([node], {"x": (("n",), "float32")}), {})


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_powers_of_integers(dtype: str) -> None:
    node = helper.make_node("Pow", ["x", "e"], ["y"])
    proto = model([node], {"x": (("n", 1), dtype), "e": ((6,), dtype)})
    x = np.array([[0], [1], [-1], [2], [-3]], dtype)
    mod = from_model(proto, {})
    e = np.array([0, 1, 2, 3, 13, 18], dtype)
    np.testing.assert_array_equal(_call(_machine(mod), x, e)[0], x**e)
    e = np.array([-1, -2, -3, -4, -1, -1], dtype)
    expected = [[0 if abs(a) != 1 else a**-b for b in e.tolist()] for a in x.ravel().tolist()]
    np.testing.assert_array_equal(_call(_machine(mod), x, e)[0], expected)


@pytest.mark.parametrize(("base", "exponent"), [("float32", "int64"), ("int32", "float32")])
def test_powers_of_mixed_dtypes(base: str, exponent: str) -> None:
    node = helper.make_node("Pow", ["x", "e"], ["y"])
    x, e = np.array([1, 2, 3], base), np.array([4, 5, 2], exponent)
    compare(model([node], {"x": ((3,), base), "e": ((3,), exponent)}), {"x": x, "e": e})


def test_a_remainder_by_an_infinity_has_the_sign_of_the_divisor() -> None:
    node = helper.make_node("Mod", ["x", "z"], ["y"])
    mod = from_model(model([node], {"x": ((8,), "float32"), "z": ((8,), "float32")}), {})
    x = np.array([-3, 3, -1, 1, 5.5, -5.5, 4, INF], "float32")
    z = np.array([INF, INF, -INF, -INF, -2, 2, 2, 2], "float32")
    with np.errstate(invalid="ignore"):
        expected = np.mod(x, z)
    np.testing.assert_array_equal(_call(_machine(mod), x, z)[0], expected)


@pytest.mark.parametrize("rank", [1, 2])
def test_an_rms_norm_of_the_whole_tensor(rank: int) -> None:
    node = helper.make_node("RMSNormalization", ["x", "s"], ["y"], axis=0)
    sizes = (3, 4)[:rank]
    mod = from_model(
        model([node], {"x": (sizes, "float32"), "s": (sizes, "float32")}, opset=23), {}
    )
    x, scale = floats(*sizes), floats(*sizes, seed=1)
    expected = x / np.sqrt((x * x).mean() + 1e-5) * scale
    np.testing.assert_allclose(_call(_machine(mod), x, scale)[0], expected, atol=1e-6)


def test_an_axis_that_is_a_number_is_unsqueezed() -> None:
    node = helper.make_node("Unsqueeze", ["x", "a"], ["y"])
    proto = model([node], {"x": ((2, "n"), "float32")}, weights={"a": np.array(-1)})
    mod = from_model(proto, {})
    assert _call(_machine(mod), floats(2, 3))[0].shape == (2, 3, 1)


def test_aligned_corners_of_a_rounded_size_are_refused() -> None:
    """ONNX divides by the product of size and scale, other runtimes by its floor."""
    node = helper.make_node("Resize", ["x", "", "f"], ["y"], mode="linear",
                            coordinate_transformation_mode="align_corners")  # fmt: skip
    proto = model([node], {"x": ((1, 1, 2, 4), "float32")},
                  weights={"f": np.array([1, 1, 0.6, 0.6], "float32")})  # fmt: skip
    with pytest.raises(FrontendError, match="align_corners with a scale whose result is rounded"):
        from_model(proto, {})


def _machine(mod: Any) -> Any:
    import tvm
    from tvm import relax

    return relax.VirtualMachine(unoptimised(mod), tvm.cpu())


def _call(machine: Any, *arrays: Any) -> list[Array]:
    import tvm

    out = machine["main"](*map(tvm.runtime.tensor, map(np.ascontiguousarray, arrays)))
    return [t.numpy() for t in ([out] if isinstance(out, tvm.runtime.Tensor) else out)]


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_cumulative_products(exclusive: int, reverse: int) -> None:
    node = helper.make_node("CumProd", ["x", "a"], ["y"], exclusive=exclusive, reverse=reverse)
    axis = {"a": np.array(1)}
    mod = from_model(model([node], {"x": ((2, 3), "float32")}, weights=axis, opset=26), {})
    x = np.array([[2, 3, 5], [7, 11, 13]], "float32")
    rows = x[:, ::-1] if reverse else x
    expected = np.cumprod(rows, 1)
    if exclusive:
        expected = np.concatenate([np.ones((2, 1)), expected[:, :-1]], 1)
    np.testing.assert_array_equal(
        opinfo.compile(mod, []).run(x), expected[:, ::-1] if reverse else expected
    )


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_become_channels(mode: str) -> None:
    node = helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2)
    node.attribute.append(helper.make_attribute("mode", mode))
    proto = model([node], {"x": ((1, 2, 4, 6), "float32")}, opset=28)
    x = floats(1, 2, 4, 6)
    parts = x.reshape(1, 2, 2, 2, 3, 2)
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    expected = parts.transpose(order).reshape(1, 8, 2, 3)
    np.testing.assert_array_equal(opinfo.compile(from_model(proto, {}), []).run(x), expected)


def test_a_tile_repeats_every_axis() -> None:
    node = helper.make_node("Tile", ["x", "r"], ["y"])
    repeats = np.array([7, 6, 4, 2])
    proto = model([node], {"x": ((2, 3, 4, 5), "float32")}, weights={"r": repeats})
    x = floats(2, 3, 4, 5)
    got = opinfo.compile(from_model(proto, {}), []).run(x)
    np.testing.assert_array_equal(got, np.tile(x, repeats))


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_nan_is_true(dtype: str) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BOOL)
    least = np.finfo(dtype).smallest_subnormal
    x = np.array([np.nan, 0.0, -0.0, INF, 0.5, least, -least], dtype)
    compare(model([node], {"x": ((7,), dtype)}), {"x": x})


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_signs(dtype: str) -> None:
    node = helper.make_node("Sign", ["x"], ["y"])
    x = np.array([np.nan, -INF, -2, 0, 0.5, INF], dtype)
    compiled = opinfo.compile(from_model(model([node], {"x": ((6,), dtype)}), {}), [])
    np.testing.assert_array_equal(compiled.run(x), np.array([np.nan, -1, -1, 0, 1, 1], dtype))


@pytest.mark.parametrize("number", [NAN, [NAN, 1.0, -1.0]])
@pytest.mark.parametrize("op", ["Max", "Min"])
def test_limits_keep_a_constant_that_is_nan(op: str, number: Any) -> None:
    x = np.array([[1, -2, 3], [0, NAN, INF]], "float32")
    nodes = [helper.make_node(op, ["x", "c"], ["y"]), helper.make_node(op, ["c", "x"], ["z"])]
    weights = {"c": np.array(number, "float32")}
    proto = model(nodes, {"x": ((2, 3), "float32")}, ["y", "z"], weights)
    for got in outputs(proto, {"x": x}):
        nan = np.isnan(x) | np.isnan(np.array(number))
        assert (np.isnan(got) == nan).all()
        expected = (np.fmax if op == "Max" else np.fmin)(x, np.float32(number))
        np.testing.assert_array_equal(got[~nan], expected[~nan])
