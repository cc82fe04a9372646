"""Normalisations and quantisation of channels, whose number may be symbolic."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model

from ..against_runtime import compare, floats, model, outputs
from .against_reference import check

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
make = helper.make_node
IMAGES: dict[str, Any] = {"x": (["n", "c", "h", "w"], "float32")}
X = floats(2, 6, 4, 5)
FACTORS = {"s": floats(6, seed=1), "b": floats(6, seed=2)}


@pytest.mark.parametrize("names", ["", "s", "sb"])
@pytest.mark.parametrize("op", ["InstanceNormalization", "GroupNormalization"])
def test_scales_say_how_many_channels_there_are(op: str, names: str) -> None:
    attrs = {"num_groups": 3} if op.startswith("Group") else {}
    node = make(op, ["x", "s", "b"], ["y"], epsilon=0.25, **attrs)
    inputs = IMAGES | {name: ([f"size of {name}"], "float32") for name in names}
    weights = {k: v for k, v in FACTORS.items() if k not in names}
    feed = {"x": X, **{name: FACTORS[name] for name in names}}
    compare(model([node], inputs, weights=weights, opset=21), feed)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_scales_of_groups(dtype: str) -> None:
    node = make("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3)
    weights = {k: v[:3].astype(dtype) for k, v in FACTORS.items()}
    proto = model([node], {"x": (["n", "c", "h"], dtype)}, weights=weights, opset=18)
    compare(proto, {"x": X[..., 0].astype(dtype)}, tolerance=1e-3 if dtype == "float16" else 1e-5)


def test_groups_of_other_sizes_are_refused() -> None:
    node = make("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=4)
    proto = model([node], IMAGES, weights=FACTORS, opset=21)
    with pytest.raises(FrontendError, match="6 channels in 4 groups, expected groups of one size"):
        from_model(proto, {})


@pytest.mark.parametrize("dims", [["n", "c", "k"], ["n", 4, "k"], [2, 4, 3]])
def test_codes_of_channels(dims: list[Any]) -> None:
    nodes = [make("QuantizeLinear", ["x", "s", "z"], ["q"]),
             make("DequantizeLinear", ["q", "s", "z"], ["y"])]  # fmt: skip
    weights = {"s": np.array([0.1, 0.2, 0.3, 0.4], "float32"), "z": np.arange(1, 5).astype("int8")}
    feed = {"x": 20 * floats(2, 4, 3)}
    compare(model(nodes, {"x": (dims, "float32")}, ["q", "y"], weights), feed)
    inputs: dict[str, Any] = {"x": (dims, "float32"), "s": (["m"], "float32")}
    own = {"z": weights["z"]}
    compare(model(nodes, inputs, ["q", "y"], own), feed | {"s": weights["s"]})


def test_a_scale_in_a_vector_of_one() -> None:
    nodes = [make("QuantizeLinear", ["x", "s", "z"], ["y"])]
    weights = {"s": np.array([0.1], "float32"), "z": np.array([3], "uint8")}
    proto = model(nodes, {"x": (["n", "c"], "float32")}, weights=weights)
    compare(proto, {"x": 5 * floats(2, 4)})


@pytest.mark.parametrize("dims", [[3, 8, 2], ["n", 8, 2]])
def test_codes_of_blocks(dims: list[Any]) -> None:
    """The last block has fewer elements."""
    nodes = [make("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1, block_size=3),
             make("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1, block_size=3)]  # fmt: skip
    weights = {"s": np.abs(floats(3, 3, 2, seed=1)) + np.float32(0.1),
               "z": np.arange(18).astype("uint8").reshape(3, 3, 2)}  # fmt: skip
    proto = model(nodes, {"x": (dims, "float32")}, ["q", "y"], weights, opset=21)
    compare(proto, {"x": 9 * floats(3, 8, 2)})


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_constants_of_four_bits(dtype: str, count: int) -> None:
    codes = (np.arange(count) * 3 - 4 * (dtype == "int4")).astype(getattr(ml_dtypes, dtype))
    weights = {"q": codes, "s": np.array(0.5, "float32"), "z": codes[:1].reshape(())}
    nodes = [make("DequantizeLinear", ["q", "s", "z"], ["d"]), make("Add", ["d", "x"], ["y"]),
             make("Cast", ["q"], ["f"], to=1), make("Mul", ["f", "x"], ["v"])]  # fmt: skip
    proto = model(nodes, {"x": ((count,), "float32")}, ["y", "v"], weights, opset=21)
    compare(proto, {"x": floats(count)})


@pytest.mark.part
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(("sizes", "attrs"), [((), {}), ((6,), {}), ((4,), {"axis": 0}),
                                              ((4, 2), {"block_size": 3})])  # fmt: skip
def test_constants_of_float8(dtype: str, sizes: tuple[int, ...], attrs: dict[str, int]) -> None:
    """Blocks of them lost their fractions, and others were refused."""
    kind = getattr(ml_dtypes, dtype)
    weights = {"q": (2 * floats(4, 6)).astype(kind), "s": np.abs(floats(*sizes, seed=1)),
               "z": np.zeros(sizes, kind)}  # fmt: skip
    for operands in (["q", "s"], ["q", "s", "z"]):
        nodes = [make("DequantizeLinear", operands, ["d"], **attrs), make("Add", ["d", "x"], ["y"])]
        proto = model(nodes, {"x": ((4, 6), "float32")}, weights=weights, opset=21)
        compare(proto, {"x": floats(4, 6, seed=2)})


def test_a_zero_point_of_float8_that_is_not_zero_is_refused() -> None:
    kind = ml_dtypes.float8_e4m3fn
    weights = {"q": floats(4).astype(kind), "s": np.array(2, "float32"), "z": np.ones((), kind)}
    nodes = [make("DequantizeLinear", ["q", "s", "z"], ["d"]), make("Add", ["d", "x"], ["y"])]
    proto = model(nodes, {"x": ((4,), "float32")}, weights=weights, opset=21)
    with pytest.raises(FrontendError, match="zero point of float8_e4m3fn is not known to be 0"):
        from_model(proto, {})


def test_codes_of_float8_are_refused() -> None:
    weights = {"s": np.array(2, "float32"), "z": np.zeros((), ml_dtypes.float8_e4m3fn)}
    nodes = [make("QuantizeLinear", ["x", "s", "z"], ["q"])]
    proto = model(nodes, {"x": ((4,), "float32")}, ["q"], weights, opset=21)
    with pytest.raises(FrontendError, match="its result is float8_e4m3fn, expected integers"):
        from_model(proto, {})


@pytest.mark.parametrize("scale", [0.0, [0.5, 0.0, 1.0, 2.0]])
def test_scales_of_zero_are_refused(scale: Any) -> None:
    """One of a tensor ended in a raw text of TVM when it was compiled."""
    nodes = [make("QuantizeLinear", ["x", "s"], ["q"], axis=0)]
    weights = {"s": np.array(scale, "float32")}
    proto = model(nodes, {"x": ((4,), "float32")}, ["q"], weights)
    with pytest.raises(FrontendError, match="its scale has the element 0"):
        from_model(proto, {})


def test_codes_of_integers_saturate() -> None:
    weights = {"s": np.array(0.5, "float32"), "z": np.array(1, "int8")}
    proto = model([make("QuantizeLinear", ["x", "s", "z"], ["q"])], {"x": ((4,), "int32")}, ["q"],
                  weights)  # fmt: skip
    (codes,) = outputs(proto, {"x": np.array([1, -5, 2**31 - 1, -(2**31)], "int32")})
    assert codes.tolist() == [3, -9, 127, -128]


def test_tensors_of_four_bits_are_refused() -> None:
    x = {"x": ((3,), "float32")}
    cast = model([make("Cast", ["x"], ["q"], to=TensorProto.INT4),
                  make("Cast", ["q"], ["y"], to=TensorProto.FLOAT)], x, opset=21)  # fmt: skip
    with pytest.raises(FrontendError, match=r"\(Cast\): its result is int4, expected a type of at"):
        from_model(cast, {})
    weights = {"s": np.array(0.5, "float32"), "z": np.array(1).astype(ml_dtypes.uint4)}
    codes = model([make("QuantizeLinear", ["x", "s", "z"], ["y"])], x, weights=weights, opset=21)
    with pytest.raises(FrontendError, match=r"\(QuantizeLinear\): its result is uint4"):
        from_model(codes, {})
    given = model([make("Cast", ["x"], ["y"], to=1)], {"x": ((3,), "int4")}, opset=21)
    with pytest.raises(FrontendError, match="input 'x' is int4, expected a type of at least 8"):
        from_model(given, {})


@pytest.mark.parametrize(
    ("dtype", "to"),
    [("float32", TensorProto.INT32), ("int64", TensorProto.DOUBLE), ("int8", TensorProto.UINT8),
     ("float16", TensorProto.UINT16), ("bool", TensorProto.INT8)],
)  # fmt: skip
def test_bits_of_another_type(dtype: str, to: int) -> None:
    x = (100 * floats(3, 4)).astype(dtype)
    check(
        model([make("BitCast", ["x"], ["y"], to=to)], {"x": (["n", 4], dtype)}, opset=26), {"x": x}
    )


def test_bits_of_another_width_are_refused() -> None:
    for dtype, to in (("float32", TensorProto.INT64), ("uint8", TensorProto.BOOL)):
        proto = model([make("BitCast", ["x"], ["y"], to=to)], {"x": ((3,), dtype)}, opset=26)
        with pytest.raises(FrontendError, match=r"\(BitCast\)"):
            from_model(proto, {})
