"""Converters against ONNX Runtime, one test a family, on static and symbolic sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import Inputs, compare, floats, model, outputs

make = helper.make_node
IMAGE: Inputs = {"x": ([1, 2, "h", "w"], "float32")}
SIZES = [{"x": floats(1, 2, 7, 6)}, {"x": floats(1, 2, 8, 9)}]


@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER"])
def test_padding_to_the_same_size(pad: str) -> None:
    nodes = [make("Conv", ["x", "w"], ["y"], auto_pad=pad, strides=[2, 1]),
             make("MaxPool", ["x"], ["z"], auto_pad=pad, kernel_shape=[3, 2], strides=[2, 2]),
             make("AveragePool", ["x"], ["a"], auto_pad=pad, kernel_shape=[3, 2], strides=[2, 2]),
             ]  # fmt: skip
    proto = model(nodes, IMAGE, ["y", "z", "a"], {"w": floats(3, 2, 3, 4, seed=1)})
    compare(proto, *SIZES)


@pytest.mark.parametrize("include", [0, 1])
def test_pools_that_round_up(include: int) -> None:
    common: dict[str, Any] = {"ceil_mode": 1, "kernel_shape": [3, 2], "strides": [2, 3],
                              "pads": [1, 0, 0, 1]}  # fmt: skip
    nodes = [make("MaxPool", ["x"], ["y"], **common),
             make("AveragePool", ["x"], ["a"], count_include_pad=include, **common)]  # fmt: skip
    compare(model(nodes, IMAGE, ["y", "a"]), *SIZES)


@pytest.mark.part
@pytest.mark.parametrize("transform", ["half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resizes_of_symbolic_sizes(mode: str, transform: str) -> None:
    nodes = [make("Resize", ["x", "", "factors"], ["y"], mode=mode, nearest_mode="floor",
                  coordinate_transformation_mode=transform)]  # fmt: skip
    weights = {"factors": np.array([1, 1, 2, 3], "float32")}
    compare(model(nodes, IMAGE, weights=weights), *SIZES)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_scales_whose_result_is_rounded(mode: str) -> None:
    nodes = [make("Resize", ["x", "", "factors"], ["y"], mode=mode)]
    weights = {"factors": np.array([1, 1, 1.7, 0.6], "float32")}
    compare(model(nodes, {"x": ([1, 2, 7, 6], "float32")}, weights=weights), SIZES[0])


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_integers_are_resized_as_real_numbers(dtype: str) -> None:
    """Results are halves and quarters, which are exact before they are truncated."""
    nodes = [make("Resize", ["x", "", "factors"], ["y"], mode="linear")]
    weights = {"factors": np.array([1, 1, 0.5, 0.5], "float32")}
    x = np.random.default_rng(0).integers(0 if dtype == "uint8" else -99, 255, (1, 2, 7, 5))
    for dims in ([1, 2, 7, 5], [1, 2, "h", "w"]):
        compare(model(nodes, {"x": (dims, dtype)}, weights=weights), {"x": x.astype(dtype)})


def test_integer_products() -> None:
    codes = np.random.default_rng(0)
    weights = {
        "w": codes.integers(-128, 128, (5, 3)).astype("int8"), "k": np.array([7], "uint8"),
        "c": codes.integers(0, 255, (4, 2, 3, 3)).astype("uint8"), "z": np.array(9, "uint8"),
    }  # fmt: skip
    nodes = [make("MatMulInteger", ["a", "w", "z"], ["y"]),
             make("ConvInteger", ["b", "c", "z", "z"], ["v"], pads=[1, 1, 1, 1]),
             make("DynamicQuantizeLinear", ["x"], ["q", "s", "p"])]  # fmt: skip
    inputs: Inputs = {
        "a": (["n", 5], "uint8"),
        "b": ([1, 2, 4, 4], "uint8"),
        "x": (["n", 5], "float32"),
    }
    proto = model(nodes, inputs, ["y", "v", "q", "s", "p"], weights)
    feed = {"a": codes.integers(0, 255, (3, 5)).astype("uint8"), "x": floats(3, 5),
            "b": codes.integers(0, 255, (1, 2, 4, 4)).astype("uint8")}  # fmt: skip
    compare(proto, feed)


def test_large_integer_products_do_not_use_float32() -> None:
    """255 * 127 * 1024 is more than float32 holds exactly."""
    weights = {"w": np.full((1024, 2), 127, "int8")}
    proto = model([make("MatMulInteger", ["a", "w"], ["y"])], {"a": ([1, 1024], "uint8")},
                  weights=weights)  # fmt: skip
    data = np.full((1, 1024), 255, "uint8")
    data[0, 0] = 254
    compare(proto, {"a": data})


def test_indices_from_the_end_and_reversed_sequences() -> None:
    nodes = [make("Gather", ["x", "i"], ["y"], axis=1),
             make("ReverseSequence", ["x", "n"], ["z"], batch_axis=0, time_axis=1),
             make("Slice", ["x", "last", "first", "one", "back"], ["r"]),
             make("TopK", ["x", "two"], ["v", "j"], axis=1)]  # fmt: skip
    weights = {"last": np.array([-1]), "first": np.array([-(2**62)]), "one": np.array([1]),
               "back": np.array([-1]), "two": np.array([2])}  # fmt: skip
    inputs: Inputs = {"x": ([2, 5], "float32"), "i": (["k"], "int64"), "n": ([2], "int64")}
    proto = model(nodes, inputs, ["y", "z", "r", "v", "j"], weights)
    compare(proto, {"x": floats(2, 5), "i": np.array([-1, 0, -5]), "n": np.array([3, 1])})


def test_clips_and_casts() -> None:
    nodes = [make("Clip", ["x", "low"], ["a"]), make("Clip", ["x", "low", "high"], ["b"]),
             make("Cast", ["x"], ["c"], to=TensorProto.BOOL),
             make("Cast", ["x"], ["d"], to=TensorProto.INT32),
             make("Clip", ["x", "high", "low"], ["e"])]  # fmt: skip
    weights = {"low": np.array(-0.5, "float32"), "high": np.array(0.5, "float32")}
    proto = model(nodes, {"x": (["n"], "float32")}, list("abcde"), weights)
    compare(proto, {"x": floats(8) * 3})


def test_sums_of_tensors_are_chains() -> None:
    """Stacked operands would be copied, and no pattern of a chain would match them."""
    ops = ["Sum", "Mean", "Max", "Min"]
    nodes = [make(op, ["x", "b", "z"], [op]) for op in ops] + [make("Mean", ["x"], ["one"])]
    inputs: Inputs = {"x": (["n", 4], "float32"), "z": ([1, "k"], "float32")}
    proto = model(nodes, inputs, [*ops, "one"], {"b": floats(4)})
    mod = compare(proto, {"x": floats(3, 4), "z": floats(1, 4, seed=2)})
    assert not any(name in mod.script() for name in ("R.stack", "R.concat", "R.mean", "R.max("))


def _graph(nodes: list[Any], outputs: list[str], inputs: Sequence[Any] = ()) -> Any:
    infos = [helper.make_empty_tensor_value_info(name) for name in outputs]
    return helper.make_graph(nodes, "body", list(inputs), infos)


#: The inputs of a loop's body: the iteration, whether it goes on, and one value.
STATE = [helper.make_tensor_value_info("k", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("s", TensorProto.FLOAT, [2])]  # fmt: skip


def test_a_conditional_on_data_stays_and_one_on_sizes_goes() -> None:
    double = _graph([make("Add", ["x", "x"], ["r"])], ["r"])
    square = _graph([make("Mul", ["x", "x"], ["q"])], ["q"])
    nodes = [make("If", ["flag"], ["y"], then_branch=double, else_branch=square),
             make("Size", ["x"], ["n"]), make("Less", ["n", "zero"], ["never"]),
             make("If", ["never"], ["z"], then_branch=double, else_branch=square)]  # fmt: skip
    inputs: Inputs = {"x": (["n"], "float32"), "flag": ([], "bool")}
    proto = model(nodes, inputs, ["y", "z"], {"zero": np.array(0)})
    mod = compare(proto, *({"x": floats(3), "flag": np.array(f)} for f in (True, False)))
    assert mod.script().count("if ") == 1


def test_loops_and_sequences_are_unrolled() -> None:
    body = _graph([make("Mul", ["s", "x"], ["t"]), make("Identity", ["go"], ["on"]),
                   make("Cast", ["k"], ["f"], to=1), make("Add", ["t", "f"], ["row"])],
                  ["on", "t", "row"], STATE)  # fmt: skip
    nodes = [make("Loop", ["three", "", "x"], ["last", "rows"], body=body),
             make("SplitToSequence", ["rows", "ones"], ["parts"], axis=0),
             make("SequenceAt", ["parts", "one"], ["part"]),
             make("SequenceInsert", ["parts", "part"], ["more"]),
             make("ConcatFromSequence", ["more"], ["y"], axis=0)]  # fmt: skip
    weights = {"three": np.array(3), "one": np.array(1), "ones": np.array([1, 1, 1])}
    proto = model(nodes, {"x": ([2], "float32")}, ["last", "y"], weights)
    compare(proto, {"x": floats(2)})


@pytest.mark.parametrize("outer", ["node", "weight", "same"])
def test_a_weight_of_a_branch_that_hides_another_value(outer: str) -> None:
    """ONNX Runtime takes the inner one, or the outer one if the condition is constant."""
    own = _graph([make("Add", ["t", "x"], ["r"])], ["r"])
    own.initializer.append(onnx.numpy_helper.from_array(np.array([10], "float32"), "t"))
    other = _graph([make("Mul", ["t", "x"], ["q"])], ["q"])
    nodes = [make("If", ["flag"], ["y"], then_branch=own, else_branch=other, name="here"),
             make("If", ["yes"], ["z"], then_branch=own, else_branch=other)]  # fmt: skip
    nodes = [make("Neg", ["x"], ["t"]), *nodes] if outer == "node" else nodes
    weights: dict[str, Array] = {"yes": np.array(True)}
    number = {"weight": 3, "same": 10}.get(outer)
    weights |= {} if number is None else {"t": np.array([number], "float32")}
    proto = model(nodes, {"x": (["n"], "float32"), "flag": ([], "bool")}, ["y", "z"], weights)
    if outer == "same":
        compare(proto, *({"x": floats(3), "flag": np.array(f)} for f in (True, False)))
        return
    with pytest.raises(FrontendError, match=r"here.*weight 't' of the branch 'body' has the name"):
        from_model(proto, {})


def test_a_graph_is_mapped_over_sequences() -> None:
    """By the function of the schema, which ONNX Runtime does not take without types."""
    body = _graph([make("Add", ["a", "b"], ["s"]), make("Mul", ["s", "x"], ["p"])], ["s", "p"],
                  [helper.make_empty_tensor_value_info(name) for name in "ab"])  # fmt: skip
    nodes = [make("SequenceConstruct", ["x", "z"], ["one"]),
             make("SequenceConstruct", ["z", "z"], ["two"]),
             make("SequenceMap", ["one", "two"], ["sums", "products"], body=body),
             make("SequenceMap", ["one", "x"], ["with", "rest"], body=body),
             *(make("ConcatFromSequence", [name], [f"{name}_y"], axis=0)
               for name in ("sums", "products", "with", "rest"))]  # fmt: skip
    names = ["sums_y", "products_y", "with_y", "rest_y"]
    proto = model(nodes, {"x": (["n"], "float32"), "z": (["n"], "float32")}, names)
    x, z = floats(3), floats(3, seed=1)
    got = outputs(proto, {"x": x, "z": z})
    expected = [[x + z, z + z], [(x + z) * x, (z + z) * x], [x + x, z + x], [(x + x) * x,
                (z + x) * x]]  # fmt: skip
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, np.concatenate(b), atol=1e-6)


def test_sequences_of_other_lengths_are_not_mapped() -> None:
    body = _graph([make("Add", ["a", "b"], ["s"])], ["s"],
                  [helper.make_empty_tensor_value_info(name) for name in "ab"])  # fmt: skip
    nodes = [make("SequenceConstruct", ["x"], ["one"]),
             make("SequenceConstruct", ["x", "x"], ["two"]),
             make("SequenceMap", ["one", "two"], ["y"], body=body, name="here")]  # fmt: skip
    with pytest.raises(FrontendError, match=r"here.*have \[1, 2\] tensors, expected as many in"):
        from_model(model(nodes, {"x": (["n"], "float32")}), {})


def test_a_loop_whose_count_is_data() -> None:
    body = _graph([make("Identity", ["go"], ["on"]), make("Mul", ["s", "s"], ["t"])],
                  ["on", "t"], STATE)  # fmt: skip
    proto = model([make("Loop", ["n", "", "x"], ["y"], body=body, name="until")],
                  {"x": ([2], "float32"), "n": ([], "int64")})  # fmt: skip
    compare(proto, *({"x": floats(2), "n": np.array(n)} for n in (0, 1, 3)))


def test_functions_of_the_model_are_inlined() -> None:
    constant = make("Constant", [], ["a"])
    kind = onnx.AttributeProto.FLOAT
    reference = onnx.AttributeProto(name="value_float", ref_attr_name="alpha", type=kind)
    constant.attribute.append(reference)
    body = [constant, make("Mul", ["v", "a"], ["w"])]
    function = helper.make_function("here", "Scaled", ["v"], ["w"], body,
                                    [helper.make_opsetid("", 17)], ["alpha"])  # fmt: skip
    node = make("Scaled", ["x"], ["y"], domain="here", alpha=2.5)
    proto = model([node], {"x": (["n"], "float32")}, functions=[function])
    compare(proto, {"x": floats(3)})


def test_operators_of_the_runtime() -> None:
    nodes = [
        make("FusedMatMul", ["x", "x"], ["a"], transB=1, alpha=0.5, domain="com.microsoft"),
        make("BiasGelu", ["x", "bias"], ["b"], domain="com.microsoft"),
        make("SkipLayerNormalization", ["c", "c", "bias", "bias"], ["d", "", "", "e"],
             domain="com.microsoft", epsilon=1e-5),
        make("FusedConv", ["i", "k"], ["f"], domain="com.microsoft", activation="LeakyRelu",
             activation_params=[0.1]),
    ]  # fmt: skip
    weights: dict[str, Array] = {"bias": floats(4), "k": floats(2, 2, 2, 2)}
    inputs: Inputs = {"x": (["n", 4], "float32"), "c": ([1, "n", 4], "float32"),
              "i": ([1, 2, 3, 3], "float32")}  # fmt: skip
    proto = model(nodes, inputs, list("abdef"), weights)
    compare(proto, {"x": floats(3, 4), "c": floats(1, 3, 4), "i": floats(1, 2, 3, 3)})
