"""Kernels of PrimFuncs with symbolic axes: right for several sizes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis import Refusal
from opinfo.byoc.backends.nvidia.schedules.gpu_schedule import gpu_scheduled
from opinfo.byoc.backends.nvidia.tvm_schedules import scheduled

from ...common.interpret import interpret
from ...common.machine import execute
from .gpu_cases import TARGET, kernel_of, prim_func

nn, op = relax.op.nn, relax.op
Build = Callable[..., Any]
N, M = (tirx.Var(name, "int64") for name in "nm")


def _norm(e: Any, x: Any, r: Any, w: Any, b: Any) -> Any:
    return e(nn.layer_norm(e(op.add(x, r)), w, b, axes=[-1], epsilon=1e-5))


def _joined(e: Any, token: Any, x: Any) -> Any:
    first = e(op.broadcast_to(token, relax.ShapeExpr([N, 1, 32])))
    return e(op.concat((first, x), axis=1))


#: The graph, and the shapes of its inputs.
CASES: dict[str, tuple[Build, tuple[tuple[Any, ...], ...]]] = {
    "norm of a sum": (_norm, ((N, M, 48), (N, M, 48), (48,), (48,))),
    "gelu": (lambda e, x: e(nn.gelu(x)), ((N, M, 40),)),
    "positions": (lambda e, x, p: e(op.add(x, p)), ((N, M, 32), (1, M, 32))),
    "heads": (lambda e, x: e(op.permute_dims(x, [0, 2, 1, 3])), ((N, M, 3, 16),)),
    "embedding": (lambda e, i, t: e(op.take(t, i, axis=0)), ((N, M, "int64"), (9, 32))),
    "a token before others": (_joined, ((1, 1, 32), (N, M, 32))),
    "rows of a product of sizes": (lambda e, x: e(nn.softmax(x, axis=-1)), ((N * M, N, M, 64),)),
}  # fmt: skip


def _given(func: Any, sizes: dict[str, int]) -> list[Any]:
    rng, out = np.random.default_rng(0), []
    *inputs, _ = [p for p in func.params if hasattr(p.ty, "shape")]
    for p in inputs:
        shape = [_number(e, sizes)
                 for e in p.ty.shape]  # fmt: skip
        floats = str(p.ty.dtype).startswith("float")
        out.append(rng.standard_normal(shape) if floats else rng.integers(0, 9, shape))
    return out


def _number(expr: Any, sizes: dict[str, int]) -> int:
    if isinstance(expr, tirx.Var):
        return sizes[expr.name]
    if isinstance(expr, tirx.Mul):
        return _number(expr.a, sizes) * _number(expr.b, sizes)
    return int(expr)


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_is_right_for_all_sizes(name: str) -> None:
    build, shapes = CASES[name]
    func = prim_func(build, *shapes, dtype="float32")
    kernel = kernel_of(func)
    for sizes in (
        {"n": 2, "m": 3},
        {"n": 1, "m": 5},
        {"n": 3, "m": 1},
        {"n": 0, "m": 3},
        {"n": 2, "m": 0},
    ):
        given = _given(func, sizes)
        for got, want in zip(execute(kernel, given, sizes), interpret(func, given, sizes),
                             strict=True):  # fmt: skip
            np.testing.assert_allclose(got, want, 1e-6, 1e-9)


def test_barriers_are_placed_where_a_kernel_may_not_be_launched() -> None:
    """TVM places none under a condition: see `with_blocks`."""
    func = prim_func(lambda e, x: e(op.permute_dims(x, [0, 2, 1])), (N, 64, 96))
    main = kernel_of(func).with_attr("global_symbol", "main")
    target = tvm.target.Target(TARGET, host="llvm")
    (kernels,) = tvm.compile(tvm.IRModule({"main": main}), target=target).mod.imports
    assert kernels.inspect_source().count("__syncthreads()") == 1


REFUSED: dict[str, tuple[Build, tuple[tuple[Any, ...], ...], str]] = {
    "a sum along one": (lambda e, x: e(op.sum(x, [1])), ((N, M, 64),), "along a symbolic axis"),
    "few elements": (lambda e, x: e(nn.relu(x)), ((N, M, 4),), "few elements"),
    "a product": (lambda e, x, w: e(op.matmul(x, w)), ((N, 64), (64, 64)), "product of matrices"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_its_reason(name: str) -> None:
    build, shapes, reason = REFUSED[name]
    refusal = gpu_scheduled(prim_func(build, *shapes))
    assert isinstance(refusal, Refusal) and reason in refusal.reason


def test_sizes_that_are_computed_are_variables_to_rules_of_tvm() -> None:
    """A softmax over n // 2 * m + 1 positions, which attention needs that is not one kernel."""
    count = N // 2 * M + 1
    func = prim_func(lambda e, x, _: e(nn.softmax(x)), (3, count), (N, M), dtype="float32")
    mod = scheduled(tvm.IRModule({"main": func}), TARGET)
    kernel = mod["main"]
    for sizes in ({"n": 4, "m": 3}, {"n": 1, "m": 5}, {"n": 300, "m": 9}):
        n = sizes["n"] // 2 * sizes["m"] + 1
        x = np.random.default_rng(0).standard_normal((3, n))
        (got,) = execute(kernel, [x], {**sizes, "size_0": n})
        want = np.exp(x - x.max(-1, keepdims=True))
        np.testing.assert_allclose(got, want / want.sum(-1, keepdims=True), 1e-6, 1e-9)
