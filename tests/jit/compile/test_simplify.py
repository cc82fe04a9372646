"""Divisions by symbols go where ranges decide them, and stay where they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, s_tir
from tvm.ir import Op

from opinfo.jit.compile.compile_shapes import fused
from opinfo.jit.kernels.simplify import DIVISIONS, simplified
from tests.common.interpret import interpret

from ..legalised import kernel, module

RESHAPE = Op.get("relax.reshape")
#: Shapes before and after; a name is a symbol, -1 what is left.
RESHAPES: list[tuple[Any, Any]] = [
    ((1, "n", 256), (-1, 256)), (("n", 12), (1, -1, 4, 3)), ((1, 4, "n", 6), (4, -1, 6)),
    ((1, 4, 6, "n"), (4, 6, -1)), ((4, "n", "n"), (1, 4, "n", "n")), ((2, "n", 6), (-1, 6)),
    ((2, 6, "n"), (6, -1, 2)), (("n", 4), (2, -1)), (("n", "m", 3), (-1, 3)),
]  # fmt: skip


def divisions(func: Any) -> int:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (DIVISIONS, found.append))
    return len(found)


def one(func: Any) -> Any:
    return simplified(tvm.IRModule({"f": func}))["f"]


def reshape(before: Any, after: Any) -> Any:
    """The PrimFunc of a reshape; a name is a symbol."""

    def build(x: Any) -> Any:
        (v,) = {e for e in x.ty.shape if not isinstance(e, tvm.tirx.IntImm)} if "n" in after \
            else (None,)  # fmt: skip
        return relax.op.reshape(x, [v if e == "n" else e for e in after])

    return kernel(build, [before])


@pytest.mark.parametrize("number", range(len(RESHAPES)))
def test_a_reshape_moves_the_elements_that_it_moved(number: int) -> None:
    before, after = RESHAPES[number]
    func = reshape(before, after)
    made = one(func)
    for n, m in ((1, 1), (2, 3), (6, 2)):
        shape = [{"n": n, "m": m}.get(e, e) for e in before]
        x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        (was,) = interpret(func, [x], {"n": n, "m": m})
        np.testing.assert_array_equal(interpret(made, [x], {"n": n, "m": m})[0], was)
        np.testing.assert_array_equal(was.ravel(), x.ravel())


@pytest.mark.parametrize("number", range(5))
def test_one_that_only_regroups_units_has_none_left(number: int) -> None:
    func = reshape(*RESHAPES[number])
    assert divisions(func) and not divisions(one(func))


def indexed(index: Callable[..., Any]) -> Any:
    """``y[i, j] = x[index(i, j, n, m)]`` over n × m."""
    from tvm import tirx

    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    x, y = (tirx.decl_buffer(s, "float32", name=k) for k, s in (("x", (n,)), ("y", (n, m))))
    zero = tirx.IntImm("int64", 0)
    i, j, vi, vj = (tirx.Var(k, "int64") for k in ("i", "j", "vi", "vj"))
    ranges = [tvm.ir.Range.from_min_extent(zero, e) for e in (n, m)]
    ivs = [tirx.IterVar(r, v, 0) for r, v in zip(ranges, (vi, vj), strict=True)]
    at = index(vi, vj, n, m)
    store = tirx.BufferStore(y, tirx.BufferLoad(x, [at]), [vi, vj])
    block = s_tir.SBlock(ivs, [], [], "y", store)
    body: Any = s_tir.SBlockRealize([i, j], True, block)
    for v, e in ((j, m), (i, n)):
        body = tirx.For(v, zero, e, tirx.ForKind.SERIAL, body)
    root = s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], "root", body))
    return tirx.PrimFunc([x, y], root).with_attr("s_tir", True)


@pytest.mark.parametrize("index, left", [
    (lambda i, j, n, m: i % n, 0),
    (lambda i, j, n, m: (j + i * m) // m, 0),
    (lambda i, j, n, m: (i + 1) % n, 1),
    (lambda i, j, n, m: (i * 2 + j // m) % n, 1),
    (lambda i, j, n, m: j % n, 1),
    (lambda i, j, n, m: (i * m + i) // m % n, 2),
])  # fmt: skip
def test_only_what_a_range_decides_goes(index: Any, left: int) -> None:
    func = indexed(index)
    made = one(func)
    assert divisions(made) == left
    for n, m in ((1, 1), (3, 2), (2, 5), (5, 5)):
        x = np.arange(n, dtype="float32") + 1
        sizes = {"n": n, "m": m}
        want, got = (interpret(f, [x], sizes) for f in (func, made))
        np.testing.assert_array_equal(got[0], want[0])


def test_a_reshape_beside_a_transpose_is_one_function() -> None:
    def build(x: Any) -> Any:
        heads = relax.op.reshape(x, [1, x.ty.shape[0], 4, 3])
        return relax.op.permute_dims(heads, [0, 2, 1, 3])

    mod = relax.transform.LegalizeOps()(module(build, [("n", 12)]))
    assert sum(isinstance(f, tvm.tirx.PrimFunc) for f in mod.functions.values()) == 2
    made = fused(mod)
    calls: list[Any] = []
    relax.analysis.post_order_visit(made["main"], lambda e: calls.append(e) if isinstance(
        e, tvm.ir.Call) and isinstance(e.op, Op) else None)  # fmt: skip
    assert [c.op.name for c in calls] == ["relax.call_tir"]


def test_a_view_that_several_take_is_made_once() -> None:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, tvm.tirx.Var("n", "int64"), 8), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.nn.softmax(x))
            flat = [bb.emit(relax.op.reshape(y, (-1, 8))) for _ in range(3)]
            out = bb.emit_output(relax.Tuple([bb.emit(relax.op.nn.softmax(v)) for v in flat]))
        bb.emit_func_output(out)
    (block,) = fused(relax.transform.LegalizeOps()(bb.get()))["main"].body.blocks
    views = [b for b in block.bindings
             if isinstance(b.value, relax.Call) and b.value.op == RESHAPE]  # fmt: skip
    assert len(views) == 1
