"""Indices that a model computes are inside, or the call fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import opinfo
from opinfo.analysis.support.origin import span, with_span
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.jit.arguments.index_checks import checked_indices

from .computed_indices import TABLE, numbers

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")


@I.ir_module
class Computed:
    @R.function
    def main(
        t: R.Tensor((5, 4), "float32"), i: R.Tensor(("n",), "int64"), s: R.Tensor((), "int64"),
        c: R.Tensor((2, 2), "int64"),
    ) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor, R.Tensor, R.Tensor):  # fmt: skip
        with R.dataflow():
            j = R.add(i, i)
            rows = R.take(t, j, axis=0)
            row = R.take(t, R.multiply(s, s), axis=0)
            small = R.astype(R.add(i, i), "int32")
            again = R.take(t, small, axis=0)
            k = R.subtract(c, R.const(1, "int64"))
            points = R.gather_nd(t, k)
            written = R.scatter_nd(t, k, points, reduction="add")
            R.output(rows, row, again, points, written)
        return rows, row, again, points, written


@pytest.fixture(scope="module")
def compiled() -> opinfo.Compiled:
    return opinfo.compile(Computed, [])


def test_computed_indices_inside(compiled: opinfo.Compiled) -> None:
    i, s, c = numbers([0, 2, 1], 2, [[1, 1], [5, 4]])
    rows, row, again, points, written = compiled.run(TABLE, i, s, c)
    np.testing.assert_array_equal(rows, TABLE[i + i])
    np.testing.assert_array_equal(row, TABLE[4])
    np.testing.assert_array_equal(again, TABLE[i + i])
    np.testing.assert_array_equal(points, [TABLE[0, 0], TABLE[4, 3]])
    expected = TABLE.copy()
    expected[0, 0] *= 2
    expected[4, 3] *= 2
    np.testing.assert_array_equal(written, expected)
    assert compiled.run(TABLE, *numbers([], 0, c))[0].shape == (0, 4)


@pytest.mark.parametrize(
    ("op", "i", "s", "c"),
    [("take", [0, 3], 0, [[1, 1]] * 2), ("take", [-1], 0, [[1, 1]] * 2),
     ("take", [1 << 31], 0, [[1, 1]] * 2), ("take", [0], 3, [[1, 1]] * 2),
     ("gather_nd", [0], 0, [[1, 1], [1, 5]]), ("gather_nd", [0], 0, [[6, 1], [1, 1]]),
     ("gather_nd", [0], 0, [[0, 1], [1, 1]])],
)  # fmt: skip
def test_computed_indices_outside(
    compiled: opinfo.Compiled, op: str, i: Any, s: Any, c: Any
) -> None:
    with pytest.raises(ValueError, match=f"{op} at an element that is outside of its axis"):
        compiled.run(TABLE, *numbers(i, s, c))


def test_a_read_in_a_branch_is_checked_when_it_is_taken() -> None:
    @I.ir_module
    class Branch:
        @R.function
        def main(
            t: R.Tensor((5, 4), "float32"), i: R.Tensor((2,), "int64"), c: R.Tensor((), "bool")
        ) -> R.Tensor((2, 4), "float32"):  # fmt: skip
            if c:
                y = R.take(t, i, axis=0)
            else:
                y = R.ones((2, 4), "float32")
            return y

    compiled = opinfo.compile(Branch, [])
    far = np.array([1, 9])
    np.testing.assert_array_equal(compiled.run(TABLE, far, np.array(False)), np.ones((2, 4)))
    with pytest.raises(ValueError, match="take at an element"):
        compiled.run(TABLE, far, np.array(True))


@I.ir_module
class Positions:
    @R.function
    def main(
        t: R.Tensor(("n", 4), "float32"), i: R.Tensor(("m",), "int64"), s: R.Tensor((), "int64"),
        x: R.Tensor((2, 4), "float32"),
    ) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor):  # fmt: skip
        with R.dataflow():
            rows = R.take(t, R.add(i, i), axis=0)
            left = R.floor_mod(i, R.maximum(s, R.const(1, "int64")))
            again = R.take(t, left, axis=0)
            columns = R.take(t, R.argmax(x, axis=1), axis=1)
            R.output(rows, again, columns)
        return rows, again, columns


@pytest.fixture(scope="module")
def positions() -> opinfo.Compiled:
    return opinfo.compile(Positions, [])


def test_computed_indices_of_symbolic_axes(positions: opinfo.Compiled) -> None:
    x = np.array([[0, 1, 5, 2], [4, 3, 2, 1]], "float32")
    for table in (TABLE, TABLE[:3]):
        rows, again, columns = positions.run(table, *numbers([0, 1], 3), x)
        np.testing.assert_array_equal(rows, table[[0, 2]])
        np.testing.assert_array_equal(again, table[:2])
        np.testing.assert_array_equal(columns, table[:, [2, 0]])


@pytest.mark.parametrize(
    ("i", "s", "scores"),
    [([2], 1, 0.0), ([-1], 1, 0.0), ([0, 1], 1, -np.inf)],
    ids=["past the end", "before the start", "no largest element"],
)
def test_computed_indices_outside_of_symbolic_axes(
    positions: opinfo.Compiled, i: Any, s: Any, scores: float
) -> None:
    x = np.full((2, 4), scores, "float32")
    with pytest.raises(ValueError, match="take at an element that is outside"):
        positions.run(TABLE[:3], *numbers(i, s), x)


def test_a_divisor_without_an_upper_bound_bounds_no_remainder(positions: opinfo.Compiled) -> None:
    with pytest.raises(ValueError, match="take at an element that is outside"):
        positions.run(TABLE[:1], *numbers([0, 0, -1], 9), np.zeros((2, 4), "float32"))


def test_a_function_that_others_call_is_checked_in_its_code() -> None:
    @I.ir_module
    class Calls:
        @R.function
        def rows(t: R.Tensor((5, 4), "float32"), i: R.Tensor((2,), "int64")) -> R.Tensor(
            (2, 4), "float32"
        ):
            return R.take(t, i, axis=0)

        @R.function
        def main(t: R.Tensor((5, 4), "float32"), i: R.Tensor((2,), "int64")) -> R.Tensor(
            (2, 4), "float32"
        ):
            return Calls.rows(t, R.add(i, i))

    compiled = opinfo.compile(Calls, [])
    np.testing.assert_array_equal(compiled.run(TABLE, *numbers([2, 1])), TABLE[[4, 2]])
    with pytest.raises(ValueError, match="take at an element"):
        compiled.run(TABLE, *numbers([2, 3]))


def test_an_index_that_is_read_at_often_is_checked_once() -> None:
    @I.ir_module
    class Twice:
        @R.function
        def main(
            t: R.Tensor((5, 4), "float32"), u: R.Tensor((3, 4), "float32"),
            i: R.Tensor((2,), "int64"),
        ) -> R.Tuple(R.Tensor, R.Tensor):  # fmt: skip
            with R.dataflow():
                j = R.add(i, i)
                below = R.less(j, R.const(0, "int64"))
                a = R.take(t, R.where(below, R.add(j, R.const(5, "int64")), j), axis=0)
                b = R.take(u, R.astype(j, "int32"), axis=0)
                R.output(a, b)
            return a, b

    checked = checked_indices(Twice)
    (check,) = (f for f in checked.functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    assert len(check.params) == 2
    bindings = checked["main"].body.blocks[0].bindings
    calls = [getattr(b.value, "op", None) == tvm.ir.Op.get("relax.call_tir") for b in bindings]
    assert calls == [False, True, *[False] * (len(bindings) - 2)]
    compiled = opinfo.compile(Twice, [])
    a, b = compiled.run(TABLE, TABLE[:3], *numbers([0, 1]))
    np.testing.assert_array_equal((a, b), (TABLE[[0, 2]], TABLE[[0, 2]]))
    for i in (-1, 2):
        with pytest.raises(ValueError, match="take at an element"):
            compiled.run(TABLE, TABLE[:3], *numbers([0, i]))


def test_an_index_without_named_sizes_is_checked() -> None:
    @I.ir_module
    class Chosen:
        @R.function
        def main(
            t: R.Tensor((3, 4), "float32"), c: R.Tensor((5,), "bool")
        ) -> R.Tensor("float32", ndim=3):  # fmt: skip
            with R.dataflow():
                y = R.take(t, R.nonzero(c), axis=0)
                R.output(y)
            return y

    compiled = opinfo.compile(Chosen, [])
    mask = np.array([1, 0, 1, 0, 0], "bool")
    np.testing.assert_array_equal(compiled.run(TABLE[:3], mask), TABLE[[[0, 2]]])
    with pytest.raises(ValueError, match="take at an element"):
        compiled.run(TABLE[:3], ~mask)


def test_the_loop_of_checks_stays_a_loop() -> None:
    """TVM unrolls a loop whose body only asserts: compiling took longer than all else."""

    @I.ir_module
    class Many:
        @R.function
        def main(t: R.Tensor((5, 4), "float32"), i: R.Tensor((500,), "int64")) -> R.Tensor(
            (500, 4), "float32"
        ):
            with R.dataflow():
                rows = R.take(t, R.add(i, i), axis=0)
                R.output(rows)
            return rows

    (check,) = (f for g, f in checked_indices(Many).functions_items() if "checked" in g.name_hint)
    passes = [tvm.tirx.transform.RemoveNoOp(), tvm.tirx.transform.UnrollLoop()]
    lowered = tvm.transform.Sequential(passes)(tvm.IRModule({"check": check}))
    asserts: list[object] = []
    tvm_ffi.structural_walk(lowered["check"].body, [(tvm.tirx.AssertStmt, asserts.append)])
    assert len(asserts) == 1


@I.ir_module
class Broadcast:
    @R.function
    def main(
        t: R.Tensor((5, 4), "float32"), i: R.Tensor((3, 1), "int64"), z: R.Tensor(("n",), "float32")
    ) -> R.Tuple(R.Tensor, R.Tensor):
        n = T.int64()
        with R.dataflow():
            j = R.add(i, i)
            k = R.broadcast_to(j, (3, 7))
            rows = R.take(t, k, axis=0)
            some = R.take(t, R.broadcast_to(R.multiply(j, j), (3, n)), axis=0)
            R.output(rows, some)
        return rows, some


def test_an_index_is_checked_before_it_is_broadcast() -> None:
    """Where the result may be empty, nothing may be read, so that its elements are checked."""
    mod = checked_indices(Broadcast)
    calls = [b.value for b in mod["main"].body.blocks[0].bindings
             if getattr(b.value, "op", None) == tvm.ir.Op.get("relax.call_tir")]  # fmt: skip
    shapes = [str(call.args[1].fields[0].ty.shape) for call in calls]
    assert shapes == ["R.shape([3, 1])", "R.shape([3, n])"]
    compiled = opinfo.compile(Broadcast, [])
    (i,) = numbers([[0], [1], [0]])
    rows, some = compiled.run(TABLE, i, np.zeros(2, "float32"))
    np.testing.assert_array_equal(rows, TABLE[np.broadcast_to(i + i, (3, 7))])
    np.testing.assert_array_equal(some, TABLE[np.broadcast_to(4 * i * i, (3, 2))])
    assert compiled.run(TABLE, i + 1, np.zeros(0, "float32"))[1].shape == (3, 0, 4)


def test_a_check_for_several_readers_names_them_in_one_line() -> None:
    builder = relax.BlockBuilder()
    long, short = (relax.Var(f"t{n}", relax.TensorType((n,), "float32")) for n in (9, 3))
    raw = relax.Var("i", relax.TensorType((1,), "int64"))
    with builder.function("main", [long, short, raw]):
        with builder.dataflow():
            i = builder.emit(relax.op.add(raw, raw))
            for table, node in ((long, "long\ntable"), (short, "short table")):
                read = builder.normalize(relax.op.take(table, i, axis=0))
                builder.emit(with_span(read, span(node)))
            out = builder.emit_output(relax.op.add(i, i))
        builder.emit_func_output(out)
    mod = checked_indices(builder.get())
    assert "long?table: take or short table: take at an element" in mod.script()
