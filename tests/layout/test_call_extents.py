"""Extents of a call that its PrimFunc needs to be equal: numbers, symbols, and what is proved."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T

import opinfo
from opinfo.byoc.prepare.raising.raise_ops import raise_ops
from opinfo.jit import Session, compile_shapes
from opinfo.layout.graph.call_extents import unequal_extents


@T.prim_func(private=True, s_tir=True)
def add(a: T.handle, b: T.handle, c: T.handle) -> None:
    n = T.int64()
    x = T.match_buffer(a, (n,), "float32")
    y = T.match_buffer(b, (n,), "float32")
    z = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        with T.sblock("b"):
            k = T.axis.spatial(n, i)
            z[k] = x[k] + y[k]


M, K = tirx.Var("m", "int64"), tirx.Var("k", "int64")


def _module(first: Any, second: Any, result: Any, around: bool = False) -> Any:
    builder = relax.BlockBuilder()
    kinds = [relax.TensorType([extent], "float32") for extent in (first, second)]
    params = [relax.Var(f"x{k}", kind) for k, kind in enumerate(kinds)]
    sizes = [relax.Var("s", relax.ShapeType([M, K]))]
    gvar = builder.add_func(add, "add")
    with builder.function("main", [*params, *sizes]):
        with builder.dataflow():
            operands = [builder.emit(relax.op.nn.relu(p)) for p in params] if around else params
            call = relax.call_tir(gvar, operands, relax.TensorType([result], "float32"))
            out = builder.emit_output(relax.op.exp(builder.emit(call)) if around else call)
        builder.emit_func_output(out)
    return builder.get()


def _unequal(*extents: Any) -> str | None:
    mod = _module(*extents)
    call = mod["main"].body.blocks[0].bindings[0].value
    return unequal_extents(mod["add"], call)


@pytest.mark.parametrize(
    "extents", [(4, 4, 4), (M, M, M), (M + K, K + M, M + K), (2 * M, M + M, M * 2)]
)
def test_equal_extents(extents: Any) -> None:
    assert _unequal(*extents) is None


@pytest.mark.parametrize(("extents", "text"), [
    ((3, 1, 3), "extent 0 of operand 1 is 1, where its PrimFunc has 3 (extent 0 of operand 0)"),
    ((M, K, M), "extent 0 of operand 1 is k, where its PrimFunc has m (extent 0 of operand 0)"),
    ((M, 1, M), "extent 0 of operand 1 is 1, where"),
    ((M, M, K), "extent 0 of result 0 is k, where"),
])  # fmt: skip
def test_unequal_extents(extents: Any, text: str) -> None:
    reason = _unequal(*extents)
    assert reason is not None and reason.startswith(text)
    raised = raise_ops(_module(*extents))
    assert not raised.raised and raised.kept[0].reason == reason


def test_numbers_that_differ_are_refused() -> None:
    text = "main calls add with extents that differ: extent 0 of operand 1 is 1, where"
    with pytest.raises(ValueError, match=re.escape(text)):
        opinfo.compile(_module(3, 1, 3), [])


@pytest.mark.parametrize("backends", [[], None])
def test_an_operand_is_neither_broadcast_nor_read_outside(backends: Any) -> None:
    """The PrimFunc of a call adds tensors of one extent, and fails for others, as TVM's does."""
    mod = _without_shape(_module(M, K, M))
    compiled = opinfo.compile(mod, backends, race=False)
    x = np.arange(3, dtype="float32")
    np.testing.assert_array_equal(compiled.run(x, x + 1), x + x + 1)
    for count in (1, 2, 7):
        with pytest.raises(ValueError, match=f"got m = 3, k = {count}; .* defined for k == m: "):
            compiled.run(x, np.ones(count, "float32"))


@pytest.mark.parametrize("extents", [(M, K, M), (M, K, K)])
def test_operators_around_a_call_leave_its_comparison(extents: Any) -> None:
    """FuseTIR failed, or dropped the comparison: a result of k = 4 elements had 3 that were set."""
    mod = _without_shape(_module(*extents, around=True))
    x = np.arange(3, dtype="float32")
    compiled = opinfo.compile(mod, [])
    np.testing.assert_allclose(compiled.run(x, x + 1), np.exp(x + x + 1), rtol=1e-5)
    with pytest.raises(ValueError, match=r"got m = 3, k = 4; .* defined for k == m: "):
        compiled.run(x, np.ones(4, "float32"))


@pytest.mark.parametrize("strategy", ["jit", "aot"])
def test_shapes_alone_keep_the_comparison_of_tvm(strategy: Any) -> None:
    """`compile_shapes` adds no conditions, and its code compares what a PrimFunc needs."""
    mod = _without_shape(_module(M, K, K, around=True))
    x = np.arange(3, dtype="float32")
    with Session(compile_shapes(mod, strategy)) as session:
        np.testing.assert_allclose(session(x, x + 1).numpy(), np.exp(x + x + 1), rtol=1e-5)
        with pytest.raises(ValueError, match="Mismatched"):
            session(x, np.ones(4, "float32"))


def test_symbols_that_always_differ_are_refused() -> None:
    text = "the call of add of float32[m], float32[m + 1]: extent 0 of operand 1 is m + 1, expected"
    with pytest.raises(ValueError, match="^" + re.escape(text)):
        opinfo.compile(_without_shape(_module(M, M + 1, M)), [])


def _without_shape(mod: Any) -> Any:
    """The module whose symbols the tensors alone define."""
    func = mod["main"]
    new = relax.Function(func.params[:2], func.body, func.ret_ty, func.is_pure, func.attrs)
    return tvm.IRModule(
        {**{g: f for g, f in mod.functions_items()}, mod.get_global_var("main"): new}
    )
