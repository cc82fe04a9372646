"""Indices that a model computes are inside, or the call fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import relax as R

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.jit.arguments.index_checks import checked_indices

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
TABLE = np.arange(20, dtype="float32").reshape(5, 4)


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


def numbers(*args: Any) -> list[Any]:
    return [np.asarray(a, "int64") for a in args]


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


def test_what_is_proved_to_be_inside_is_not_checked() -> None:
    @I.ir_module
    class Proved:
        @R.function
        def main(
            t: R.Tensor((5, 4), "float32"), i: R.Tensor(("n",), "int64"),
            x: R.Tensor(("m", 4), "float32"),
        ) -> R.Tuple(
            R.Tensor, R.Tensor, R.Tensor, R.Tensor, R.Tensor, R.Tensor, R.Tensor
        ):  # fmt: skip
            with R.dataflow():
                a = R.take(t, R.clip(R.multiply(i, i), 0, 4), axis=0)
                b = R.take(t, R.argmax(x, axis=1), axis=1)
                m = R.argmax(x, axis=0)
                c = R.take(x, m, axis=0)
                d = R.take(t, i, axis=0)
                e = R.take(t, R.floor_mod(i, R.const(5, "int64")), axis=0)
                top = R.topk(x, k=2, axis=0, ret_type="both", dtype="int64")
                f = R.take(x, top[1], axis=0)
                g = R.take(t, R.const([4, 0], "int64"), axis=0)
                R.output(a, b, c, d, e, f, g)
            return a, b, c, d, e, f, g

    tvm.ir.assert_structural_equal(checked_indices(Proved), Proved)


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
