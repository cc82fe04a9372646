"""RaiseOps: Before / Expected, options, what stays, and the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from opinfo.byoc.prepare.raising.raise_ops import raise_ops
from opinfo.testing.strip import strip_module
from opinfo.transform import RaiseOps

from ...common.run import run


@I.ir_module
class Before:
    @R.function
    def main(
        x: R.Tensor((1, 8, 14, 14), "float32"),
        w: R.Tensor((16, 8, 3, 3), "float32"),
        b: R.Tensor((16, 1, 1), "float32"),
    ) -> R.Tensor((1, 16, 7, 7), "float32"):
        with R.dataflow():
            y = R.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1))
            z = R.add(y, b)
            a = R.multiply(z, R.const(0.5, "float32"))
            out = R.nn.relu(a)
            R.output(out)
        return out


@I.ir_module
class Expected:
    @R.function
    def main(
        x: R.Tensor((1, 8, 14, 14), "float32"),
        w: R.Tensor((16, 8, 3, 3), "float32"),
        b: R.Tensor((16, 1, 1), "float32"),
    ) -> R.Tensor((1, 16, 7, 7), "float32"):
        with R.dataflow():
            y = R.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1, 1, 1), out_layout="NCHW")
            z = R.add(y, b)
            a = R.multiply(z, R.const(0.5, "float32"))
            out = R.nn.relu(a)
            R.output(out)
        return out


@I.ir_module
class Symbolic:
    @R.function
    def main(x: R.Tensor(("n", 16, 8), "float32")) -> R.Tensor(("n", 8, 16), "float32"):
        n = T.int64()
        with R.dataflow():
            a = R.reshape(x, R.shape([n * 16, 8]))
            b = R.nn.softmax(a, axis=1)
            c = R.reshape(b, R.shape([n, 16, 8]))
            out = R.permute_dims(c, axes=[0, 2, 1])
            R.output(out)
        return out


@I.ir_module
class Opaque:
    @T.prim_func(private=True, s_tir=True)
    def scan(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            with T.sblock("b"):
                vi = T.axis.opaque(8, i)
                y[vi] = T.if_then_else(vi == 0, x[vi], y[T.max(vi - 1, 0)] * x[vi])

    @T.prim_func(private=True, s_tir=True)
    def twice(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            with T.sblock("b"):
                vi = T.axis.spatial(8, i)
                y[vi] = x[vi] * T.float32(2)

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Opaque
        with R.dataflow():
            a = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((8,), "float32"))
            out = R.call_tir(cls.scan, (a,), out_ty=R.Tensor((8,), "float32"))
            R.output(out)
        return out


def lowered(mod: Any) -> Any:
    return relax.transform.LegalizeOps()(mod)


def test_operators_come_back_without_names() -> None:
    raised = RaiseOps()(strip_module(lowered(Before)))
    tvm.ir.assert_structural_equal(raised["main"], Expected["main"])
    assert [g.name_hint for g in raised.get_global_vars()] == ["main"]


def test_the_input_module_is_not_changed() -> None:
    mod = lowered(Before)
    text = mod.script()
    RaiseOps()(mod)
    assert mod.script() == text


def test_legalising_again_gives_the_same_module() -> None:
    mod = lowered(Before)
    again = lowered(RaiseOps()(mod))
    tvm.ir.assert_structural_equal(again, mod)


def test_symbolic_shapes_are_those_of_the_call() -> None:
    raised = RaiseOps()(strip_module(lowered(Symbolic)))
    tvm.ir.assert_structural_equal(raised["main"], Symbolic["main"])


@pytest.mark.parametrize("mod, shapes", [
    (Before, [(1, 8, 14, 14), (16, 8, 3, 3), (16, 1, 1)]),
    (Symbolic, [(3, 16, 8)]),
    (Opaque, [(8,)]),
], ids=["conv", "symbolic", "opaque"])  # fmt: skip
def test_outputs_are_equal(mod: Any, shapes: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(s).astype("float32") for s in shapes]
    low = lowered(mod)
    for a, b in zip(run(low, values), run(RaiseOps()(low), values), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_not_understood_stays_with_the_reason() -> None:
    found = raise_ops(Opaque)
    assert [s.op for s in found.raised] == ["relax.multiply"]
    (kept,) = found.kept
    assert (kept.prim_func, kept.function) == ("scan", "main")
    assert "reads a value written two or more iterations before" in kept.reason
    assert {g.name_hint for g in found.module.get_global_vars()} == {"main", "scan"}


def test_only_the_ops_that_are_asked_for() -> None:
    found = raise_ops(lowered(Before), ops={"relax.nn.relu"})
    assert [s.op for s in found.raised] == ["relax.nn.relu"]
    assert all("not among the ops to raise" in k.reason for k in found.kept)
    short = RaiseOps(ops=["nn.relu"])(lowered(Before))
    tvm.ir.assert_structural_equal(short, found.module)


def _raise_with(argument: str, value: Any) -> Any:
    return RaiseOps(**{argument: value})


@pytest.mark.parametrize("argument", ["ops", "prefer"])
def test_names_of_operators_are_checked_early(argument: str) -> None:
    with pytest.raises(ValueError, match=f"{argument}: unknown .* 'relax.nn.convd'; did you mean"):
        _raise_with(argument, ["relax.nn.convd"])
    with pytest.raises(TypeError, match=f"RaiseOps: {argument} must be a sequence .* 'relax.add'"):
        _raise_with(argument, "relax.add")


def test_exact_keeps_what_is_only_proved_up_to_reassociation() -> None:
    schedule = tvm.s_tir.Schedule(lowered(Before))
    schedule.work_on("conv2d")
    block = schedule.get_sblock("conv2d_nchw")
    schedule.split(schedule.get_loops(block)[4], [2, 4])
    assert raise_ops(schedule.mod).raised[0].op == "relax.nn.conv2d"
    found = raise_ops(schedule.mod, exact=True)
    assert [s.op for s in found.raised] == ["relax.add", "relax.multiply", "relax.nn.relu"]
    assert "not bit for bit" in found.kept[0].reason


def test_tuples_and_shared_prim_funcs() -> None:
    @I.ir_module
    class Split:
        @R.function
        def main(x: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
            with R.dataflow():
                parts = R.split(x, 2, axis=1)
                a = R.nn.relu(parts[0])
                b = R.nn.relu(parts[1])
                out = R.concat([b, a], axis=1)
                R.output(out)
            return out

    found = raise_ops(strip_module(lowered(Split)))
    assert [s.op for s in found.raised] == [
        "relax.split", "relax.nn.relu", "relax.nn.relu", "relax.concat",
    ]  # fmt: skip
    value = np.arange(24, dtype="float32").reshape(4, 6) - 9
    (expected,), (got,) = run(lowered(Split), [value]), run(found.module, [value])
    np.testing.assert_array_equal(got, expected)


@I.ir_module
class WithScalar:
    @T.prim_func(private=True, s_tir=True)
    def ending(x_: T.handle, s: T.float32, y_: T.handle, out_: T.handle) -> None:
        n = T.int64()
        m = T.int64()
        x = T.match_buffer(x_, (n,))
        y = T.match_buffer(y_, (m,))  # noqa: F841
        out = T.match_buffer(out_, (T.int64(2),))
        for i in range(T.int64(2)):
            with T.sblock("b"):
                v = T.axis.spatial(T.int64(2), i)
                out[v] = x[v + m - T.int64(2)]

    @R.function
    def main(
        x: R.Tensor(("n",), "float32"), s: R.Prim("float32"), y: R.Tensor(("m",), "float32")
    ) -> R.Tensor((2,), "float32"):
        cls = WithScalar
        with R.dataflow():
            out = R.call_tir(cls.ending, (x, s, y), out_ty=R.Tensor((2,), "float32"))
            R.output(out)
        return out


def test_a_size_behind_a_number_is_that_of_its_own_argument() -> None:
    """An argument without a shape once moved the sizes of all later ones: ``m`` was 2."""
    raised = raise_ops(WithScalar)
    assert [site.op for site in raised.raised] == ["relax.strided_slice"]
    arguments: Any = np.arange(9, dtype="float32"), 1.5, np.zeros(5, "float32")
    np.testing.assert_array_equal(run(raised.module, arguments)[0], [3, 4])


def test_bad_arguments_fail_early() -> None:
    with pytest.raises(ValueError, match=r"rebuilt.*got 'sure'"):
        RaiseOps("sure")
    with pytest.raises(TypeError, match=r"expected a tvm\.IRModule, got int"):
        raise_ops(3)
