"""Products of integers for ONNX Runtime: what is recovered, what is refused, exactness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare
from opinfo.frontend.formats.from_onnx import from_model

from ....onnx_import.against_runtime import model as onnx_model
from ....onnx_import.against_runtime import session_of
from .integer_models import BYTES, SHAPE, Array, quantized, written

op, nn = relax.op, relax.op.nn
RANDOM = np.random.default_rng(0)


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
    session = session_of(proto)
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
    theirs = session_of(proto).run(None, {"x": x})
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
    (theirs,) = session_of(proto).run(None, values)
    ours = compile_module(mod, ["onnxruntime"]).machine()["main"]
    found = ours(*map(tvm.runtime.tensor, values.values())).numpy()
    np.testing.assert_array_equal(found, theirs)


@pytest.mark.parametrize(("codes", "op_type"), [("uint8", "MatMulInteger"), ("int8", "MatMul")])
def test_products_with_int8_of_a_call_are_in_floats(codes: str, op_type: str) -> None:
    """ONNX Runtime adds pairs of products of uint8 and int8 in 16 bits on CPUs without VNNI."""
    q = relax.Var("q", relax.TensorType((3, 16), "uint8"))
    k = relax.Var("k", relax.TensorType((16, 4), codes))
    bb = relax.BlockBuilder()
    with bb.function("main", [q, k]):
        with bb.dataflow():
            x, w = (bb.emit(op.astype(v, "float32")) for v in (q, k))
            out = bb.emit_output(bb.emit(op.matmul(x, w)))
        bb.emit_func_output(out)
    mod = bb.get()
    assert [n for region in written(mod) for n in region if "MatMul" in n] == [op_type]
    values = np.full((3, 16), 255, "uint8"), np.full((16, 4), 127, codes)
    main = compile_module(mod, ["onnxruntime"]).machine()["main"]
    found = main(*map(tvm.runtime.tensor, values)).numpy()
    np.testing.assert_array_equal(found, np.full((3, 4), 255 * 127 * 16, "float32"))
