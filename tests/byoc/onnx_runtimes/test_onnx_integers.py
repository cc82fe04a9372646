"""Integer arithmetic in regions for ONNX Runtime: what is recovered, what is refused, exactness."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import helper
from tvm import relax

from opinfo.byoc.backends.onnx_integers.integer_products import in_8_bits
from opinfo.byoc.backends.onnx_models.model import model
from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import Preparer, prepare
from opinfo.byoc.prepare.raising.raise_products import may_dequantize
from opinfo.frontend.formats.from_onnx import from_model

from ...layout import nets
from ...onnx_import.against_runtime import model as onnx_model
from .onnx_cases import recording

op, nn = relax.op, relax.op.nn
Array = np.ndarray[Any, Any]
SHAPE = (2, 3, 16)
RANDOM = np.random.default_rng(0)
BYTES = RANDOM.integers(-127, 128, (16, 5))


def written(mod: Any) -> list[list[str]]:
    """The operators of each region that ONNX Runtime would get."""
    backend, regions = recording()
    dispatch(prepare(mod, [backend]), [backend])
    return [
        [n.op_type for n in onnx.load_from_string(model(r, True).tobytes()).graph.node]
        for r in regions
    ]


def quantized(cases: Mapping[str, tuple[Array, Array | None]]) -> Any:
    """For each case DynamicQuantizeLinear, MatMulInteger, and the result in float32."""
    node, nodes = helper.make_node, []
    arrays: dict[str, Any] = {"s": np.float32(0.03)}
    for k, (weights, zero) in enumerate(cases.values()):
        arrays[f"w{k}"] = weights.astype("int8" if zero is None else zero.dtype)
        if zero is not None:
            arrays[f"wz{k}"] = zero
        more = [f"wz{k}"] if zero is not None else []
        nodes += [
            node("DynamicQuantizeLinear", [f"x{k}"], [f"q{k}", f"qs{k}", f"qz{k}"]),
            node("MatMulInteger", [f"q{k}", f"w{k}", f"qz{k}", *more], [f"p{k}"]),
            node("Cast", [f"p{k}"], [f"f{k}"], to=1),
            node("Mul", [f"qs{k}", "s"], [f"scale{k}"]),
            node("Mul", [f"f{k}", f"scale{k}"], [f"y{k}"]),
        ]
    numbers = range(len(cases))
    inputs = {f"x{k}": (SHAPE, "float32") for k in numbers}
    return onnx_model(nodes, inputs, [f"{n}{k}" for k in numbers for n in "yq"], arrays)


INTEGERS = ["DynamicQuantizeLinear", "Mul", "MatMulInteger", "Cast", "Mul"]
WEIGHTS: dict[str, tuple[Array, Any]] = {
    "int8": (BYTES, None),
    "int8 around 3": (BYTES, np.int8(3)),
    "uint8": (BYTES + 128, np.uint8(128)),
    "uint8 around 0": (BYTES + 128, np.uint8(0)),
    "uint8 around a number for each column": (
        BYTES + 128, np.array([0, 7, 128, 200, 255], "uint8")),
    "several matrices": (RANDOM.integers(-128, 128, (2, 16, 4)), None),
}  # fmt: skip
#: Zeros only, halves between codes, one sign only, one number only, large and small numbers.
DATA: dict[str, Array] = {
    "random": RANDOM.standard_normal((3, 16)),
    "zeros": np.zeros((3, 16)),
    "halves": np.resize(np.r_[0.0, 255.0, np.arange(46) + 0.5], (3, 16)),
    "negative": -RANDOM.random((3, 16)) - 1,
    "one number": np.full((3, 16), 0.7),
    "large": RANDOM.standard_normal((3, 16)) * 1e30,
    "small": RANDOM.standard_normal((3, 16)) * 1e-30,
}


def test_products_of_integers_are_those_of_onnx_runtime() -> None:
    proto = quantized(WEIGHTS)
    mod = from_model(proto, {})
    assert sorted(n for region in written(mod) for n in region) == sorted(INTEGERS * len(WEIGHTS))
    main = compile_module(mod, ["onnxruntime"]).machine()["main"]
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for data in DATA.values():
        x = np.broadcast_to(data, SHAPE).astype("float32").copy()
        theirs = session.run(None, {i.name: x for i in proto.graph.input})
        ours = main(*[tvm.runtime.tensor(x) for _ in proto.graph.input])
        for found, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(found.numpy(), expected)


def test_one_quantization_serves_all_its_readers() -> None:
    proto = quantized({"int8": (BYTES, None)})
    node = helper.make_node
    proto.graph.node.extend([node("MatMulInteger", ["q0", "w0", "qz0"], ["p"]),
                             node("Identity", ["p"], ["z"])])  # fmt: skip
    proto.graph.output.append(helper.make_empty_tensor_value_info("z"))
    (nodes,) = written(from_model(proto, {}))
    assert nodes.count("DynamicQuantizeLinear") == 1 and nodes.count("MatMulInteger") == 2


def _product(
    weights: Array = BYTES, codes: str = "uint8", zero: Any = "z", point: Sequence[int] = ()
) -> Any:
    """cast(q) - zero, times weights; ``zero`` is a number, or q's zero point of a shape."""
    q = relax.Var("q", relax.TensorType((3, weights.shape[0]), codes))
    z = relax.Var("z", relax.TensorType(point, "uint8"))
    bb = relax.BlockBuilder()
    with bb.function("main", [q, z]):
        with bb.dataflow():
            x = bb.emit(op.astype(q, "float32"))
            less = bb.emit(op.astype(z, "float32")) if zero == "z" else relax.const(zero, "float32")
            x = bb.emit(op.subtract(x, less))
            y = bb.emit(op.matmul(x, relax.const(weights.astype("float32"))))
            out = bb.emit_output(relax.Tuple([y, less]) if zero == "z" else y)
        bb.emit_func_output(out)
    return bb.get()


