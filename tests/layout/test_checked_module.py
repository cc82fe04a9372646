"""Modules whose calls contradict their PrimFuncs are refused in one line, before anything else."""

import re

import pytest
import tvm
from tvm import relax
from tvm.script import tirx as T

import opinfo


@T.prim_func(private=True, s_tir=True)
def add_one(
    x: T.Buffer((4, 6), "float32"), y: T.Buffer((4, 6), "float32")
) -> None:  # fmt: skip
    for i, j in T.grid(4, 6):
        with T.sblock("b"):
            a, b = T.axis.remap("SS", [i, j])
            y[a, b] = x[a, b] + T.float32(1)


def module(
    operand: tuple[object, ...] = (4, 6),
    result: tuple[object, ...] = (4, 6),
    count: int = 1,
    dtype: str = "float32",
) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(operand, dtype))
    callee = builder.add_func(add_one, "add_one")
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(
                relax.call_tir(callee, [x] * count, relax.TensorType(result, "float32"))
            )
        builder.emit_func_output(out)
    return builder.get()


TAKES = "where its parameter x is float32(4, 6); mend the call or the PrimFunc"


@pytest.mark.parametrize(
    ("mod", "wrong"),
    [
        (module(count=2), "2 operands, 1 result and 0 sizes, where it has 2 parameters"),
        (module(count=0), "0 operands, 1 result and 0 sizes, where it has 2 parameters"),
        (module(operand=(4, 7)), f"float32(4, 7) as operand 0, {TAKES}"),
        (module(operand=(4,)), f"float32(4) as operand 0, {TAKES}"),
        (module(dtype="float16"), f"float16(4, 6) as operand 0, {TAKES}"),
        (module(result=(4, 5)), "float32(4, 5) as result 0, where its parameter y is"),
    ],
)
def test_calls_that_contradict_a_prim_func_are_refused(mod: tvm.IRModule, wrong: str) -> None:
    text = re.escape(f": main calls add_one with {wrong}")
    with pytest.raises(ValueError, match="^plan_layout" + text) as plan:
        opinfo.plan(mod, {})
    with pytest.raises(ValueError, match="^compile_module" + text) as compiled:
        opinfo.compile(mod, [])
    assert "\n" not in str(plan.value) + str(compiled.value)


def test_calls_whose_extents_are_unknown_are_taken() -> None:
    n = tvm.tirx.Var("n", "int64")
    for mod in (module(), module(operand=(n, 6))):
        opinfo.plan(mod, {})
