"""What ONNX says in words only: types of operands, flags, choices, sizes of weights, bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError, one_line
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.frontend.onnx_graph.attributes import array

from ..against_runtime import floats, model

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="imports models")
X = {"x": ((2, 3), "float32")}
IMAGE = {"x": ((1, 4, 4, 4), "float32")}


def node(op: str, *inputs: str, out: str = "y", **attrs: Any) -> Any:
    return helper.make_node(op, list(inputs), [out], name="bad", **attrs)


def refused(proto: Any) -> str:
    with pytest.raises(FrontendError) as caught:
        from_model(proto, {})
    text = str(caught.value)
    assert text.isprintable() and text.startswith("model: node 'bad' (")
    return text.partition("): ")[2]


@pytest.mark.parametrize("op", ["Sub", "PRelu", "GreaterOrEqual", "Concat", "Max", "Gemm"])
def test_inputs_of_one_type_parameter_have_one_type(op: str) -> None:
    attrs: dict[str, Any] = {"axis": 0} if op == "Concat" else {}
    inputs = {"x": ((3, 3), "float16"), "z": ((3, 3), "float32")}
    text = refused(model([node(op, "x", "z", **attrs)], inputs))
    assert "have the types float16 and float, expected one type" in text
    from_model(model([node(op, "x", "z", **attrs)], {k: ((3, 3), "float32") for k in "xz"}), {})


def test_the_condition_of_a_branch_is_a_truth_value() -> None:
    """ONNX's inference does not look at nodes with branches."""
    branch = helper.make_graph([helper.make_node("Abs", ["x"], ["r"])], "b", [],
                               [helper.make_empty_tensor_value_info("r")])  # fmt: skip
    proto = model([node("If", "c", then_branch=branch, else_branch=branch)],
                  {**X, "c": ((), "float16")})  # fmt: skip
    assert refused(proto) == "its input 'cond' has the type float16, expected bool"


def test_an_absent_input_among_many() -> None:
    """TVM's converter crashed."""
    assert refused(model([node("Sum", "x", "", "x")], X)) == "its input 1 is missing"


@pytest.mark.parametrize(
    ("op", "attrs", "reason"),
    [
        ("ReduceMax", {"keepdims": 7}, "keepdims is 7, expected 0 or 1"),
        ("MaxPool", {"ceil_mode": -1, "kernel_shape": [2, 2]}, "ceil_mode is -1, expected 0 or 1"),
        ("MaxPool", {"auto_pad": "SAME", "kernel_shape": [2, 2]},
         "auto_pad is 'SAME', expected NOTSET or SAME_UPPER or SAME_LOWER or VALID"),
        ("LRN", {"size": -1}, "size is -1, expected numbers from 1"),
        ("DepthToSpace", {"blocksize": 2, "mode": "RCD"}, "mode is 'RCD', expected DCR or CRD"),
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [2, 0, 0, 0]},
         "a padding of 2 has room for a window of 2, expected less"),
        ("AveragePool", {"kernel_shape": [2, 2], "pads": [0, 0, 0, 3]},
         "a padding of 3 has room for a window of 2, expected less"),
        ("MeanVarianceNormalization", {"axes": [6]}, "axes are [6], expected -4 to 3"),
        ("LpPool", {"p": 0, "kernel_shape": [2, 2]}, "p is 0, expected numbers from 1"),
    ],
)  # fmt: skip
def test_attributes(op: str, attrs: dict[str, Any], reason: str) -> None:
    assert refused(model([node(op, "x", **attrs)], IMAGE)) == reason


