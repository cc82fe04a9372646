"""PrimFuncs that differ only in their messages are one, and each call has its own message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from opinfo.byoc.codegen.executable import executable
from opinfo.byoc.prepare.loops.merge_checks import merge_checks


def check(message: str, least: int = 0) -> Any:
    """A PrimFunc that copies numbers, and asserts that they are not below one."""

    @T.prim_func(private=True, s_tir=True)
    def checked(x: T.Buffer((3,), "int64"), y: T.Buffer((3,), "int64")) -> None:
        T.func_attr({"tirx.noalias": True})
        for k in range(3):
            assert x[k] >= T.int64(least), message
            y[k] = x[k]

    return checked


def module(*checks: Any, named: bool = False) -> Any:
    """A module that calls checks one after another; with ``named``, it also hands over the last."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3,), "int64"))
    with builder.function("main", [x]):
        value = x
        for func in checks:
            gvar = builder.add_func(func, "check")
            value = builder.emit(relax.call_tir(gvar, value, relax.TensorType((3,), "int64")))
        if named:
            builder.emit(relax.call_pure_packed("keep", gvar, ty_args=relax.AnyType()))
        builder.emit_func_output(value)
    return builder.get()


def prim_funcs(mod: Any) -> int:
    return sum(isinstance(f, tirx.PrimFunc) for f in mod.functions.values())


def test_checks_are_one_function() -> None:
    mod = module(check("says a"), check("b"), check("c"), check("d", -5), check("says a"))
    assert prim_funcs(mod) == 4
    merged = merge_checks(mod)
    assert prim_funcs(merged) == 2 and prim_funcs(mod) == 4
    relax.analysis.well_formed(merged)  # raises if not


@pytest.mark.parametrize(("number", "message"), [(-1, "a"), (-3, "b"), (-7, "c"), (9, "")])
def test_a_call_says_what_it_said_before(number: int, message: str) -> None:
    mod = module(
        check("says c", -6), check("says b", -2), check("says a"), check("z", -6), check("y", -2)
    )
    built = executable(mod, "llvm")
    main = relax.VirtualMachine(built, tvm.cpu())["main"]
    x = tvm.runtime.tensor(np.asarray([5, number, 7], "int64"))
    if not message:
        np.testing.assert_array_equal(main(x).numpy(), [5, number, 7])
        return
    with pytest.raises((AssertionError, RuntimeError), match=f"says {message}$"):
        main(x)


def test_other_functions_stay() -> None:
    alone = module(check("says a"), check("b", 1))
    assert merge_checks(alone) is alone
    named = module(check("says a"), check("b"), named=True)
    assert merge_checks(named) is named


@I.ir_module
class Public:
    """Checks that other code may call by their names."""

    @T.prim_func(s_tir=True)
    def one(x: T.Buffer((3,), "int64"), y: T.Buffer((3,), "int64")) -> None:
        T.func_attr({"global_symbol": "one"})
        for k in range(3):
            assert x[k] >= T.int64(0), "a"
            y[k] = x[k]

    @T.prim_func(s_tir=True)
    def other(x: T.Buffer((3,), "int64"), y: T.Buffer((3,), "int64")) -> None:
        T.func_attr({"global_symbol": "other"})
        for k in range(3):
            assert x[k] >= T.int64(0), "b"
            y[k] = x[k]

    @R.function
    def main(x: R.Tensor((3,), "int64")) -> R.Tensor((3,), "int64"):
        cls = Public
        y = R.call_tir(cls.one, (x,), out_ty=R.Tensor((3,), "int64"))
        z = R.call_tir(cls.other, (y,), out_ty=R.Tensor((3,), "int64"))
        return z


def test_functions_with_public_names_stay() -> None:
    assert merge_checks(Public) is Public
