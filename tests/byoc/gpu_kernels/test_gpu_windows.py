"""Schedules for GPUs of pools and depthwise convolutions, and what is fused into them."""

from __future__ import annotations

from typing import Any

import pytest
import tvm_ffi
from tvm import tirx

from opinfo.byoc.backends.nvidia.passes.fuse_rows import fuse_rows
from opinfo.byoc.backends.nvidia.schedules import window_kernel
from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.prepare.prepare import prepare

from ...common.prim_funcs import prim_funcs
from .gpu_cases import Build, check, depthwise, kernel_of, net, nn, op, pool, prim_func, rule_of


def halved(e: Any, x: Any) -> Any:
    return e(nn.max_pool2d(x, (2, 2), (2, 2), layout="NHWC"))


@pytest.mark.parametrize("pooled", [pool, halved])
def test_a_cast_before_a_pool_is_fused(pooled: Build) -> None:
    def build(e: Any, x: Any) -> Any:
        return e(op.astype(pooled(e, e(op.astype(x, "float32"))), "float16"))

    mod = fuse(prepare(net(build, (1, 10, 10, 16))))
    fused = fuse_rows(mod)
    assert len(mod.functions) == 3 and len(fused.functions) == 2
    (func,) = prim_funcs(fused)
    kernel = kernel_of(func)
    assert rule_of(func) == "pointwise"
    assert kernel.script().count("T.vectorized(T.int64(8))") == 2
    check(func, kernel)


def test_a_sum_before_a_pool_is_not_fused() -> None:
    mod = fuse(prepare(net(lambda e, x, y: pool(e, e(op.add(x, y))), *[(1, 9, 9, 16)] * 2)))
    assert len(fuse_rows(mod).functions) == len(mod.functions) == 3


def strided(e: Any, x: Any, w: Any, b: Any) -> Any:
    y = e(nn.conv2d(x, w, strides=2, padding=2, groups=16, data_layout="NHWC",
                    kernel_layout="HWOI"))  # fmt: skip
    return e(nn.silu(e(op.add(y, b))))


def wide(e: Any, x: Any, w: Any) -> Any:
    """Products in float32, as exporters write them."""
    y = e(nn.conv2d(x, w, padding=1, groups=16, data_layout="NHWC", kernel_layout="HWOI",
                    out_dtype="float32"))  # fmt: skip
    return e(op.astype(y, "float16"))


TILED: dict[str, tuple[Build, tuple[tuple[Any, ...], ...], tuple[int, int]]] = {
    "depthwise": (depthwise, ((1, 4, 8, 16), (3, 3, 16, 1)), (2, 4)),
    "strided, with an epilogue": (strided, ((1, 11, 11, 16), (5, 5, 16, 1), (16,)), (1, 6)),
    "an odd number of rows": (wide, ((1, 5, 8, 16), (3, 3, 16, 1)), (1, 4)),
}


@pytest.mark.parametrize("name", TILED)
def test_a_thread_computes_several_windows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_kernel, "ENOUGH", 1)
    build, shapes, (rows, columns) = TILED[name]
    func = prim_func(build, *shapes)
    kernel = kernel_of(func)
    sides = f"(T.int64({rows}), T.int64({columns}), T.int64(4)), "
    assert rule_of(func) == "windows" and f"_acc = T.sblock_alloc_buffer({sides}" in kernel.script()
    check(func, kernel)


def nodes(root: Any, kind: Any) -> list[Any]:
    out: list[Any] = []
    tvm_ffi.structural_walk(root, (kind, out.append))
    return out


def test_reads_of_padded_windows_are_predicated() -> None:
    """A condition with branches of its own would let each read wait for the one before."""
    kernel = kernel_of(prim_func(depthwise, (1, 8, 8, 16), (3, 3, 16, 1)))
    conditions = [node.condition for node in nodes(kernel.body, tirx.IfThenElse)]
    assert conditions and not any(nodes(c, tirx.And) for c in conditions)
    assert any(" & " in str(c) or "bitwise_and" in str(c) for c in conditions)


def test_products_of_halves_that_a_convolution_sums_are_not_rounded() -> None:
    """The result of an operator of its own is."""
    kernel = kernel_of(prim_func(depthwise, (1, 4, 8, 16), (3, 3, 16, 1)))
    products = {str(node.ty.dtype) for node in nodes(kernel.body, tirx.Mul)}
    assert "float32" in products and "float16" not in products
    shapes = ((64, 256), (64, 256))
    kernel = kernel_of(prim_func(lambda e, x, y: e(op.sum(e(op.multiply(x, y)), [-1])), *shapes))
    assert "float16" in {str(node.ty.dtype) for node in nodes(kernel.body, tirx.Mul)}


def test_a_sum_before_windows_side_by_side_is_fused() -> None:
    mod = fuse(prepare(net(lambda e, x, y: halved(e, e(op.add(x, y))), *[(1, 8, 8, 16)] * 2)))
    (func,) = prim_funcs(fuse_rows(mod))
    check(func, kernel_of(func))
