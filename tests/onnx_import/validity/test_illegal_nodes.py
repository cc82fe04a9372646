"""Nodes that ONNX's own definitions rule out are refused; they would read outside of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model

from ..against_runtime import compare, model

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="imports models")
IMAGE = ((1, 2, 5, 5), "float32")
KERNEL = {"w": np.ones((2, 2, 3, 3), "float32")}
POOL = {"kernel_shape": [2, 2]}


def refused(proto: Any, reason: str) -> None:
    with pytest.raises(FrontendError, match=f"node 'bad' .*{reason}") as caught:
        from_model(proto, {})
    assert "\n" not in str(caught.value)


def node(op: str, inputs: list[str], outputs: tuple[str, ...] = ("y",), **attrs: Any) -> Any:
    return helper.make_node(op, inputs, list(outputs), name="bad", **attrs)


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"dilations": [0, 1]}, "dilations must only contain positive"),
        ({"dilations": [-1, 1]}, "dilations must only contain positive"),
        ({"strides": [0, 1]}, "strides must only contain positive"),
        ({"strides": [2]}, "strides has incorrect size"),
        ({"pads": [1]}, "pads has incorrect size"),
        ({"kernel_shape": [9, 9]}, "kernel_shape"),
    ],
)
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "MaxPool", "AveragePool"])
def test_windows(op: str, attrs: dict[str, Any], reason: str) -> None:
    is_pool = "Pool" in op
    if is_pool and "kernel_shape" in attrs:
        attrs, reason = {"kernel_shape": [0, 2]}, "kernel_shape must only contain positive"
    inputs = ["x"] if is_pool else ["x", "w"]
    own = {**POOL, **attrs} if is_pool else attrs
    refused(model([node(op, inputs, **own)], {"x": IMAGE}, weights=KERNEL, opset=19), reason)


@pytest.mark.parametrize(
    ("op", "attrs", "weights", "reason"),
    [
        ("Transpose", {"perm": [-1, 0]}, [], "perm"),
        ("Not", {}, [], "its input 'X' has the type float, expected bool"),
        ("Slice", {}, [[0, 0], [2, 1], [0, 0]], "more than once"),
        ("Pad", {}, [[-9, 0, 0, 0]], "contradict"),
        ("Gather", {}, [[2]], "the index 2 is outside of an axis of size 2"),
        ("GatherElements", {}, [[[-3]]], "the index -3 is outside"),
        ("GatherElements", {"axis": 1}, [np.zeros((9, 1), int)], "contradict"),
        ("GatherND", {}, [[[0, 3]]], "the index 3 is outside of an axis of size 3"),
        ("GatherND", {"batch_dims": 1}, [[[0]] * 5], "contradict"),
        ("ScatterElements", {}, [np.zeros((1, 9), int), np.ones((1, 9), "f4")], "contradict"),
        ("ScatterElements", {}, [[[2]], np.ones((1, 1), "f4")], "the index 2 is outside"),
        ("ScatterND", {"reduction": "or"}, [[[0]], np.ones((1, 3), "f4")], "reduction is 'or'"),
        ("CumSum", {}, [2], "axis is 2, expected -2 to 1"),
        ("ReverseSequence", {"batch_axis": 0, "time_axis": 0}, [[1, 1]], "expected 0 and 1"),
        ("Einsum", {"equation": "ij->ii"}, [], "a letter twice"),
        ("Einsum", {"equation": "ij->k"}, [], "that no operand has"),
        ("Einsum", {"equation": "..ij->ij"}, [], "letters, commas and an arrow"),
    ],
)
def test_operands(op: str, attrs: dict[str, Any], weights: list[Any], reason: str) -> None:
    names = [f"w{k}" for k in range(len(weights))]
    arrays = {name: np.asarray(w) for name, w in zip(names, weights, strict=True)}
    proto = model([node(op, ["x", *names], **attrs)], {"x": ((2, 3), "float32")}, weights=arrays)
    refused(proto, reason)


@pytest.mark.parametrize("count", [4, -1])
def test_more_elements_than_there_are(count: int) -> None:
    proto = model([node("TopK", ["x", "k"], ("y", "i"))], {"x": ((2, 3), "float32")}, ["y", "i"],
                  {"k": np.array([count])})  # fmt: skip
    refused(proto, "requested k" if count > 0 else "k is -1")


@pytest.mark.parametrize(
    ("attrs", "scale", "reason"),
    [({}, 0.0, "expected sizes from 1"), ({"nearest_mode": "up"}, 2.0, "nearest_mode is 'up'")],
)
def test_resizes(attrs: dict[str, Any], scale: float, reason: str) -> None:
    weights = {"s": np.array([1, 1, scale, 1], "float32")}
    refused(model([node("Resize", ["x", "", "s"], **attrs)], {"x": IMAGE}, weights=weights), reason)


def test_a_number_of_parts_that_are_not_its_outputs() -> None:
    split = node("Split", ["x"], ("a", "b"), num_outputs=3, axis=1)
    proto = model([split], {"x": ((2, 3), "float32")}, ["a", "b"], opset=18)
    refused(proto, "num_outputs is 3, but it has 2 outputs")


def test_a_region_of_an_image_that_is_not_there() -> None:
    roi = node("RoiAlign", ["x", "r", "b"], output_height=2, output_width=2)
    inputs = {"x": IMAGE, "r": ((1, 4), "float32"), "b": ((1,), "int64")}
    import opinfo

    compiled = opinfo.compile(from_model(model([roi], inputs), {}), [])
    image, region = np.ones(IMAGE[0], "float32"), np.array([[0, 0, 3, 3]], "float32")
    np.testing.assert_allclose(compiled.run(image, region, np.array([0])), 1)
    with pytest.raises(ValueError, match="argument b has the element 9"):
        compiled.run(image, region, np.array([9]))


def test_a_model_without_operator_sets() -> None:
    proto = model([node("Relu", ["x"])], {"x": IMAGE})
    del proto.opset_import[:]
    with pytest.raises(FrontendError, match="imports no operator set: add one of domain ''"):
        from_model(proto, {})
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    refused(proto, "imports no operator set of domain ''")


def test_a_weight_of_another_type_than_the_input_of_its_name() -> None:
    proto = model([node("Relu", ["x"])], {"x": ((2,), "float32")})
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(2, "float32"), "x"))
    with pytest.raises(FrontendError, match="the weight 'x' has another type than the input 'x'"):
        from_model(proto, {})


def test_a_deprecated_operator_is_legal() -> None:
    weights = {"s": np.ones(2, "float32")}
    norm = node("GroupNormalization", ["x", "s", "s"], num_groups=2)
    from_model(model([norm], {"x": IMAGE}, weights=weights, opset=18), {})


def test_a_scalar_that_is_a_constant_is_legal() -> None:
    ends = {name: np.array(k) for name, k in (("a", 0), ("c", 1))}
    proto = model([node("Range", ["a", "s", "c"])], {"x": ((3,), "float32")}, weights=ends)
    proto.graph.node.insert(0, helper.make_node("Size", ["x"], ["s"]))
    from_model(proto, {})


@pytest.mark.parametrize("opset", [13, 18])
def test_empty_scales_of_a_resize_count_as_absent(opset: int) -> None:
    weights = {"roi": np.zeros(0, "float32"), "scales": np.zeros(0, "float32"),
               "sizes": np.array([1, 2, 8, 8])}  # fmt: skip
    resize = node("Resize", ["x", *weights])
    x = np.arange(50, dtype="float32").reshape(1, 2, 5, 5)
    compare(model([resize], {"x": IMAGE}, weights=weights, opset=opset), {"x": x})


def test_inputs_of_other_types_are_named() -> None:
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
    for made, name in ((helper.make_optional_type_proto(kind), "optional"),
                       (helper.make_sequence_type_proto(kind), "sequence")):  # fmt: skip
        graph = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["y"])], "g", [helper.make_value_info("x", made)],
            [helper.make_value_info("y", made)])  # fmt: skip
        with pytest.raises(FrontendError, match=f"'x' is of type {name}.*input of its own"):
            from_model(helper.make_model(graph), {})


@pytest.mark.parametrize(
    ("op", "reason"),
    [("Bernoulli", "its result is random.*give the numbers as an input"),
     ("RandomUniformLike", "its result is random"),
     ("Momentum", "it is a step of training"),
     ("StringSplit", "it works on strings")],
)  # fmt: skip
def test_operators_without_a_lowering_say_why(op: str, reason: str) -> None:
    refused(model([node(op, ["x"])], {"x": ([4, 4], "float32")}), reason)


@pytest.mark.parametrize(
    ("op", "count", "place", "reason"),
    [
        ("SequenceAt", 2, 2, "position 2 in a sequence of 2"),
        ("SequenceAt", 2, -3, "position -3 in a sequence of 2"),
        ("SequenceErase", 2, 2, "position 2 in a sequence of 2"),
        ("SequenceErase", 1, 1, "position 1 in a sequence of 1"),
        ("SequenceErase", 0, 0, "removes a tensor from an empty sequence"),
    ],
)
def test_positions_outside_of_a_sequence(op: str, count: int, place: int, reason: str) -> None:
    first = helper.make_node("SequenceConstruct", ["x"] * count, ["s"])
    nodes = [first if count else helper.make_node("SequenceEmpty", [], ["s"]),
             node(op, ["s", "k"], ("y",))]  # fmt: skip
    proto = model(nodes, {"x": ((2, 3), "float32")}, weights={"k": np.array(place)})
    refused(proto, reason)
