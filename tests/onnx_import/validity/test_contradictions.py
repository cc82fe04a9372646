"""Models that contradict themselves, or ONNX, are refused by node; those that agree are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import helper, numpy_helper

from opinfo import frontend
from opinfo.frontend.formats.from_onnx import from_model

from ..against_runtime import compare, floats, model

X = {"x": ((2, 3), "float32")}


def _node(op: str, *inputs: str, out: str = "y", **attrs: Any) -> Any:
    return helper.make_node(op, list(inputs), [out], name=f"the {op}", **attrs)


def _refusal(proto: Any) -> str:
    with pytest.raises(frontend.FrontendError) as caught:
        from_model(proto, {})
    text = str(caught.value)
    assert text.isprintable() and len(text) <= 2000
    return text


@pytest.mark.parametrize(
    ("op", "name", "value", "reason"),
    [
        ("Conv", "strides", "1", "has type STRING, expected INTS"),
        ("Conv", "strides", [1.0, 1.0], "has type FLOATS, expected INTS"),
        ("LeakyRelu", "alpha", 1, "has type INT, expected FLOAT"),
        ("Elu", "beta", 1.0, "unknown attribute 'beta'; the attributes of Elu are: alpha"),
        ("Softmax", "axis", 2**62, "axis is 4611686018427387904, expected -4 to 3"),
        ("Softmax", "axis", 4, "axis is 4, expected -4 to 3"),
        ("Flatten", "axis", 5, "axis is 5, expected -4 to 4"),
        ("AveragePool", "kernel_shape", [2**61, 1], "times a size of 4 overflows"),
    ],
)
def test_attributes_that_no_schema_has(op: str, name: str, value: Any, reason: str) -> None:
    node = _node(op, *["x"] * (2 if op == "Conv" else 1), **{name: value})
    text = _refusal(model([node], {"x": ((2, 2, 4, 4), "float32")}))
    assert f"node 'the {op}' ({op})" in text and reason in text


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (_node("Add", "x", "x", "x"), "it has 3 inputs, expected 2"),
        (_node("Add", "x", ""), "its input 'B' is missing"),
        (helper.make_node("Relu", ["x"], ["y", "z"], "n"), "it has 2 outputs, expected 1"),
        (_node("Neg", "x", out="x"), "its output 'x' is defined twice"),
    ],
)
def test_operands_that_no_schema_has(node: Any, reason: str) -> None:
    assert reason in _refusal(model([node], X, node.output[:1]))


def _twice_weight(proto: Any) -> None:
    for number in (1, 2):
        array = np.full((2, 3), number, "float32")
        proto.graph.initializer.append(numpy_helper.from_array(array, "w"))


def _twice_input(proto: Any) -> None:
    proto.graph.input.append(proto.graph.input[0])


def _twice_attribute(proto: Any) -> None:
    node = proto.graph.node[0]
    node.CopyFrom(_node("Softmax", "x", axis=0))
    node.attribute.append(helper.make_attribute("axis", 1))


def _twice_node(proto: Any) -> None:
    proto.graph.node.append(_node("Exp", "x"))


def _twice_function(proto: Any) -> None:
    opsets = [helper.make_opsetid("", 17)]
    for op in ("Neg", "Exp"):
        proto.functions.append(helper.make_function("here", "f", ["x"], ["y"],
                               [_node(op, "x")], opsets))  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_twice_weight, "the weight 'w' is defined twice"),
        (_twice_input, "the input 'x' is defined twice"),
        (_twice_attribute, "node 'the Softmax' (Softmax): the attribute 'axis' is defined twice"),
        (_twice_node, "node 'the Exp' (Exp): its output 'y' is defined twice"),
        (_twice_function, "the function 'here.f' is defined twice"),
    ],
)
def test_names_that_are_defined_twice(change: Callable[[Any], None], reason: str) -> None:
    proto = model([_node("Relu", "x")], X)
    from_model(proto, {})
    change(proto)
    assert reason in _refusal(proto)


def test_equal_repeats_are_not_contradictions() -> None:
    weight = numpy_helper.from_array(floats(2, 3), "w")
    proto = model([_node("Add", "x", "w")], X)
    proto.graph.initializer.extend([weight, weight])
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 17))
    from_model(proto, {})
    proto.opset_import[-1].version = 16
    assert "the operator set of domain '' is defined twice" in _refusal(proto)


@pytest.mark.parametrize("opset", [0, -1, 10**9, 2**62])
def test_operator_sets_that_do_not_exist(opset: int) -> None:
    assert f"operator set is version {opset}" in _refusal(model([_node("Relu", "x")], X, (), None,
                                                                opset))  # fmt: skip


@pytest.mark.parametrize(
    ("op", "sizes", "reason"),
    [
        ("Tile", (2**40, 3), "node 'the Tile' (Tile): 1099511627776 times a size of"),
        ("Relu", (2**32, 2**32), "input 'x': a tensor of 4294967296 x 4294967296"),
        ("Concat", (2**63 - 1,), "input 'x': a tensor of 9223372036854775807"),
    ],
)
def test_sizes_that_overflow(op: str, sizes: tuple[int, ...], reason: str) -> None:
    """TVM's arithmetic wraps: a tile of 2**80 rows had none."""
    nodes = {
        "Tile": [_node("Shape", "x", out="s"), _node("Tile", "x", "s")],
        "Relu": [_node("Relu", "x")],
        "Concat": [_node("Concat", "x", "x", axis=0)],
    }[op]
    assert reason in _refusal(model(nodes, {"x": (sizes, "float32")}))


