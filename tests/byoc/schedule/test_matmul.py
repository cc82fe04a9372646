"""Scheduled products compute what numpy does, over shapes that no tile divides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from opinfo.byoc.codegen.vector_units import machine
from opinfo.byoc.dims.span import Span
from opinfo.byoc.schedule.schedule import schedule
from opinfo.byoc.schedule.scheduled import Scheduled
from opinfo.jit.aot.kernel_variants import Ranged
from opinfo.jit.aot.merge import merge

from .fused import WIDTHS, at, built, fused_one, inputs, run, scheduled, target_of

op, nn = relax.op, relax.op.nn
SIZES = (1, 2, 3, 7, 13, 33, 64)


def dense(emit: Any, x: Any, w: Any, b: Any, r: Any) -> Any:
    return nn.relu(emit(op.add(emit(op.add(emit(op.matmul(x, w)), b)), r)))


DENSE: list[Any] = [["n", 33], [33, 50], [50], ["n", 50]]


def dense_of(x: Any, w: Any, b: Any, r: Any) -> Any:
    return np.maximum(x @ w + b + r, 0)


def check(kernel: Any, arrays: list[Any], expected: Any, tol: float = 1e-4) -> None:
    np.testing.assert_allclose(run(kernel, arrays)[0], expected, rtol=tol, atol=tol)


def test_symbolic_rows_with_an_epilogue() -> None:
    func = fused_one(DENSE, dense)
    found = scheduled(func)
    assert found.rules == ("contraction",) and not found.reasons
    kernel = built(found.func)
    for n in SIZES:
        arrays = inputs(func, {"n": n})
        check(kernel, arrays, dense_of(*arrays[:-1]))


@pytest.mark.parametrize("n", [1, 7, 33])
def test_static_rows(n: int) -> None:
    func = fused_one(DENSE, dense)
    found = scheduled(at(func, {"n": n}))
    arrays = inputs(func, {"n": n})
    check(built(found.func), arrays, dense_of(*arrays[:-1]))


@pytest.mark.parametrize("n", [1, 3, 17, 31])
def test_static_columns(n: int) -> None:
    func = fused_one([[5, 9], [9, n]], lambda emit, x, w: op.matmul(x, w))
    arrays = inputs(func, {})
    check(built(scheduled(func).func), arrays, arrays[0] @ arrays[1])


def test_batch_rows_columns_and_depth_are_symbolic() -> None:
    func = fused_one([["b", "n", "k"], ["b", "k", "m"]], lambda emit, x, w: op.matmul(x, w))
    kernel = built(scheduled(func).func)
    for n, m, k in [
        (1, 1, 1),
        (2, 33, 3),
        (13, 7, 5),
        (2, 4, 6),
        (7, 64, 64),
        (64, 31, 1),
        (3, 16, 17),
    ]:
        arrays = inputs(func, {"b": 2, "n": n, "m": m, "k": k})
        check(kernel, arrays, arrays[0] @ arrays[1])


@pytest.mark.parametrize(
    ("n", "width", "packed"), [(128, 1024, True), (117, 1024, True), (33, 1024, False),
                               (128, 1016, False)])  # fmt: skip
def test_columns_that_share_sets_of_a_cache_and_are_used_often_are_packed(
    n: int, width: int, packed: bool
) -> None:
    func = fused_one([["n", 512], [512, width]], lambda emit, x, w: op.matmul(x, w))
    found = scheduled(at(func, {"n": n})).func
    assert ("strip" in found.script()) == packed
    arrays = inputs(func, {"n": n})
    check(built(found), arrays, arrays[0] @ arrays[1], 1e-3)


def test_a_strip_is_of_one_core_and_for_many_rows() -> None:
    func = fused_one([["n", 512], [512, 1024]], lambda emit, x, w: op.matmul(x, w))
    for cores, packed in [(1, True), (2, False)]:
        cpu = tvm.target.Target({"kind": "llvm", "mcpu": "haswell", "num-cores": cores})
        assert ("strip" in scheduled(at(func, {"n": 128}), cpu).func.script()) == packed
    assert "strip" not in scheduled(func).func.script()


def test_tiles_fit_vectors_of_32_bytes() -> None:
    """The tiles of a CPU with 16 registers of 256 bits."""
    func = fused_one(DENSE, dense)
    text = scheduled(func, target_of("haswell")).func.script()
    assert "vectorized(T.int64(8))" in text and "vectorized(T.int64(16))" not in text
    kernel = built(scheduled(func, target_of("haswell")).func)
    for n in (1, 13):
        arrays = inputs(func, {"n": n})
        check(kernel, arrays, dense_of(*arrays[:-1]))


@pytest.mark.parametrize("dtype, out, tol", [("int8", "int32", 0), ("float16", "float16", 3e-2)])
def test_products_of_other_dtypes_are_computed(dtype: str, out: str, tol: float) -> None:
    func = fused_one([["n", 33], [33, 20]], lambda emit, x, w: op.matmul(x, w, out_dtype=out),
                     [dtype, dtype])  # fmt: skip
    kernel = built(scheduled(func).func)
    for n in (1, 13):
        arrays = inputs(func, {"n": n})
        x, w = (a.astype("float64") for a in arrays[:2])
        check(kernel, arrays, x @ w, tol)


def test_a_part_of_the_epilogue_is_used_twice() -> None:
    def silu(emit: Any, x: Any, w: Any) -> Any:
        return nn.silu(emit(op.matmul(x, w)))

    func = fused_one([["n", 12], [12, 40]], silu)
    found = scheduled(func)
    assert found.rules == ("contraction",)
    kernel = built(found.func)
    for n in (1, 13):
        arrays = inputs(func, {"n": n})
        y = arrays[0] @ arrays[1]
        check(kernel, arrays, y / (1 + np.exp(-y)))


def test_an_epilogue_of_one_element_at_a_time() -> None:
    """TVM makes no vectors of the error function."""

    def gelu(emit: Any, x: Any, w: Any) -> Any:
        return nn.gelu(emit(op.matmul(x, w)))

    func = fused_one([["n", 12], [12, 20]], gelu)
    kernel = built(scheduled(func).func)
    arrays = inputs(func, {"n": 5})
    import torch

    y = torch.nn.functional.gelu(torch.from_numpy(arrays[0] @ arrays[1])).numpy()
    check(kernel, arrays, y)


def test_few_rows_are_computed_in_smaller_tiles() -> None:
    """Each number of rows below and above the tile of 6, also where the axis has two dimensions."""
    func = fused_one([["b", "n", 24], [24, 80]], lambda emit, x, w: op.matmul(x, w))
    kernel = built(scheduled(func).func)
    for b, n in [(1, 1), (1, 2), (1, 4), (1, 5), (1, 6), (2, 4), (3, 3), (5, 2), (1, 11), (1, 12)]:
        arrays = inputs(func, {"b": b, "n": n})
        check(kernel, arrays, arrays[0] @ arrays[1])


def test_accumulators_of_all_tiles_stay_in_registers() -> None:
    """TVM lets tiles share memory, and puts shared arrays of 1024 bytes on the heap."""
    func = fused_one([["n", 64], [64, 256]], lambda emit, x, w: op.matmul(x, w))
    guarded = merge(func, [Ranged(scheduled(func).func, {"n": Span(1)})])
    mod = tvm.IRModule({"main": guarded.with_attr("global_symbol", "main")})
    module = tvm.tirx.build(mod, target=target_of("skylake-avx512"))
    assert "TVMBackendAllocWorkspace" not in module.inspect_source("ll")


@pytest.mark.part
@pytest.mark.parametrize("mcpu", WIDTHS)
@pytest.mark.parametrize("columns", [24, 512])
def test_the_tiles_of_symbolic_rows_fit_the_registers(mcpu: str, columns: int) -> None:
    func = fused_one([["n", 64], [64, columns]], lambda emit, x, w: op.matmul(x, w))
    units = machine(target_of(mcpu))
    assert units is not None
    sums: list[float] = []

    def tile(stmts: Any) -> None:
        arrays = [s.buffer for s in stmts.seq if isinstance(s, tvm.tirx.AllocBuffer)]
        if arrays:
            sums.append(sum(int(b.shape[0]) for b in arrays) / units.lanes("float32"))

    found = schedule(func, target_of(mcpu))
    assert isinstance(found, Scheduled)
    tvm_ffi.structural_walk(found.func.body, (tvm.tirx.SeqStmt, tile))
    # Beside six rows of sums, registers hold the vectors of a row of w and an element of x.
    assert max(sums) >= units.registers / 2
    assert max(sums) + max(sums) / 6 + 1 <= units.registers