REFUSED: dict[str, Any] = {
    "weights that are not integers": _product(BYTES + 0.5),
    "weights that span more than 8 bits": _product(BYTES * 2),
    "sums that float32 rounds": _product(np.full((520, 2), 127)),
    "codes of int8": _product(codes="int8", zero=3.0),
    "a zero point that is not an integer": _product(zero=0.5),
    "a zero point out of range": _product(zero=256.0),
    "a zero point for each column": _product(point=(16,)),
    "a zero point of another dtype": _product(codes="int8"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_products_stay_as_they_are(name: str) -> None:
    (nodes,) = written(REFUSED[name])
    assert "MatMul" in nodes and "MatMulInteger" not in nodes


def test_the_largest_sum_is_taken() -> None:
    """518 x 127 x 255 is below 2 ** 24."""
    for mod in (_product(np.full((518, 2), 127)), _product(zero=7.0)):
        (nodes,) = written(mod)
        assert "MatMulInteger" in nodes and "MatMul" not in nodes


def test_sums_that_float32_rounds_are_computed_in_integers() -> None:
    """All codes are 255 and all weights 127, so that each sum is beyond 2 ** 24."""
    node, depth = helper.make_node, 600
    nodes = [node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
             node("MatMulInteger", ["q", "w", "z"], ["p"]),
             node("Cast", ["p"], ["y"], to=1)]  # fmt: skip
    weights = np.full((depth, 2), 127, "int8")
    weights[:, 1] = RANDOM.integers(-127, 128, depth)
    proto = onnx_model(nodes, {"x": ((3, depth), "float32")}, ["y", "p"], {"w": weights})
    mod = from_model(proto, {})
    assert written(mod) == [["DynamicQuantizeLinear", "MatMulInteger", "Cast"]]
    x = np.ones((3, depth), "float32")
    x[1] = RANDOM.random(depth)
    theirs = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    ours = compile_module(mod, ["onnxruntime"]).machine()["main"](tvm.runtime.tensor(x))
    assert theirs[1].max() == 127 * 255 * depth > 1 << 24
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)
    left = dispatch(prepare(mod, ["openvino"]), ["openvino"]).left
    reason = "the dtype is int32, of which OpenVINO rounds sums of products to float32"
    assert [reason in o.why for o in left if o.op == "relax.matmul"] == [True]


@pytest.mark.parametrize(("depth", "op"), [(64, "MatMulInteger"), (40000, "MatMul")])
def test_products_of_two_dynamic_tensors_are_bounded_by_their_depth(depth: int, op: str) -> None:
    node = helper.make_node
    nodes = [
        *(node("DynamicQuantizeLinear", [f"x{k}"], [f"q{k}", f"s{k}", f"z{k}"]) for k in (0, 1)),
        node("MatMulInteger", ["q0", "q1", "z0", "z1"], ["p"]),
        node("Cast", ["p"], ["y"], to=1),
    ]
    shapes = {"x0": ((2, 3, depth), "float32"), "x1": ((2, depth, 5), "float32")}
    proto = onnx_model(nodes, shapes, ["y"], {})
    mod = from_model(proto, {})
    (region,) = written(mod)
    assert op in region and region.count("DynamicQuantizeLinear") == 2
    if op == "MatMul":
        return
    values = {k: RANDOM.standard_normal(s).astype(d) for k, (s, d) in shapes.items()}
    (theirs,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, values)
    ours = compile_module(mod, ["onnxruntime"]).machine()["main"]
    found = ours(*map(tvm.runtime.tensor, values.values())).numpy()
    np.testing.assert_array_equal(found, theirs)


Emit = Callable[[Any], Any]
#: Where the chain of a dynamic quantisation may differ, and what then is not recovered.
CHANGES = ("steps", "flat", "axis", "bound", "span", "point", "late", "clip")


def _chain(emit: Emit, x: Any, change: str = "") -> Any:
    """Dynamic quantisation as the importer writes it, changed in one place."""
    zero, steps = relax.const(0.0), relax.const(254.0 if change == "steps" else 255.0)
    axis = [1] if change == "axis" else None
    low = emit(op.minimum(emit(op.min(x, axis)), zero))
    high = emit(op.maximum(emit(op.max(x)), relax.const(1.0 if change == "bound" else 0.0)))
    low = emit(op.min(low)) if change == "axis" else low
    span = emit(op.add(high, low) if change == "span" else op.subtract(high, low))
    flat = emit(op.equal(low, high))
    one = relax.const(2.0 if change == "flat" else 1.0)
    scale = emit(op.where(flat, one, emit(op.divide(span, steps))))
    point = emit(op.subtract(zero, emit(op.divide(low, scale))))
    point = emit(op.clip(point, 0.0, 255.0))
    point = point if change == "point" else emit(op.round(point))
    codes = emit(op.divide(x, scale))
    if change == "late":
        codes = emit(op.round(emit(op.add(codes, point))))
    else:
        codes = emit(op.add(emit(op.round(codes)), point))
    return emit(relax.Tuple([emit(op.clip(codes, 1.0 if change == "clip" else 0.0, 255.0)), scale]))


def test_a_dynamic_quantization_is_recovered() -> None:
    (nodes,) = written(nets.net(lambda e, r, x: _chain(e, x), (3, 16)))
    assert nodes == ["DynamicQuantizeLinear", "Cast"]


@pytest.mark.parametrize("change", CHANGES)
def test_another_chain_is_not(change: str) -> None:
    mod = nets.net(lambda e, r, x: _chain(e, x, change), (3, 16))
    (nodes,) = written(mod)
    assert "Clip" in nodes
    if change not in ("point", "late", "clip"):
        assert "DynamicQuantizeLinear" not in nodes


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
    session = onnxruntime.InferenceSession(proto.SerializeToString())
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


def _lstm(size: int = 6, units: int = 4) -> Any:
    """DynamicQuantizeLSTM in both directions over any number of steps."""
    width = 4 * units
    arrays = {
        "W": RANDOM.integers(-128, 128, (2, size, width)).astype("int8"),
        "R": RANDOM.integers(-128, 128, (2, units, width)).astype("int8"),
        "B": RANDOM.standard_normal((2, 2 * width)).astype("float32"),
        "s": np.array([0.01, 0.02], "float32"), "z": np.zeros(2, "int8"),
    }  # fmt: skip
    inputs = ["x", "W", "R", "B", "", "", "", "", "s", "z", "s", "z"]
    node = helper.make_node("DynamicQuantizeLSTM", inputs, ["y", "h", "c"], hidden_size=units,
                            direction="bidirectional", domain="com.microsoft")  # fmt: skip
    return onnx_model([node], {"x": (["n", 1, size], "float32")}, ["y", "h", "c"], arrays)


def test_an_lstm_with_dynamic_quantization_is_written_as_it_was() -> None:
    proto = _lstm()
    mod = from_model(proto, {})
    (region,) = written(mod)
    assert region.count("DynamicQuantizeLSTM") == 2 and "MatMul" not in region
    compiled = compile_module(mod, ["onnxruntime"])
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for steps in (1, 9):
        x = RANDOM.standard_normal((steps, 1, 6)).astype("float32")
        got = compiled.machine()["main"](tvm.runtime.tensor(x))
        for ours, theirs in zip(got, session.run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs)


def test_an_lstm_of_integers_has_no_weights_of_few_bits() -> None:
    """Its PrimFunc takes int8, but models with it are raced and go to runtimes."""
    mod = from_model(_lstm(), {})
    assert may_dequantize(mod) and not Preparer(mod).few_bits


def test_several_sequences_stay_with_tvm() -> None:
    proto = _lstm()
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2
    left = dispatch(prepare(from_model(proto, {}), ["onnxruntime"]), ["onnxruntime"]).left
    reason = "the batch is 2, expected 1: ONNX Runtime may round groups of sequences apart"
    assert [reason in o.why for o in left if o.op == "relax.nn.quantized_lstm"] == [True] * 2
