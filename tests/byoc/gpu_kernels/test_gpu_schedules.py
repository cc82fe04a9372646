"""Schedules for GPUs: the kernel that each PrimFunc becomes computes what the PrimFunc does.

`tests.common.machine` executes the kernels thread by thread; the oracle is
`tests.common.interpret`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from opinfo.analysis import Refusal
from opinfo.analysis.lifting.tir.node import NodeDict, substitute
from opinfo.byoc.backends.nvidia.passes.fuse_rows import fuse_rows
from opinfo.byoc.backends.nvidia.passes.valid_names import with_valid_names
from opinfo.byoc.backends.nvidia.schedules.gpu_schedule import (
    DONE,
    directly_scheduled,
    gpu_scheduled,
)
from opinfo.byoc.backends.nvidia.tvm_schedules import scheduled, with_scans
from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.prepare.prepare import prepare

from ...common.machine import execute
from ...common.prim_funcs import prim_funcs
from .gpu_cases import (
    TARGET,
    Build,
    check,
    depthwise,
    group_norm,
    kernel_of,
    net,
    nn,
    op,
    pool,
    prim_func,
    prove,
    rule_of,
)


def norm(e: Any, x: Any, w: Any, b: Any) -> Any:
    return e(nn.layer_norm(x, w, b, axes=[-1], epsilon=1e-5))


#: Name: the rule, whether the kernel is proved, the graph, and the shapes.
CASES: dict[str, tuple[str, bool, Build, tuple[tuple[Any, ...], ...]]] = {
    "bias, gelu": ("pointwise", True, lambda e, x, b: e(nn.gelu(e(op.add(x, b)))),
                   ((3, 24), (24,))),
    "odd extents": ("pointwise", True, lambda e, x, y: e(op.add(x, y)), ((7, 13), (7, 13))),
    "heads": ("pointwise", True, lambda e, x: e(op.permute_dims(x, [0, 2, 1, 3])),
              ((2, 5, 3, 16),)),
    "embedding": ("pointwise", True, lambda e, i, t: e(op.take(t, i, axis=0)),
                  ((2, 5, "int64"), (9, 24))),
    "concat": ("pointwise", True, lambda e, x, y: e(op.concat([x, y], axis=1)),
               ((2, 3, 16), (2, 5, 16))),
    "concat, innermost": ("pointwise", True, lambda e, x, y: e(op.concat([x, y], axis=1)),
                          ((2, 12), (2, 20))),
    "pad": ("pointwise", True, lambda e, x: e(nn.pad(x, [0, 0, 1, 1, 1, 1, 0, 0])),
            ((2, 5, 5, 16),)),
    "pool": ("pointwise", False, pool, ((2, 9, 9, 16),)),
    "depthwise": ("windows", False, depthwise, ((1, 4, 4, 16), (3, 3, 16, 1))),
    "residual, norm": ("rows", True, lambda e, x, r, w, b: norm(e, e(op.add(x, r)), w, b),
                       ((2, 3, 72), (2, 3, 72), (72,), (72,))),
    "softmax, odd": ("rows", False, lambda e, x: e(nn.softmax(x)), ((2, 3, 37),)),
    "group norm": ("rows", True, group_norm, ((2, 3, 4, 32), (32,), (32,))),
    "sum of rows": ("rows", False, lambda e, x: e(op.sum(x, [-1])), ((4, 264),)),
    "mean of pixels": ("columns", False, lambda e, x: e(op.mean(x, [1, 2])), ((2, 7, 7, 64),)),
    "argmax": ("rows", False, lambda e, x: e(op.argmax(x, -1)), ((3, 100),)),
    "argmin": ("rows", False, lambda e, x: e(op.argmin(x, -1)), ((2, 264),)),
    "argmax of channels": ("pointwise", False, lambda e, x: e(op.argmax(x, 1)), ((2, 21, 4, 16),)),
    "softmax of channels": ("short columns", False, lambda e, x: e(nn.softmax(x, axis=1)),
                            ((2, 21, 4, 16),)),
    "log softmax, short": ("few rows", False, lambda e, x: e(nn.log_softmax(x)), ((9, 10),)),
    "softmax of columns": ("columns", False, lambda e, x: e(nn.softmax(x, axis=1)),
                           ((2, 40, 48),)),
    "image": ("narrow", True, lambda e, x: e(op.permute_dims(x, [0, 2, 3, 1])), ((2, 3, 8, 12),)),
    "image, widened": ("narrow", True, lambda e, x: e(op.astype(
        e(op.permute_dims(x, [0, 2, 3, 1])), "float32")), ((2, 3, 8, 12),)),
    "image, padded": ("narrow", True, lambda e, x: e(nn.pad(
        e(op.permute_dims(x, [0, 2, 3, 1])), [0, 0, 0, 0, 0, 0, 0, 1])), ((2, 3, 8, 12),)),
    "image, centred": ("narrow", True, lambda e, x, m: e(nn.pad(e(op.permute_dims(
        e(op.subtract(x, m)), [0, 2, 3, 1])), [0, 0, 0, 0, 0, 0, 1, 0])),
        ((2, 3, 8, 12), (3, 1, 1))),
    "transpose": ("transposed", True, lambda e, x: e(op.permute_dims(x, [0, 2, 1])),
                  ((1, 20, 72),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_kernel_computes_what_its_prim_func_does(name: str) -> None:
    rule, proved, build, shapes = CASES[name]
    func = prim_func(build, *shapes)
    before = func.script()
    kernel = kernel_of(func)
    assert rule_of(func) == rule and kernel.attrs[DONE]
    assert kernel.script().count('thread="blockIdx.x"') == 1
    check(func, kernel)
    if proved:
        prove(func, kernel)
    assert func.script() == before


@pytest.mark.parametrize("name", ["bias, gelu", "residual, norm", "pad", "concat", "heads"])
def test_loads_and_stores_have_16_bytes(name: str) -> None:
    _, _, build, shapes = CASES[name]
    text = kernel_of(prim_func(build, *shapes)).script()
    assert text.count("T.vectorized(T.int64(8))") >= 2


def test_channels_padded_to_a_power_of_two_are_vectors_of_a_pixel() -> None:
    """Of rows whose length is one too, TVM made vectors of 8 indices, which CUDA lacks."""
    build, shapes = CASES["image, padded"][2], ((1, 3, 8, 16),)
    text = kernel_of(prim_func(build, *shapes)).script()
    assert "T.vectorized(T.int64(4))" in text
    for line in text.splitlines():
        assert not re.search(r"\bv // |\bv % |\+ v\) [/%]", line), line


@pytest.mark.parametrize(("name", "lanes"), [("image", 8), ("image, padded", 4)])
def test_neighbours_store_vectors_of_pixels_of_whole_images(name: str, lanes: int) -> None:
    """A lane in a quotient by the length of a row would make stores of single elements."""
    kernel = kernel_of(prim_func(CASES[name][2], (2, 3, 224, 224)))
    vectors: list[Any] = []

    def note(loop: Any) -> None:
        if loop.kind == tirx.ForKind.VECTORIZED:
            tvm_ffi.structural_walk(loop, (tirx.BufferStore, lambda s: vectors.append((s, loop))))

    tvm_ffi.structural_walk(kernel.body, (tirx.For, note))
    result = kernel.params[-1]
    stores: list[Any] = []
    tvm_ffi.structural_walk(kernel.body, (tirx.BufferStore, stores.append))
    widths = [int(loop.extent) for s, loop in vectors if s.buffer.same_as(result)]
    assert widths == [lanes] * sum(s.buffer.same_as(result) for s in stores) and widths


def test_long_rows_are_read_again() -> None:
    func = prim_func(lambda e, x: e(nn.softmax(x)), (1, 70000), dtype="float32")
    kernel = kernel_of(func)
    assert rule_of(func) == "long rows" and "_row[" in kernel.script()
    x = np.random.default_rng(0).standard_normal((1, 70000))
    (got,) = execute(kernel, [x])
    want = np.exp(x - x.max())
    np.testing.assert_allclose(got, want / want.sum(), 1e-6)


def test_sums_of_halves_are_accumulated_in_float32() -> None:
    text = kernel_of(prim_func(lambda e, x: e(op.sum(x, [-1])), (4, 64))).script()
    assert "red_acc = T.sblock_alloc_buffer((T.int64(1),), scope=" in text.replace("x0_", "")


def product(e: Any, x: Any, y: Any) -> Any:
    return e(op.matmul(x, y))


def test_products_are_left_to_other_rules() -> None:
    func = prim_func(product, (8, 16), (16, 24))
    refusal = gpu_scheduled(func)
    assert isinstance(refusal, Refusal) and "a product of matrices" in refusal.reason
    check(func, directly_scheduled(func))


def test_parameters_that_may_overlap_are_refused() -> None:
    func = prim_func(lambda e, x: e(nn.relu(x)), (4, 16)).without_attr("tirx.noalias")
    refusal = gpu_scheduled(func)
    assert isinstance(refusal, Refusal) and "noalias" in refusal.reason


def test_what_comes_before_a_norm_is_fused() -> None:
    mod = fuse(prepare(net(lambda e, x, r, w, b: norm(e, e(op.add(x, r)), w, b),
                           (2, 72), (2, 72), (72,), (72,))))  # fmt: skip
    assert len(mod.functions) == 3 and len(fuse_rows(mod).functions) == 2


def test_a_transpose_before_a_norm_is_not_fused() -> None:
    mod = fuse(prepare(net(lambda e, x, w, b: norm(e, e(op.permute_dims(x, [0, 2, 1])), w, b),
                           (2, 72, 40), (72,), (72,))))  # fmt: skip
    assert len(fuse_rows(mod).functions) == len(mod.functions) == 3


def test_names_become_identifiers() -> None:
    func = prim_func(lambda e, x: e(nn.relu(x)), (4, 16))
    old = func.params[0]
    strange: NodeDict[Any] = NodeDict()
    strange[old] = tvm.ir.Var("gpu_0/data_0", old.ty)
    bad = tirx.PrimFunc([strange[old], func.params[1]], substitute(func.body, strange),
                        func.ret_type, func.attrs)  # fmt: skip
    good = with_valid_names(bad)
    assert good.params[0].name == "gpu_0_data_0" and bad.params[0].name == "gpu_0/data_0"
    tvm.ir.assert_structural_equal(good, func)
    assert with_valid_names(func) is func


@pytest.mark.parametrize("scan", ["cumsum", "sort"])
def test_scans_have_operators_again(scan: str) -> None:
    mod = prepare(net(lambda e, x: e(getattr(op, scan)(x, -1)), (4, 50), dtype="float32"))
    assert f"R.{scan}" not in mod.script() and f"R.{scan}" in with_scans(mod).script()


def test_a_rule_that_raises_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> Any:
        raise AssertionError("a consumer is not inlined")

    monkeypatch.setattr(tvm.s_tir.dlight.gpu.Matmul, "apply", fails)
    mod = fuse(prepare(net(product, (64, 64), (64, 64))))
    found = scheduled(mod, TARGET)
    (func,) = prim_funcs(found)
    assert func.attrs[DONE] and "threadIdx.x" in func.script()


def test_iterators_of_two_integer_types_in_a_condition_are_refused() -> None:
    """TVM has no comparison of them; a hand-written PrimFunc has int32."""

    @T.prim_func(private=True, s_tir=True)
    def func(x: T.Buffer((9, 16), "float16"), out: T.Buffer((9, 16), "float16")) -> None:
        T.func_attr({"tirx.noalias": True})
        for i, j in T.grid(9, 16):
            with T.sblock("out"):
                v, w = T.axis.remap("SS", [i, j])
                out[v, 15 - w] = T.if_then_else(T.max(w - 1, 0) > 0, x[v, w], x[v, 15 - w])

    for schedule in (gpu_scheduled, directly_scheduled):
        found = schedule(func)
        assert isinstance(found, Refusal) and "TVM rejects it" in found.reason
