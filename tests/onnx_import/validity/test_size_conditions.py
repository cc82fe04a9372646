"""Sizes that contradict an operator are refused when the model is called, not read past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.jit.arguments.acceptor import BoundaryError
from opinfo.jit.arguments.boundary import Boundary
from opinfo.jit.arguments.signature import Signature
from opinfo.testing.unoptimised import unoptimised

from ..against_runtime import compare, model

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

Shape = tuple[int | str, ...]
INTEGERS = {"target": [3, 8], "rest": [-1, 8], "parts": [1, 3], "index": [3], "pads": [2, 0, 2, 0]}
ARRAYS = {name: np.array(value, "int64") for name, value in INTEGERS.items()} | {
    "kernel": np.ones((2, 4, 3, 3), "float32")
}


def check(
    op: str, inputs: Sequence[Shape], constants: Sequence[str], good: Sequence[tuple[int, ...]],
    bad: Sequence[tuple[int, ...]], condition: str, outputs: int = 1, **attrs: Any,
) -> None:  # fmt: skip
    """Run sizes that agree as ONNX Runtime does, and refuse others by the boundary and the code."""
    names = [f"x{k}" for k in range(len(inputs))]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, [*names, *constants], results, **attrs)
    given = {n: (s, "float32") for n, s in zip(names, inputs, strict=True)}
    proto = model([node], given, results, {c: ARRAYS[c] for c in constants})
    rng = np.random.default_rng(0)
    arrays = [rng.random(s).astype("float32") for s in good]
    mod = compare(proto, dict(zip(names, arrays, strict=True)))
    boundary = Boundary(Signature.of(mod["main"]))
    boundary(arrays)
    wrong = [rng.random(s).astype("float32") for s in bad]
    with pytest.raises(BoundaryError) as caught:
        boundary(wrong)
    assert f"only defined for {condition}:" in str(caught.value)
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    with pytest.raises(RuntimeError, match="match_cast"):
        machine["main"](*map(tvm.runtime.tensor, wrong))


def test_a_product_of_inner_sizes_that_differ() -> None:
    check("MatMul", [("a", "n"), ("m", "b")], [], [(2, 3), (3, 4)], [(2, 300), (3, 4)], "n == m")


def test_an_einsum_of_a_letter_with_two_sizes() -> None:
    check("Einsum", [("a", "n"), ("m", "b")], [], [(2, 3), (3, 4)], [(2, 3), (4, 4)], "n == m",
          equation="ij,jk->ik")  # fmt: skip


def test_a_convolution_of_other_channels_than_its_kernel() -> None:
    check("Conv", [(1, "c", "h", "w")], ["kernel"], [(1, 4, 8, 8)], [(1, 5, 8, 8)], "c == 4")


def test_a_window_that_is_larger_than_the_image() -> None:
    check("MaxPool", [(1, 1, "h", "w")], [], [(1, 1, 5, 6)], [(1, 1, 1, 6)], "2 <= h",
          kernel_shape=[3, 3])  # fmt: skip


def test_a_reshape_to_another_number_of_elements() -> None:
    check("Reshape", [("n", 4)], ["target"], [(6, 4)], [(5, 4)], "(n * 4) == 24")


def test_a_reshape_whose_rest_is_not_whole() -> None:
    check("Reshape", [("n", 4)], ["rest"], [(6, 4)], [(5, 4)], "(n * 4) == ((n // 2) * 8)")


def test_a_split_into_parts_of_another_sum() -> None:
    check("Split", [("n", 3)], ["parts"], [(4, 3)], [(5, 3)], "n == 4", outputs=2, axis=0)


def test_a_split_into_equal_parts_of_an_odd_size() -> None:
    check("Split", [("n", 3)], [], [(4, 3)], [(5, 3)], "(n % 2) == 0", outputs=2, axis=0)


def test_a_constant_index_outside_a_size() -> None:
    check("Gather", [("n", 3)], ["index"], [(4, 3)], [(3, 3)], "3 < n", axis=0)


def test_a_reflection_of_more_rows_than_there_are() -> None:
    check("Pad", [("n", 3)], ["pads"], [(3, 3)], [(2, 3)], "3 <= n", mode="reflect")


def test_blocks_of_depth_that_are_not_whole() -> None:
    check("DepthToSpace", [(1, "c", 2, 2)], [], [(1, 8, 2, 2)], [(1, 9, 2, 2)],
          "(c * 4) == ((c // 4) * 16)", blocksize=2)  # fmt: skip


@pytest.mark.parametrize(("op", "expected"), [("Div", [5, -2, 1]), ("Mod", [0, -1, 2])])
def test_a_number_of_sizes_that_is_divided_by_zero(op: str, expected: list[int]) -> None:
    nodes = [helper.make_node("Shape", ["x"], ["n"]), helper.make_node("Sub", ["n", "k"], ["d"]),
             helper.make_node(op, ["c", "d"], ["y"])]  # fmt: skip
    weights = {"k": np.array([7], "int64"), "c": np.array([5], "int64")}
    mod = from_model(model(nodes, {"x": (("n",), "float32")}, weights=weights), {})
    boundary = Boundary(Signature.of(mod["main"]))
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    for size, number in zip((8, 5, 10), expected, strict=True):
        x = np.zeros(size, "float32")
        boundary([x])
        assert machine["main"](tvm.runtime.tensor(x)).numpy().tolist() == [number]
    x = np.zeros(7, "float32")
    with pytest.raises(BoundaryError, match="only defined for n != 7:"):
        boundary([x])
    with pytest.raises(RuntimeError, match="match_cast"):  # ended the process
        machine["main"](tvm.runtime.tensor(x))


@pytest.mark.parametrize("op", ["ConstantOfShape", "Expand", "Tile", "Pad"])
def test_a_size_that_is_computed_and_negative(op: str) -> None:
    """Its memory could not be allocated."""
    nodes = [helper.make_node("Shape", ["x"], ["n"]), helper.make_node("Sub", ["n", "k"], ["d"])]
    operands = {"ConstantOfShape": ["d"], "Pad": ["x", "p"]}.get(op, ["w", "d"])
    if op == "Pad":
        nodes += [helper.make_node("Mul", ["d", "two"], ["e"]),
                  helper.make_node("Concat", ["e", "zero"], ["p"], axis=0)]  # fmt: skip
    nodes.append(helper.make_node(op, operands, ["y"]))
    weights = {"k": np.array([7], "int64"), "two": np.array([2], "int64"),
               "zero": np.array([0], "int64"), "w": np.ones(1, "float32")}  # fmt: skip
    proto = model(nodes, {"x": (("n",), "float32")}, weights=weights)
    mod = compare(proto, *({"x": np.ones(size, "float32")} for size in (7, 9)))
    with pytest.raises(BoundaryError, match="only defined for "):
        Boundary(Signature.of(mod["main"]))([np.ones(3, "float32")])


def test_sizes_that_always_agree_are_not_checked() -> None:
    node = helper.make_node("Reshape", ["x", "rest"], ["y"])
    rest = {"rest": np.array([-1, 4], "int64")}
    mod = from_model(model([node], {"x": (("n", 2, 2), "float32")}, weights=rest), {})
    assert Signature.of(mod["main"]).conditions == ()


def test_casts_of_sizes_that_are_known_are_not_conditions() -> None:
    node = helper.make_node("Concat", ["x", "z"], ["y"], axis=0)
    given = {"x": (("n", 3), "float32"), "z": ((2, 3), "float32")}
    mod = from_model(model([node], given), {})
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([tvm.tirx.Var("n", "int64"), 3], "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.match_cast(x, x.ty))
    assert Signature.of(mod["main"]).conditions == ()
    assert Signature.of(builder.get()["main"]).conditions == ()


def test_the_conditions_of_a_signature_are_read_back() -> None:
    node = helper.make_node("MatMul", ["x", "z"], ["y"])
    mod = from_model(model([node], {"x": (("a", "n"), "float32"), "z": (("m", "b"), "float32")}),
                     {})  # fmt: skip
    signature = Signature.of(mod["main"])
    assert signature.conditions == (("==", "n", "m"),)
    assert Signature.from_json(signature.to_json()) == signature