def _function(name: str, *nodes: Any, opset: int = 17) -> Any:
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("here", 1)]
    return helper.make_function("here", name, ["x"], ["y"], list(nodes), opsets)


def _call(name: str, source: str = "x", out: str = "y") -> Any:
    return helper.make_node(name, [source], [out], f"call {name}", domain="here")


@pytest.mark.parametrize(
    ("functions", "reason"),
    [
        ([_function("f", _call("f"))], "node 'call f' (f): the function f calls itself"),
        ([_function("f", _call("g")), _function("g", _call("f"))], "the function f calls itself"),
        ([*(_function("f" * k, _call("f" * (k + 1))) for k in range(1, 60)),
          _function("f" * 60, _node("Neg", "x"))], "more than 50 functions"),
    ],
)  # fmt: skip
def test_functions_that_do_not_end(functions: list[Any], reason: str) -> None:
    assert reason in _refusal(model([_call("f")], X, functions=functions))


def test_a_function_of_another_operator_set() -> None:
    """A softmax of version 11 is over all axes from 1, one of version 17 over the last."""
    inputs = {"x": ((2, 3, 4), "float32")}
    other = _function("f", _node("Softmax", "x"), opset=11)
    assert ("its operator Softmax differs between the operator sets 11 of the function and 17"
            in _refusal(model([_call("f")], inputs, functions=[other])))  # fmt: skip
    same = _function("f", _node("Softmax", "x"), opset=13)
    compare(model([_call("f")], inputs, functions=[same]), {"x": floats(2, 3, 4)})


@pytest.mark.parametrize(
    "dims", ["n-n", "3", "n//0", "(" * 5000 + "n", "class", "a\nb", "1 +", "ü"]
)
def test_a_dimension_is_a_size_or_a_name(dims: str) -> None:
    proto = model([_node("Relu", "x")], {"x": ((dims, "n"), "float32")})
    first, second = from_model(proto, {})["main"].params[0].ty.shape.values
    assert isinstance(first, tvm.tirx.Var) and not first.same_as(second)
    assert first.name.isidentifier() and second.name == "n"


def test_unnamed_dimensions_have_names_of_their_own() -> None:
    """The first dimension of `x` would be called like the one of `z`."""
    inputs = {"x": ((None, 3), "float32"), "z": (("x_0", 3), "float32")}
    mod = from_model(model([_node("Concat", "x", "z", axis=0)], inputs), {})
    first, second = (p.ty.shape.values[0] for p in mod["main"].params)
    assert not first.same_as(second) and first.name != second.name == "x_0"


def test_a_requested_size_holds_in_sums() -> None:
    inputs = {"x": (("n", 3), "float32"), "z": (("n + 1", 3), "float32")}
    proto = model([_node("Concat", "x", "z", axis=0)], inputs)
    shape = from_model(proto, {"x": (4, "?")})["main"].params[1].ty.shape
    assert [int(d) for d in shape.values] == [5, 3]


def test_a_large_result_is_not_folded() -> None:
    """A file of a few hundred bytes would become a module of 64 MiB."""
    weights = {c: np.ones(16, "float32") for c in "abcdef"}
    proto = model([_node("Einsum", *weights, equation="a,b,c,d,e,f->abcdef")], {}, weights=weights)
    assert "einsum" in from_model(proto, {})["main"].script()


def test_a_name_is_shown_shortened_in_one_line() -> None:
    node = helper.make_node("Nope", ["x"], ["y"], "a\x1b[31m\n" + "y" * 10**6)
    text = _refusal(model([node], X))
    assert "node 'a?[31m?yyy" in text and len(text) < 500


def test_a_process_that_is_stopped_says_where(tmp_path: Path) -> None:
    path = tmp_path / "slow.onnx"
    rng = np.random.default_rng(0)
    boxes = rng.random((1, 20000, 4), "float32")
    weights = {"b": boxes, "s": rng.random((1, 1, 20000), "float32"), "m": np.array([20000]),
               "t": np.array([1.0], "float32")}  # fmt: skip
    proto = model([_node("NonMaxSuppression", "b", "s", "m", "t")], {}, weights=weights)
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(frontend.FrontendError, match=r"stopped at node 'the NonMax.*\(NonMaxSupp"):
        frontend.read(path, seconds=2)