@pytest.mark.parametrize(
    ("op", "attrs", "weights", "reason"),
    [
        ("Mod", {"fmod": -1}, [floats(4)], "fmod is -1, expected 0 or 1"),
        ("ConvTranspose", {"output_shape": [0, 0]}, [floats(4, 1, 3, 3)],
         "output_shape is [0, 0], expected numbers from 1"),
        ("GridSample", {"mode": "nope"}, [floats(1, 2, 2, 2)],
         "mode is 'nope', expected linear or nearest or cubic or bilinear or bicubic"),
        ("InstanceNormalization", {}, [floats(4), floats(4, 1)],
         "its input 'B' has 2 dimensions, expected 1"),
        ("InstanceNormalization", {}, [floats(1), floats(4)],
         "input 1 has the shape (1), expected (4)"),
        ("LayerNormalization", {"stash_type": 7}, [floats(4)],
         "stash_type is 7, expected one of (0, 1, 10, 11, 16)"),
        ("MaxUnpool", {"kernel_shape": [2, 2]}, [np.zeros((1, 4, 4), int)],
         "input 1 has the shape (1, 4, 4), expected (1, 4, 4, 4)"),
        ("ReverseSequence", {}, [np.array([1, 1, 1, 5])],
         "a sequence has the length 5, expected 0 to 1"),
        ("Squeeze", {}, [np.array([[0]])], "its input 'axes' has 2 dimensions, expected 1"),
        ("Slice", {}, [np.array([[0]]), np.array([2])],
         "its input 'starts' has 2 dimensions, expected 1"),
    ],
)  # fmt: skip
def test_operands(op: str, attrs: dict[str, Any], weights: list[Any], reason: str) -> None:
    arrays = {f"w{k}": np.asarray(w) for k, w in enumerate(weights)}
    assert refused(model([node(op, "x", *arrays, **attrs)], IMAGE, weights=arrays)) == reason


@pytest.mark.parametrize(
    ("k", "sizes", "expected"),
    [(1, (1, 15, 2), "(1, 15, 3)"), (2, (2, 15, 5), "(1, 15, 5)"), (3, (1, 15), "(1, 30)")],
)
def test_weights_of_recurrences(k: int, sizes: tuple[int, ...], expected: str) -> None:
    shapes = {"w": (1, 15, 3), "r": (1, 15, 5), "b": (1, 30)}
    shapes["wrb"[k - 1]] = sizes
    weights = {name: floats(*shape) for name, shape in shapes.items()}
    proto = model([node("GRU", "x", *weights, hidden_size=5)], {"x": ((2, 1, 3), "float32")},
                  weights=weights)  # fmt: skip
    got = "(" + ", ".join(map(str, sizes)) + ")"
    assert refused(proto) == f"input {k} has the shape {got}, expected {expected}"


def test_a_grid_has_a_matrix_for_each_image() -> None:
    weights = {"size": np.array([5, 3, 4, 4])}
    proto = model([node("AffineGrid", "x", "size")], {"x": ((2, 2, 3), "float32")},
                  weights=weights, opset=20)  # fmt: skip
    assert refused(proto) == "input 0 has the shape (2, 2, 3), expected (5, 2, 3)"


@pytest.mark.parametrize("declared", [TensorProto.DOUBLE, TensorProto.FLOAT])
def test_the_declared_type_of_an_output(declared: int) -> None:
    proto = model([node("Exp", "x")], X)
    proto.graph.output[0].type.tensor_type.elem_type = declared
    if declared == TensorProto.FLOAT:
        from_model(proto, {})
        return
    reason = "its output 'y' has the type float32, but the graph declares it as float64"
    assert refused(proto) == reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda w: setattr(w, "raw_data", w.raw_data[:-1]),
         "has 23 bytes, expected 24 for 2 x 3 elements of float32"),
        (lambda w: setattr(w, "raw_data", w.raw_data * 2),
         "has 48 bytes, expected 24 for 2 x 3 elements of float32"),
        (lambda w: w.dims.append(2), "has 24 bytes, expected 48 for 2 x 3 x 2 elements of float32"),
        (lambda w: setattr(w, "data_type", 99), "has the type 99, which ONNX does not have"),
        (lambda w: setattr(w, "data_type", 0), "has the type 0, which ONNX does not have"),
    ],
)  # fmt: skip
def test_bytes_of_a_weight(change: Any, reason: str) -> None:
    proto = model([node("Add", "x", "w")], X, weights={"w": floats(2, 3)})
    change(proto.graph.initializer[0])
    with pytest.raises(FrontendError) as caught:
        from_model(proto, {})
    assert str(caught.value) == f"model: the tensor 'w' {reason}"


