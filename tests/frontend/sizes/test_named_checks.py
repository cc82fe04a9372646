"""Checks in branches and of sizes that are data say which node failed, and what it got."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tvm import relax, tirx

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from tests.torch_import.test_torch_programs import imported

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

FLOAT = onnx.TensorProto.FLOAT


def _typed(name: str, *dims: str | int, dtype: int = FLOAT) -> Any:
    return onnx.helper.make_tensor_value_info(name, dtype, dims)


def _branch(op: str, name: str, output: str) -> Any:
    node = onnx.helper.make_node(op, ["x", "w"], [output], name=name)
    return onnx.helper.make_graph([node], name, [], [_typed(output, "a", "b")])


@pytest.fixture
def branches(tmp_path: Path) -> Path:
    """A model that multiplies or adds two matrices of any sizes."""
    node = onnx.helper.make_node(
        "If", ["c"], ["y"], name="choice", then_branch=_branch("MatMul", "product", "o"),
        else_branch=_branch("Add", "sum", "p"),
    )  # fmt: skip
    inputs = [
        _typed("c", dtype=onnx.TensorProto.BOOL),
        _typed("x", "n", "m"),
        _typed("w", "k", "l"),
    ]
    graph = onnx.helper.make_graph([node], "g", inputs, [_typed("y", "u", "v")])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8),
              tmp_path / "branches.onnx")  # fmt: skip
    return tmp_path / "branches.onnx"


def test_a_check_in_a_branch_names_its_node_and_both_sizes(branches: Path) -> None:
    compiled = opinfo.compile(str(branches), [])
    wide, tall = np.ones((2, 3), "float32"), np.ones((3, 2), "float32")
    np.testing.assert_array_equal(compiled.run(np.array(True), wide, tall), wide @ tall)
    np.testing.assert_array_equal(compiled.run(np.array(False), wide, wide), 2 * wide)
    for chosen, other, name, sizes in ((True, wide, "product", "got 3, expected 2"),
                                       (False, tall, "sum", "got 3, expected 2")):  # fmt: skip
        with pytest.raises(ValueError, match=f"^main: {name}: [^\n]*{sizes}$"):
            compiled.run(np.array(chosen), wide, other)


def test_a_size_that_is_data_is_named() -> None:
    def shorter(x: Any) -> Any:
        count = x.item()
        torch._check(count >= 2)
        return (torch.ones(count - 2).cumsum(0),)

    compiled = opinfo.compile(imported(shorter, (torch.tensor(5),)), [])
    np.testing.assert_array_equal(compiled.run(np.array(4))[0], [1, 2])
    with pytest.raises(
        ValueError, match=r"^main: full: a size that is data: got -1, expected 0 or"
    ):
        compiled.run(np.array(-1))
    with pytest.raises(ValueError, match=r"^main: full: [^\n]*got -1, expected at least 0$"):
        compiled.run(np.array(1))


def _nonzero(builder: Any, x: Any, size: Any) -> Any:
    return builder.match_cast(
        builder.emit(relax.op.nonzero(x)), relax.TensorType((1, size), "int64")
    )


def test_a_size_that_a_condition_chooses_is_no_check() -> None:
    """The larger one of a size and 3, as which no size fails."""
    xs = [relax.Var(name, relax.TensorType((6,), "bool")) for name in "xy"]
    k, m = (tirx.Var(name, "int64") for name in "km")
    larger = tirx.Select(k > 3, k, tirx.IntImm("int64", 3))
    builder = relax.BlockBuilder()
    with builder.function("main", xs):
        _nonzero(builder, xs[0], k)
        found = builder.emit(relax.op.negative(_nonzero(builder, xs[1], m)))
        cast = builder.match_cast(found, relax.TensorType((1, larger), "int64"))
        builder.emit_func_output(cast)
    compiled = opinfo.compile(builder.get(), [])
    few, three, five = (np.arange(6) < count for count in (2, 3, 5))
    for x, y, count in ((few, three, 3), (five, five, 5)):
        np.testing.assert_array_equal(compiled.run(x, y), [-np.arange(count)])
    with pytest.raises(ValueError, match=r"^main: [^\n]*expected 5$"):
        compiled.run(five, three)


def test_a_condition_that_may_not_hold_is_checked_where_an_operator_requires_it() -> None:
    n, m = (tirx.Var(name, "int64") for name in "nm")
    x = relax.Var("x", relax.TensorType((1, n), "float32"))
    y = relax.Var("y", relax.TensorType((m, 1), "float32"))
    chosen = tirx.Select(tirx.EQ(n, m), n, tirx.IntImm("int64", 7))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        builder.match_cast(x, relax.TensorType((1, chosen), "float32"))
        builder.emit_func_output(builder.emit(relax.op.matmul(x, y)))
    compiled = opinfo.compile(builder.get(), [])
    ones = np.ones((1, 7), "float32")
    np.testing.assert_array_equal(compiled.run(ones, ones.T), [[7]])
    with pytest.raises(ValueError, match="only defined for"):
        compiled.run(ones, ones.T[:3])


def test_a_size_of_a_parameter_that_a_condition_chooses_is_checked() -> None:
    n, m = (tirx.Var(name, "int64") for name in "nm")
    x = relax.Var("x", relax.TensorType((m,), "float32"))
    y = relax.Var("y", relax.TensorType((n,), "float32"))
    larger = tirx.Select(n > 4, n, tirx.IntImm("int64", 4))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        builder.emit_func_output(builder.match_cast(x, relax.TensorType((larger,), "float32")))
    compiled = opinfo.compile(builder.get(), [])
    for count, other in ((4, 2), (4, 4), (6, 6)):
        result = compiled.run(np.ones(count, "float32"), np.ones(other, "float32"))
        np.testing.assert_array_equal(result, np.ones(count))
    for count, other in ((5, 2), (4, 6), (3, 3)):
        condition = r"\(\(n > 4\) and \(m == n\)\) or \(\(n <= 4\) and \(m == 4\)\)"
        message = (
            rf"^main: got m = {count}, n = {other}; [^\n]* only defined for {condition}[^\n]*$"
        )
        with pytest.raises(ValueError, match=message):
            compiled.run(np.ones(count, "float32"), np.ones(other, "float32"))
