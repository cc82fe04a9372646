"""Scalar parameters that are not sizes: terms, operands, and what refuses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis import (
    Chain,
    LayoutNormalised,
    OpInfo,
    Refusal,
    layout_normalised,
    lift,
    op_info,
    op_infos,
)
from opinfo.analysis.lifting.tir.unliftable import Unliftable
from opinfo.testing.rebuild import check_rebuilt

_HEAD = """
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main({params}):
    for i, j in T.grid(4, 8):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = {value}
"""


def _func(value: str, out: str, scalar: str, x: str = "", after: bool = False) -> Any:
    operands = [f'x: T.Buffer((4, 8), "{x}")'] if x else []
    results = [f'out: T.Buffer((4, 8), "{out}")']
    scalars = [f"a: T.{scalar}"]
    params = [*operands, *results, *scalars] if after else [*operands, *scalars, *results]
    return tvm.script.from_source(_HEAD.format(params=", ".join(params), value=value))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint32"])
def test_a_number_is_an_operand_without_dimensions(dtype: str, after: bool) -> None:
    func = _func("x[vi, vj] * a", dtype, dtype, dtype, after)
    info = op_info(func)
    assert isinstance(info, OpInfo)
    assert info.name == "relax.multiply"
    assert set(info.operands) == {0, 2 if after else 1}
    assert info.kind == "kElemWise"  # for fusion a scalar is not an operand
    check_rebuilt(func, info)


@pytest.mark.parametrize(
    ("value", "dtype", "scalar"),
    [("a", "int32", "int32"), ("a", "int64", "int64"), ("a", "float32", "float32"),
     ("a", "bool", "bool"), ('T.Cast("float16", a)', "float16", "int32"),
     ('T.Cast("float16", a)', "float16", "float32"), ('T.Cast("int64", a)', "int64", "int32"),
     ('T.Cast("int32", a)', "int32", "int64")],
)  # fmt: skip
def test_a_tensor_can_be_full_of_a_scalar(value: str, dtype: str, scalar: str) -> None:
    func = _func(value, dtype, scalar, after=True)
    info = op_info(func)
    assert isinstance(info, OpInfo)
    assert (info.name, info.operands) == ("relax.full", (1,))
    assert dict(info.attrs) == {"shape": (4, 8), "dtype": dtype}
    operand = relax.Var("a", relax.TensorType((), scalar))
    call = relax.BlockBuilder().normalize(relax.op.full(**info.bind({1: operand})))
    tvm.ir.assert_structural_equal(call.ty, relax.TensorType((4, 8), dtype))


def test_the_value_of_a_scalar_is_the_operands() -> None:
    """Run the PrimFunc, and the operator on a tensor with the scalar's value."""
    func = _func('T.Cast("float16", a)', "float16", "float32", after=True)
    out = tvm.runtime.empty((4, 8), "float16")
    tvm.compile(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))["main"](out, 0.1)
    np.testing.assert_array_equal(out.numpy(), np.full((4, 8), np.float32(0.1), "float16"))


@pytest.mark.parametrize(
    ("value", "out", "scalar"),
    [("a + 1", "int32", "int32"), ("a * a", "int64", "int64"),
     ('T.Cast("int8", a)', "int32", "int32"), ("a * T.float32(2)", "float32", "float32"),
     ('T.Cast("int64", T.Cast("int32", a))', "int64", "int64")],
)  # fmt: skip
def test_a_changed_scalar_does_not_fill(value: str, out: str, scalar: str) -> None:
    if "int8" in value:
        value = f'T.Cast("int32", {value})'
    info = op_info(_func(value, out, scalar, after=True))
    assert not (isinstance(info, OpInfo) and info.name == "relax.full")


def test_a_scalar_that_is_an_attribute_stays_one() -> None:
    arange = tvm.script.from_source("""
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(out: T.Buffer((4,), "int64"), a: T.int64):
    for i in range(4):
        out[i] = a + T.Cast("int64", i) * T.int64(2)
""")
    info = op_info(arange)
    assert isinstance(info, OpInfo) and info.name == "relax.arange"
    assert info.attrs["start"].same_as(arange.params[1])


def test_scalars_of_two_dtypes_do_not_share_an_answer() -> None:
    infos = [op_info(_func("a", d, d, after=True)) for d in ("int32", "int64")]
    assert [i.attrs["dtype"] for i in infos if isinstance(i, OpInfo)] == ["int32", "int64"]
    short, long = (lift(_func("a", d, d)).params[0] for d in ("int32", "int64"))
    assert short is not long


def test_a_chain_names_a_scalar_by_its_position() -> None:
    chain = op_infos(_func("T.exp(x[vi, vj] * a)", "float32", "float32", "float32", after=True))
    assert isinstance(chain, Chain)
    assert chain.names == ("relax.multiply", "relax.exp")
    assert set(chain.steps[0].operands) == {0, 2}
    full = op_infos(_func("a", "int32", "int32", after=True))
    assert isinstance(full, Chain)
    assert full.steps[0].operands == (1,)


def test_a_scalar_has_no_layout() -> None:
    source = _HEAD.format(
        params='x: T.Buffer((8, 4), "float32"), a: T.float32, out: T.Buffer((4, 8), "float32")',
        value="x[vj, vi] + a",
    )
    found = layout_normalised(tvm.script.from_source(source))
    assert isinstance(found, LayoutNormalised) and found.logical.name == "relax.add"
    assert [b is None for b in found.buffers] == [False, True, False]
    plain = layout_normalised(_func("x[vi, vj] * a", "float32", "float32", "float32"))
    assert isinstance(plain, LayoutNormalised)
    assert [b is None for b in plain.buffers] == [False, True, False]


def test_a_vector_parameter_is_not_a_number() -> None:
    func = tvm.script.from_source("""
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(out: T.Buffer((4,), "float32"), a: T.float32x4):
    for i in range(4):
        out[i] = T.float32(1)
""")
    with pytest.raises(Unliftable, match="a scalar parameter is not a number"):
        lift(func)
    assert isinstance(op_info(func), Refusal)


def test_a_refusal_names_the_shapes_that_differ() -> None:
    """A gather has the shape of its indices."""
    info = op_info(
        tvm.script.from_source("""
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(px: T.handle, pt: T.handle, po: T.handle):
    n, m = T.int64(), T.int64()
    x = T.match_buffer(px, (n, m), "float32")
    t = T.match_buffer(pt, (n, m), "int32")
    out = T.match_buffer(po, (n, 5), "float32")
    for i, j in T.grid(n, 5):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = x[vi, t[vi, vj]]
""")
    )
    assert isinstance(info, Refusal)
    assert "float32[n, m] instead of float32[n, 5]" in repr(info)


def test_the_scalar_must_have_the_expected_dtype() -> None:
    wide, narrow = (_func("x[vi, vj] * a", d, d, d) for d in ("float32", "float16"))
    params = lift(narrow).params
    with pytest.raises(Unliftable, match="differ"):
        lift(wide, (None, params[1], None))  # type: ignore[arg-type]
