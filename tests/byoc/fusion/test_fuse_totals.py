"""Rows that their totals scale are one kernel, where threads still access neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

from opinfo.byoc.backends.nvidia.passes.fuse_rows import fuse_rows
from opinfo.byoc.backends.nvidia.passes.fuse_totals import fuse_totals
from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.prepare.prepare import prepare

from ...common.machine import execute
from ...common.prim_funcs import prim_funcs
from ..gpu_kernels.gpu_cases import Build, check, kernel_of, net, op, rule_of


def unit_rows(e: Any, x: Any, axis: int = -1) -> Any:
    """The rows of x divided by their lengths, written in operators."""
    wide = e(op.astype(x, "float32"))
    length = e(op.sqrt(e(op.sum(e(op.multiply(wide, wide)), [axis], keepdims=True))))
    return e(op.astype(e(op.divide(wide, e(op.add(length, relax.const(1e-6))))), "float16"))


def head(e: Any, x: Any) -> Any:
    """The second half of the channels, with the pixels innermost."""
    half = e(op.strided_slice(x, [2], [128], [256]))
    return e(op.permute_dims(half, [0, 2, 1]))


def columns(e: Any, x: Any) -> Any:
    """What XCiT does to its keys: pixels are reduced, and channels are innermost at both ends."""
    return e(op.permute_dims(unit_rows(e, head(e, x)), [0, 2, 1]))


def length_too(e: Any, x: Any) -> Any:
    total = e(op.sum(x, [-1], keepdims=True))
    return e(relax.Tuple([e(op.add(x, total)), e(op.exp(total))]))


def unit_numpy(x: Any, axis: int = -1) -> Any:
    x = x.astype("float16").astype("float64")
    return x / (np.sqrt((x * x).sum(axis, keepdims=True)) + 1e-6)


def modules(build: Build, *shapes: tuple[int, ...]) -> tuple[Any, Any]:
    """A module before and after the pass."""
    before = fuse_rows(fuse(prepare(net(build, *shapes))))
    return before, fuse_totals(before)


@pytest.mark.parametrize(("build", "shape", "rule", "expected"), [
    (unit_rows, (2, 70, 72), "rows", unit_numpy),
    (lambda e, x: e(op.permute_dims(unit_rows(e, x), [0, 2, 1])), (2, 70, 72), "rows",
     lambda x: unit_numpy(x).transpose(0, 2, 1)),  # scattered stores, of few bytes
    (columns, (2, 36, 256), "columns", lambda x: unit_numpy(x[:, :, 128:], 1)),
])  # fmt: skip
def test_a_norm_in_operators_is_one_kernel(
    build: Build, shape: tuple[int, ...], rule: str, expected: Any
) -> None:
    before, after = modules(build, shape)
    assert len(prim_funcs(before)) >= 2
    (func,) = prim_funcs(after)
    kernel = kernel_of(func)
    assert rule_of(func) == rule and "T.vectorized" in kernel.script()
    check(func, kernel)
    x = np.random.default_rng(3).standard_normal(shape)
    (got,) = execute(kernel, [x])
    np.testing.assert_allclose(got, expected(x), atol=2e-3)


@pytest.mark.parametrize(("build", "shape"), [
    (length_too, (2, 70, 72)),  # what follows reads the totals again
    (unit_rows, (2, 12, 72)),  # few rows: one kernel would have few threads
    (lambda e, x: e(op.permute_dims(unit_rows(e, x), [0, 2, 1])), (64, 70, 72)),  # scattered stores
    (lambda e, x: e(op.sum(e(op.sum(x, [-1])), [-1])), (2, 70, 72)),  # a total of totals
])  # fmt: skip
def test_kernels_that_stay_apart(build: Build, shape: tuple[int, ...]) -> None:
    before, after = modules(build, shape)
    assert after.same_as(before) and len(prim_funcs(before)) >= 2


def test_a_transpose_that_another_kernel_reads_stays() -> None:
    def build(e: Any, x: Any) -> Any:
        turned = head(e, x)
        unit = e(op.permute_dims(unit_rows(e, turned), [0, 2, 1]))
        return e(relax.Tuple([unit, turned]))

    before, after = modules(build, (2, 36, 256))
    assert len(prim_funcs(after)) == 2 < len(prim_funcs(before))


def test_calls_keep_their_order_around_an_effect() -> None:
    before, _ = modules(unit_rows, (2, 70, 72))
    main = before["main"]
    printed = relax.VarBinding(relax.Var("p", relax.TupleType([])), relax.op.print(
        *main.params, format="{}"))  # fmt: skip
    impure = relax.VarBinding(
        relax.Var("q", relax.ObjectType()),
        relax.Call(
            relax.ExternFunc("vm.builtin.unknown"), list(main.params), ty_args=[relax.ObjectType()]
        ),
    )
    block = relax.BindingBlock([printed, impure])
    body = relax.SeqExpr([*main.body.blocks, block], main.body.body)
    mod = before.clone()
    mod.update_func(before.get_global_var("main"), relax.Function(
        main.params, body, main.ret_ty, False, main.attrs))  # fmt: skip
    names = {g.name_hint for g, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
    after = fuse_totals(mod)
    assert {g.name_hint for g, f in after.functions_items()
            if isinstance(f, tirx.PrimFunc)} == names  # fmt: skip
