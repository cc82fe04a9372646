"""Elements of parameters that index an axis are inside of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tvm.script import ir as I
from tvm.script import relax as R

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.jit.arguments.acceptor import BoundaryError
from opinfo.jit.arguments.boundary import Boundary
from opinfo.jit.arguments.index_ranges import IndexRange
from opinfo.jit.arguments.signature import Signature
from tests.onnx_import.against_runtime import floats, model

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
TABLE = floats(100, 4)


def gathered(op: str, dtype: str = "int64", *before: Any) -> Any:
    """Return a module that takes rows of a table, or elements, at an input."""
    shape = ["n", 4] if op == "GatherElements" else [2, "n"]
    node = helper.make_node(op, ["w", "j" if before else "i"], ["y"], axis=0)
    return from_model(model([*before, node], {"i": (shape, dtype)}, weights={"w": TABLE}), {})


@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_an_index_outside_of_a_table_is_refused(op: str) -> None:
    compiled = opinfo.compile(gathered(op), [])
    shape = (3, 4) if op == "GatherElements" else (2, 3)
    for k in (-100, -1, 0, 99):
        expected = TABLE[k][None] if op == "GatherElements" else TABLE[k][None, None]
        got = np.asarray(compiled.run(np.full(shape, k)))
        np.testing.assert_array_equal(got, np.broadcast_to(expected, got.shape))
    assert np.asarray(compiled.run(np.zeros((shape[0], 0) if op == "Gather" else (0, 4), "int64"))
                      ).size == 0  # fmt: skip
    for k in (-101, 100, 2_000_000_000):
        ids = np.zeros(shape, "int64")
        ids[1, 2] = k
        message = f"^main: argument i has the element {k}; as an index, it must be -100 to 99$"
        with pytest.raises(BoundaryError, match=message):
            compiled.run(ids)


def test_a_session_refuses_it_too(tmp_path: Path) -> None:
    """Its signature is that of the lowered function, in which a gather is a call of a PrimFunc."""
    compiled = opinfo.compile(gathered("Gather"), [], shapes="generic")
    compiled.export(tmp_path / "table.so")
    for served in (compiled, tmp_path / "table.so"):
        with opinfo.Session(served) as session:
            for k in (-100, 99):
                got = session(np.full((2, 3), k)).numpy()
                np.testing.assert_array_equal(got, np.broadcast_to(TABLE[k], (2, 3, 4)))
            for k in (-101, 100, 2_000_000_000):
                with pytest.raises(BoundaryError, match=f"argument i has the element {k}; as an"):
                    session(np.full((2, 3), k))


def test_elements_are_followed_through_reshapes_and_casts() -> None:
    nodes = [helper.make_node("Transpose", ["i"], ["t"], perm=[1, 0]),
             helper.make_node("Cast", ["t"], ["j"], to=7)]  # fmt: skip
    signature = Signature.of(gathered("Gather", "int32", *nodes)["main"])
    assert signature.indices == (IndexRange(0, -100, 99),)
    assert Signature.from_json(signature.to_json()) == signature


def test_arithmetic_on_elements_is_not_followed() -> None:
    nodes = [helper.make_node("Mul", ["i", "i"], ["j"])]
    assert Signature.of(gathered("Gather", "int64", *nodes)["main"]).indices == ()


def test_the_smaller_of_two_tables_counts() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(
            i: R.Tensor(("n",), "int64"), a: R.Tensor((9, 4)), b: R.Tensor((5, 4)),
            k: R.Tensor(("n",), "int64"), c: R.Tensor(("m", 4)),
        ) -> R.Tensor(("n", 4)):  # fmt: skip
            with R.dataflow():
                x = R.add(R.take(a, i, axis=0), R.take(b, i, axis=0))
                y = R.add(R.take(a, k, axis=0, mode="clip"), R.take(c, k, axis=0))
                z = R.add(x, y)
                R.output(z)
            return z

    signature = Signature.of(Module["main"])
    assert signature.indices == (IndexRange(0, 0, 4), IndexRange(3, 0, ("-", "m", 1)))
    assert Signature.from_json(signature.to_json()) == signature


def nd(op: str, reduction: str = "none") -> Any:
    """Return a module that reads or writes points of a table at an input."""
    inputs: dict[str, Any] = {"x": (["a", 4], "float32"), "i": (["n", 2], "int64")}
    if op == "GatherND":
        node = helper.make_node(op, ["x", "i"], ["y"])
    else:
        node = helper.make_node(op, ["x", "i", "u"], ["y"], reduction=reduction)
        inputs["u"] = (["n"], "float32")
    return from_model(model([node], inputs), {})


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_points_outside_of_a_tensor_are_refused(reduction: str) -> None:
    gather = opinfo.compile(nd("GatherND"), [])
    scatter = opinfo.compile(nd("ScatterND", reduction), [])
    x = floats(3, 4)
    fit = np.array([[0, 0], [-1, 3], [2, -4]])
    np.testing.assert_array_equal(gather.run(x, fit), x[tuple(fit.T)])
    values = floats(3)
    expected = x.copy()
    for at, value in zip(map(tuple, fit), values, strict=True):
        expected[at] = value + (expected[at] if reduction == "add" else 0)
    np.testing.assert_array_equal(scatter.run(x, fit, values), expected)
    for at, got, axis in (((0, 4), 4, 4), ((3, 0), 3, 3), ((-4, 0), -4, 3), ((0, -5), -5, 4)):
        points = fit.copy()
        points[1] = at
        message = (
            rf"argument i has the element {got}; as an index, it must be -{axis} to {axis - 1}$"
        )
        with pytest.raises(BoundaryError, match=message):
            gather.run(x, points)
        with pytest.raises(BoundaryError, match=message):
            scatter.run(x, points, values)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_scattered_elements_outside_are_refused(reduction: str) -> None:
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=1, reduction=reduction)
    inputs: Any = {"x": (["a", "b"], "float32"), "i": (["a", "k"], "int64"),
                   "u": (["a", "k"], "float32")}  # fmt: skip
    compiled = opinfo.compile(from_model(model([node], inputs), {}), [])
    x, updates, index = floats(2, 3), floats(2, 2), np.array([[0, -1], [-3, 2]])
    expected = x.copy()
    join: Any = {"none": lambda a, b: b, "add": np.add, "max": np.maximum}[reduction]
    for i in range(2):
        for j in range(2):
            expected[i, index[i, j]] = join(expected[i, index[i, j]], updates[i, j])
    np.testing.assert_array_equal(compiled.run(x, index, updates), expected)
    for k in (3, -4):
        with pytest.raises(BoundaryError, match=f"has the element {k}; as an index"):
            compiled.run(x, np.full((2, 2), k), updates)


def test_elements_of_an_empty_axis() -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    mod = from_model(model([node], {"x": (["a", 4], "float32"), "i": (["n"], "int64")}), {})
    compiled = opinfo.compile(mod, [])
    assert compiled.run(floats(0, 4), np.zeros(0, "int64")).shape == (0, 4)
    with pytest.raises(BoundaryError, match="has the element 0; it indexes an empty axis"):
        compiled.run(floats(0, 4), np.zeros(1, "int64"))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_fewer_elements_than_the_data_has_are_scattered_in_place(axis: int) -> None:
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=axis)
    inputs = {"x": ([3, 3, 3], "float32"), "i": ([2, 2, 2], "int64"), "u": ([2, 2, 2], "float32")}
    compiled = opinfo.compile(from_model(model([node], inputs), {}), [])
    x, updates = floats(3, 3, 3), floats(2, 2, 2)
    index = np.stack([np.full((2, 2), 2), np.full((2, 2), -3)], axis)
    expected = x.copy()
    for at in np.ndindex(2, 2, 2):
        expected[tuple(index[at] if k == axis else at[k] for k in range(3))] = updates[at]
    np.testing.assert_array_equal(compiled.run(x, index, updates), expected)


def test_arrays_are_checked_before_they_are_copied_to_a_gpu() -> None:
    check = Boundary(Signature.of(nd("GatherND")["main"]))
    x = floats(3, 4)
    check.check_indices([x, np.array([[2, -4]])])
    with pytest.raises(BoundaryError, match="has the element 3; as an index, it must be -3 to 2"):
        check.check_indices([x, np.array([[3, 0]])])