def test_a_condition_without_a_branch() -> None:
    branch = helper.make_graph([helper.make_node("Abs", ["x"], ["r"])], "b", [],
                               [helper.make_empty_tensor_value_info("r")])  # fmt: skip
    proto = model([node("If", "c", then_branch=branch)], {**X, "c": ((), "bool")})
    assert refused(proto) == "its attribute 'else_branch' is missing"


def test_a_domain_that_is_not_imported() -> None:
    gelu = node("Gelu", "x")
    gelu.domain = "com.microsoft"
    proto = model([gelu], X)
    del proto.opset_import[1:]
    from_model(proto, {})  # ONNX Runtime has this domain
    proto.graph.node[0].domain = "com.other"
    assert refused(proto) == "the model imports no operator set of domain 'com.other'"


def test_a_call_of_a_function_without_an_input_that_its_body_needs() -> None:
    body = helper.make_function("here", "f", ["a", "b"], ["c"], [node("Add", "a", "b", out="c")],
                                [helper.make_opsetid("", 17)])  # fmt: skip
    call = helper.make_node("f", ["x"], ["y"], domain="here")
    proto = model([call], X, functions=[body])
    if "here" not in {entry.domain for entry in proto.opset_import}:
        proto.opset_import.append(helper.make_opsetid("here", 1))
    assert refused(proto) == "its input 'B' is missing"


def test_nodes_of_functions_are_judged_with_the_attributes_of_the_call() -> None:
    """ONNX's definition of this loss passes `reduction` on to one of five scores and labels."""
    inputs = {"x": ((4, 5), "float32"), "labels": ((3,), "int64")}
    proto = model([node("SoftmaxCrossEntropyLoss", "x", "labels")], inputs)
    with pytest.raises(FrontendError, match=r"\(NegativeLogLikelihoodLoss\): .* value mismatch"):
        from_model(proto, {})
    from_model(model(proto.graph.node, {**inputs, "labels": ((4,), "int64")}), {})


def test_a_weight_of_other_sizes_than_its_input() -> None:
    proto = model([node("Exp", "x")], X, weights={"x": floats(5, 7)})
    with pytest.raises(
        FrontendError, match=r"^model: the weight 'x' has the sizes \[5, 7\], which"
    ):
        from_model(proto, {})
    from_model(model([node("Exp", "x")], {"x": ((5, "n"), "float32")},
                     weights={"x": floats(5, 7)}), {})  # fmt: skip


def test_complex_numbers() -> None:
    """TVM has no type for them, and its own message names nothing."""
    weight = np.array([1j], "complex64")
    proto = model([node("Identity", "w")], X, weights={"w": weight})
    with pytest.raises(FrontendError, match=r"the tensor 'w' holds complex numbers, expected real"):
        from_model(proto, {})
    with pytest.raises(FrontendError, match=r"input 'x': TVM has no type complex64, expected real"):
        from_model(model([node("Identity", "x")], {"x": ((2,), "complex64")}), {})


def test_elements_of_less_than_a_byte_share_their_bytes() -> None:
    import ml_dtypes

    weight = numpy_helper.from_array(np.array([1, -2, 3], ml_dtypes.int4), "w")
    assert len(weight.raw_data) == 2
    assert array(weight).tolist() == [1, -2, 3]


def test_an_operator_of_tvm_is_named_and_not_printed() -> None:
    error = ValueError(
        'In ir.Op(span=None, ty=ir.Type(span=None), name="relax.add", description="", arguments='
        '(ir.ArgumentInfo(name="x1", type_info="Tensor", description="The first."),), '
        'attrs_type_key="", num_inputs=2, support_level=10), a size of T.int64(4) and T.int64(-5)'
    )
    assert one_line(error) == "In relax.add, a size of 4 and -5"
