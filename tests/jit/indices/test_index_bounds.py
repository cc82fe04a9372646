"""Computed indices are not checked where bounds prove that they are inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.jit.arguments.index_checks import checked_indices

from .computed_indices import TABLE, numbers

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")


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
                b = R.take(t, R.argsort(t, axis=1, dtype="int64"), axis=1)
                m = R.argsort(x, axis=0, dtype="int64")
                c = R.take(x, m, axis=0)
                d = R.take(t, i, axis=0)
                e = R.take(t, R.floor_mod(i, R.const(5, "int64")), axis=0)
                top = R.topk(t, k=2, axis=0, ret_type="both", dtype="int64")
                f = R.take(t, top[1], axis=0)
                g = R.take(t, R.const([4, 0], "int64"), axis=0)
                R.output(a, b, c, d, e, f, g)
            return a, b, c, d, e, f, g

    tvm.ir.assert_structural_equal(checked_indices(Proved), Proved)


@I.ir_module
class Arithmetic:
    @R.function
    def main(t: R.Tensor((5, 4), "float32"), i: R.Tensor(("n",), "int64")) -> R.Tuple(
        R.Tensor, R.Tensor
    ):
        with R.dataflow():
            a = R.clip(i, 0, 2)
            near = R.subtract(R.add(a, R.clip(i, 1, 2)), R.const(1, "int64"))
            inside = R.take(t, near, axis=0)
            most = R.clip(i, 0, 9223372036854775807)
            wrapped = R.minimum(R.add(most, a), R.const(4, "int64"))
            outside = R.take(t, wrapped, axis=0)
            R.output(inside, outside)
        return inside, outside


def test_sums_of_bounds_are_bounds_unless_they_wrap_around() -> None:
    assert _assertions(Arithmetic) == 1
    both = opinfo.compile(Arithmetic, [])
    got = both.run(TABLE, *numbers([0, 1, 2]))
    for part, expected in zip(got, ([0, 1, 3], [0, 2, 4]), strict=True):
        np.testing.assert_array_equal(part, TABLE[expected])
    with pytest.raises(ValueError, match="take at an element that is outside of its axis"):
        both.run(TABLE, *numbers([9223372036854775807]))


def _assertions(mod: Any) -> int:
    """The number of checks in the code; each is a PrimFunc of its own."""
    funcs = [f for _, f in checked_indices(mod).functions_items()]
    return sum(isinstance(f, tvm.tirx.PrimFunc) for f in funcs)


def test_positions_of_fewer_elements_than_are_asked_for_are_checked() -> None:
    @I.ir_module
    class Top:
        @R.function
        def main(x: R.Tensor(("m", 4), "float32")) -> R.Tensor:
            with R.dataflow():
                top = R.topk(x, k=2, axis=0, ret_type="both", dtype="int64")
                y = R.take(x, top[1], axis=0)
                R.output(y)
            return y

    assert _assertions(Top) == 1
    want = TABLE[[[4, 4, 4, 4], [3, 3, 3, 3]]]
    np.testing.assert_array_equal(opinfo.compile(Top, []).run(TABLE), want)


def test_an_extreme_of_no_elements_is_not_proved_to_be_inside() -> None:
    @I.ir_module
    class Extremes:
        @R.function
        def main(t: R.Tensor((5, 4), "float32"), i: R.Tensor(("n", 2), "int64")) -> R.Tensor:
            with R.dataflow():
                inside = R.clip(i, 0, 4)
                a = R.take(t, R.max(inside, axis=1), axis=0)
                b = R.take(t, R.max(inside, axis=0), axis=0)
                c = R.add(R.sum(a, axis=0), R.sum(b, axis=0))
                R.output(c)
            return c

    assert _assertions(Extremes) == 1  # of b, whose rows may be none
    compiled = opinfo.compile(Extremes, [])
    with pytest.raises(ValueError, match="take at an element"):
        compiled.run(TABLE, np.zeros((0, 2), "int64"))


def test_a_sum_may_have_a_symbolic_bound() -> None:
    @I.ir_module
    class Sum:
        @R.function
        def main(x: R.Tensor(("m", 4), "float32")) -> R.Tensor:
            with R.dataflow():
                last = R.argsort(x, axis=0, dtype="int64")
                y = R.take(x, R.subtract(R.add(last, R.const(1, "int64")), R.const(1, "int64")),
                           axis=0)  # fmt: skip
                R.output(y)
            return y

    tvm.ir.assert_structural_equal(checked_indices(Sum), Sum)


@pytest.mark.parametrize("computed", [False, True])
def test_a_cast_that_wraps_negative_elements_is_not_looked_through(computed: bool) -> None:
    """In uint8, -5 is 251, which is outside of 100 rows."""
    builder = relax.BlockBuilder()
    table = relax.Var("t", relax.TensorType((100,), "float32"))
    raw = relax.Var("i", relax.TensorType((1,), "int64"))
    with builder.function("main", [table, raw]):
        with builder.dataflow():
            i = builder.emit(relax.op.add(raw, raw)) if computed else raw
            i = builder.emit(relax.op.astype(relax.op.astype(i, "uint8"), "int32"))
            below = builder.emit(relax.op.less(i, relax.const(0, "int32")))
            above = builder.emit(relax.op.add(i, relax.const(100, "int32")))
            i = builder.emit(relax.op.where(below, above, i))
            out = builder.emit_output(relax.op.take(table, i, axis=0))
        builder.emit_func_output(out)
    build = opinfo.compile(builder.get(), [])
    rows = np.arange(100, dtype="float32")
    np.testing.assert_array_equal(build.run(rows, *numbers([20])), [40 if computed else 20])
    with pytest.raises(ValueError, match="outside of its axis"):
        build.run(rows, *numbers([-5]))
