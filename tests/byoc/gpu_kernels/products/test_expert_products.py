"""Products of rows with matrices of their experts: kernels of few rows, against numpy.

`tests.common.machine` executes the kernels. The PrimFuncs are written as language models have them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from benchmarks.gpu.language import experts
from benchmarks.gpu.language.experts import HALF, PACKED
from opinfo.analysis import Refusal
from opinfo.analysis.composites import group_dequantize
from opinfo.byoc.backends.nvidia.experts.expert_kernel import expert_scheduled
from opinfo.byoc.backends.nvidia.experts.fuse_experts import fuse_experts
from opinfo.byoc.backends.nvidia.grouped_weights.packed_products import fuse_packed
from opinfo.byoc.backends.nvidia.tvm_schedules import scheduled
from opinfo.byoc.prepare.fuse import fuse

from ....common.machine import execute
from ....common.prim_funcs import prim_funcs
from ..gpu_cases import TARGET
from .test_packed_products import dispatched


def prim_func(text: str, rows: int = 3, shared: bool = False, **parts: Any) -> Any:
    """A PrimFunc over 4 experts; ``shared``: all rows have the same activations."""
    return experts.prim_func(text, rows, shared, **{"experts": 4, "n": 8, "k": 256, **parts})


def operands(packed: bool, rows: int, shared: bool, n: int, k: int) -> list[Any]:
    """Random operands."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1 if shared else rows, k))
    ids = rng.integers(0, 4, (1, rows), "int32")
    if not packed:
        return [x, rng.standard_normal((4, n, k)), ids]
    words = rng.integers(0, 2**32, (4, n, k // 8), "uint32")
    return [x, words, rng.random((4, n, k // 32)), ids]


def multiplied(values: list[Any]) -> Any:
    """The result by numpy."""
    x, w, *scale, ids = values
    if scale:
        digits = (w[..., None] >> (4 * np.arange(8, dtype="uint32"))) & 15
        w = (digits.reshape(*w.shape[:2], -1) - 7.0) * scale[0].repeat(32, -1)
    return np.stack([np.broadcast_to(x, (ids.size, x.shape[1]))[r] @ w[e].T
                     for r, e in enumerate(ids[0])])  # fmt: skip


@pytest.mark.part
@pytest.mark.parametrize("packed", [False, True], ids=["halves", "packed"])
@pytest.mark.parametrize(
    ("rows", "shared", "n", "k"), [(2, True, 8, 256), (3, False, 8, 256), (2, False, 4, 4352)]
)
def test_rows_are_multiplied_with_matrices_of_their_experts(
    packed: bool, rows: int, shared: bool, n: int, k: int
) -> None:
    func = prim_func(PACKED if packed else HALF, rows, shared, n=n, k=k)
    values = operands(packed, rows, shared, n, k)
    kernel = expert_scheduled(func)
    assert kernel, kernel
    np.testing.assert_allclose(execute(kernel, values)[0], multiplied(values), 1e-9, 1e-9)


@pytest.mark.part
@pytest.mark.parametrize("packed", [False, True], ids=["halves", "packed"])
@pytest.mark.parametrize(("rows", "n", "k"), [(40, 64, 128), (150, 128, 64)])
def test_many_rows_are_multiplied_on_tensor_cores(packed: bool, rows: int, n: int, k: int) -> None:
    """Rows of four experts in any order; one expert has several tiles, one has no rows."""
    func = prim_func(PACKED if packed else HALF, rows, n=n, k=k)
    values = operands(packed, rows, False, n, k)
    values[-1][0] = np.random.default_rng(1).choice(4, rows, p=[0.1, 0, 0.7, 0.2])
    kernel = expert_scheduled(func)
    assert not isinstance(kernel, Refusal)
    assert "tvm_mma_sync" in kernel.script()
    np.testing.assert_allclose(execute(kernel, values)[0], multiplied(values), 1e-9, 1e-9)


@pytest.mark.parametrize(("rows", "n", "part"), [(3, 8, "reinterpret"), (40, 64, "tvm_mma_sync")])
def test_a_module_gets_the_kernel(rows: int, n: int, part: str) -> None:
    mod = tvm.IRModule({"main": prim_func(PACKED, rows, n=n).with_attr("global_symbol", "main")})
    assert part in str(scheduled(mod, TARGET)["main"].script())


def net(rows: int, shared: bool = False) -> Any:
    """A module in Relax operators: matrices of experts are dequantised, gathered and multiplied."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1 if shared else rows, 256), "float16"))
    words = relax.Var("w", relax.TensorType((4, 64, 32), "uint32"))
    scale = relax.Var("s", relax.TensorType((4, 64, 8), "float16"))
    ids = relax.Var("ids", relax.TensorType((1, rows), "int32"))
    with bb.function("main", [x, words, scale, ids]):
        with bb.dataflow():
            w = bb.emit(group_dequantize(words, scale, bits=4, group_size=32, axis=2, offset=7.0))
            w = bb.emit(relax.op.take(w, bb.emit(relax.op.reshape(ids, (rows,))), 0, mode="fast"))
            out = bb.emit_output(relax.op.einsum((x, w), "uk,rnk->rn" if shared else "rk,rnk->rn"))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.parametrize("rows", [2, 40])
def test_gathered_matrices_are_fused_into_their_product(rows: int) -> None:
    mod = fuse_experts(fuse_packed(fuse(dispatched(net(rows)).module)))
    funcs = [f for f in prim_funcs(mod) if len(f.params) == 5]
    assert len(funcs) == 1 and len(prim_funcs(mod)) == 2  # and the shape of the numbers
    values = operands(True, rows, False, 64, 256)
    x, words, scale, ids = values
    ordered = [words, scale, ids.reshape(-1), x]
    (got,) = execute(expert_scheduled(funcs[0]), ordered)
    np.testing.assert_allclose(got, multiplied(values), 1e-9, 1e-9)


def calling(func: Any) -> Any:
    """A module whose function calls a PrimFunc."""
    bb = relax.BlockBuilder()
    gvar = bb.add_func(func.without_attr("global_symbol"), "experts")
    types = [relax.TensorType([int(e) for e in p.ty.shape], str(p.ty.dtype)) for p in func.params]
    names = [p.name for p in func.params]
    params = [relax.Var(n, t) for n, t in zip(names[:-1], types[:-1], strict=True)]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(relax.call_tir(gvar, params, out_ty=types[-1]))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.parametrize("text", [HALF, PACKED], ids=["halves", "packed"])
def test_what_is_written_for_threads_runs_on_a_cpu(text: str) -> None:
    """LLVM has no threads: the call becomes operators, of which a gather stores matrices."""
    values = operands(text == PACKED, 3, False, 8, 256)
    halves = [v.astype("float16") if v.dtype == np.float64 else v for v in values]
    exact = multiplied([v.astype(float) if v.dtype == np.float16 else v for v in halves])
    got = opinfo.compile(calling(prim_func(text)), ["tvm"]).run(*halves)
    np.testing.assert_allclose(np.asarray(got, float), exact, atol=0.01 * np.abs(exact).max())


@pytest.mark.parametrize("text", [HALF, PACKED], ids=["halves", "packed"])
def test_calls_of_prim_funcs_are_one_kernel_on_a_gpu(text: str) -> None:
    mod = fuse_experts(fuse_packed(fuse(dispatched(calling(prim_func(text))).module)))
    assert any(expert_scheduled(f) for f in prim_funcs(mod))


@pytest.mark.parametrize("text", [HALF, PACKED])
def test_parameters_that_may_overlap_are_refused(text: str) -> None:
    refused = expert_scheduled(prim_func(text).without_attr("tirx.noalias"))
    assert not refused and "overlap" in refused.reason


@pytest.mark.parametrize(
    ("text", "parts", "reason"),
    [
        (PACKED, {"scale": "2 - ve"}, "not a chain of operators"),
        (HALF, {"row": "2 - ve"}, "not a chain of operators"),
        (HALF, {"rows": 9}, "do not fill tiles"),
        (HALF, {"rows": 9, "shared": True, "n": 64}, "each with its own"),
        (HALF, {"k": 100}, "in rows of vectors"),
    ],
)
def test_other_products_are_refused(text: str, parts: dict[str, Any], reason: str) -> None:
    refused = expert_scheduled(prim_func(text, **parts))
    assert not refused and reason in refused.reason
