"""Products of few rows with packed weights on a GPU: what a kernel computes, and which it takes.

The oracle is numpy on the unpacked weights; `tests.common.machine` executes the kernels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relax, te, tirx

from opinfo.byoc.backend.backend import Code
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backends.nvidia.grouped_weights.gemv_kernel import (
    GemvTile,
    gemv_kernel,
    packed_scheduled,
    tile_of,
)
from opinfo.byoc.backends.nvidia.grouped_weights.grouped_product import grouped_product
from opinfo.byoc.backends.nvidia.grouped_weights.packed_products import fuse_packed, turn_products
from opinfo.byoc.backends.nvidia.schedules.program.thread_loops import kernels
from opinfo.byoc.backends.nvidia.tvm_schedules import scheduled
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.prepare.prepare import prepare

from ....common.machine import execute
from ....common.prim_funcs import prim_funcs
from ..gpu_cases import TARGET

Array = np.ndarray[Any, Any]


def weights(words: Any, scale: Any, bits: int, group: int, middle: int, along: int = 1) -> Any:
    """A dequantisation by group as a tensor expression; words and groups are ``along`` an axis."""
    per, shape = 32 // bits, [int(e) for e in words.shape]
    shape[along] *= per

    def value(i: Any, j: Any) -> Any:
        k = (i, j)[along]
        word = words[(i, k // per) if along else (k // per, j)]
        digit = tirx.bitwise_and(word >> tirx.Cast("uint32", k % per * bits),
                                 tirx.const((1 << bits) - 1, "uint32"))  # fmt: skip
        factor = scale[(i, k // group) if along else (k // group, j)]
        return (tirx.Cast("float16", digit) - tirx.const(middle, "float16")) * factor

    return te.compute(shape, value, name="w")


def product(
    rows: int, columns: int, depth: int, bits: int = 4, group: int = 32, middle: int = 7,
    after: str = "", noalias: bool = True,
) -> Any:  # fmt: skip
    """A PrimFunc: a dequantisation, a product, and perhaps a sum with a tensor or a shifted one."""
    words = te.placeholder((columns, depth * bits // 32), "uint32", name="words")
    scale = te.placeholder((columns, depth // group), "float16", name="scale")
    x = te.placeholder((1, rows, depth), "float16", name="x")
    w, k = weights(words, scale, bits, group, middle), te.reduce_axis((0, depth), "k")
    y = te.compute((1, rows, columns), lambda b, i, j: te.sum(x[b, i, k] * w[j, k], k), name="y")
    inputs = [x, words, scale]
    if after:
        z = te.placeholder((1, rows, columns), "float16", name="z")
        inputs.append(z)
        first, step = (columns - 1, -1) if after == "reversed" else (0, 1)
        total = y
        y = te.compute(y.shape, lambda b, i, j: total[b, i, first + step * j] + z[b, i, j], "out")
    func = te.create_prim_func([*inputs, y])
    return func.with_attr("tirx.noalias", noalias)


def unpacked(words: Array, scale: Array, bits: int, middle: int) -> Array:
    """The weights that words and scales stand for."""
    shifts = bits * np.arange(32 // bits, dtype="uint32")
    values = ((words[..., None] >> shifts) & ((1 << bits) - 1)).reshape(len(words), -1)
    return np.asarray(
        (values.astype(float) - middle) * scale.repeat(values.shape[1] // scale.shape[1], 1)
    )


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "bits", "group", "middle", "after", "tile"),
    [
        (1, 8, 256, 4, 32, 7, "", None),
        (2, 8, 320, 4, 32, 7, "sum", None),
        (1, 6, 4128, 4, 32, 7, "", None),  # several warps, the last one not full
        (3, 4, 128, 8, 32, 127, "sum", None),
        (1, 4, 256, 2, 64, 1, "", None),
        (8, 4, 256, 4, 128, 8, "", None),  # a group of several vectors
        (1, 4, 4096, 4, 32, 7, "sum", GemvTile(2, 2, 2)),  # steps of a loop
    ],
)
def test_a_kernel_multiplies_packed_weights(
    rows: int, columns: int, depth: int, bits: int, group: int, middle: int, after: str,
    tile: GemvTile | None,
) -> None:  # fmt: skip
    func, rng = product(rows, columns, depth, bits, group, middle, after), np.random.default_rng(0)
    nest, buffers = gemv_kernel(grouped_product(func), tile)
    x = rng.standard_normal((1, rows, depth))
    words = rng.integers(0, 2**32, (columns, depth * bits // 32), "uint32")
    scale = rng.random((columns, depth // group))
    more = [rng.standard_normal((1, rows, columns))] if after else []
    want = x @ unpacked(words, scale, bits, middle).T + sum(more)
    (got,) = execute(kernels(func, [nest], buffers), [x, words, scale, *more])
    np.testing.assert_allclose(got, want, 1e-9, 1e-9)


@pytest.mark.parametrize("depth", [256, 4128])
def test_infinite_activations_are_multiplied_as_numpy_does(depth: int) -> None:
    """One is infinite in the first row, both signs are in the second, a NaN is in the third."""
    func, rng = product(4, 8, depth), np.random.default_rng(0)
    x = rng.standard_normal((1, 4, depth))
    x[0, 0, 37], x[0, 1, [5, 200]], x[0, 2, 9] = np.inf, (np.inf, -np.inf), np.nan
    words = rng.integers(0, 2**32, (8, depth // 8), "uint32")
    scale = rng.random((8, depth // 32))
    with np.errstate(invalid="ignore"):
        want = np.stack([np.sum(x[0] * row, -1) for row in unpacked(words, scale, 4, 7)], -1)[None]
        (got,) = execute(packed_scheduled(func), [x, words, scale])
    assert np.isinf(want[0, 0]).sum() > 4 and np.isfinite(want[0, 3]).all()
    np.testing.assert_allclose(got, want, 1e-9, 1e-9)


def test_words_are_read_as_vectors() -> None:
    kernel: Any = packed_scheduled(product(1, 8, 4096))
    text = kernel.script()
    assert "for v in T.vectorized(4)" in text.replace("T.int64(4)", "4")
    assert "reinterpret" in text


@pytest.mark.parametrize(
    ("func", "reason"),
    [
        (product(9, 8, 256), "9 rows"),
        (product(1, 8, 256, noalias=False), "may overlap"),
        (product(1, 8, 256, after="reversed"), "not a chain of operators"),
        (product(1, 8, 256, group=16), "groups of 16"),
        (product(1, 8, 48, group=16), "do not fill vectors"),
    ],
)
def test_other_products_are_refused(func: Any, reason: str) -> None:
    refused = packed_scheduled(func)
    assert not refused and reason in refused.reason


def test_tiles_divide_the_columns() -> None:
    for rows in (1, 2, 8):
        for columns in (1, 3, 6, 4096, 28672, 128256):
            for vectors in (1, 8, 33, 128, 448, 2048):
                for bits in (4, 8):
                    tile = tile_of(rows, columns, vectors, bits)
                    assert columns % (tile.columns * tile.lines) == 0
                    assert tile.splits * tile.lines <= 16 and tile.columns * rows <= 32


def net(rows: int, along: int = 1, twice: bool = False) -> Any:
    """A module: y = x · dequantised weights, transposed or not; perhaps · the same weights; + x."""
    shapes = ((256, 32), (256, 8)) if along else ((32, 256), (8, 256))
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, rows, 256), "float16"))
    words = relax.Var("words", relax.TensorType(shapes[0], "uint32"))
    scale = relax.Var("scale", relax.TensorType(shapes[1], "float16"))
    with bb.function("main", [x, words, scale]):
        with bb.dataflow():
            w = bb.emit_te(lambda a, b: weights(a, b, 4, 32, 7, along), words, scale)
            w = bb.emit(relax.op.permute_dims(w)) if along else w
            y = bb.emit(relax.op.matmul(x, w))
            y = bb.emit(relax.op.matmul(bb.emit(relax.op.abs(y)), w)) if twice else y
            out = bb.emit_output(relax.op.add(y, x))
        bb.emit_func_output(out)
    return bb.get()


CUBLASLT = replace(find("cublaslt"), available=lambda: None,
                   convert=lambda rs: Code("", tuple(r.symbol for r in rs)))  # fmt: skip


def dispatched(mod: Any) -> Any:
    """The module as cuBLASLt leaves it."""
    return dispatch(prepare(mod, [CUBLASLT]), [CUBLASLT])


@pytest.mark.parametrize("along", [0, 1])
def test_few_rows_are_one_kernel(along: int) -> None:
    mod = fuse_packed(fuse(dispatched(net(2, along)).module))
    (func,) = prim_funcs(mod)
    (kernel,) = prim_funcs(scheduled(mod, TARGET))
    assert "reinterpret" in kernel.script()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 2, 256))
    words, scale = rng.integers(0, 2**32, (256, 32), "uint32"), rng.random((256, 8))
    stored = (words, scale) if along else (words.T.copy(), scale.T.copy())
    by_name = dict(zip(("words", "scale"), stored, strict=True))
    values = [by_name.get(p.name, x) for p in func.params[:-1]]
    want = x @ unpacked(words, scale, 4, 7).T + x
    np.testing.assert_allclose(execute(kernel, values)[0], want, 1e-9, 1e-9)


def half_net(rows: int, dtype: str = "float16") -> Any:
    """A module: y = x · transpose(w), then y + z."""
    bb = relax.BlockBuilder()
    shapes = ((1, rows, 320), (24, 320), (1, rows, 24))
    xs = [relax.Var(n, relax.TensorType(s, dtype)) for n, s in zip("xwz", shapes, strict=True)]
    with bb.function("main", xs):
        with bb.dataflow():
            y = bb.emit(relax.op.matmul(xs[0], bb.emit(relax.op.permute_dims(xs[1]))))
            out = bb.emit_output(relax.op.add(y, xs[2]))
        bb.emit_func_output(out)
    return bb.get()


def test_one_row_of_halves_is_one_kernel() -> None:
    made = dispatched(half_net(1))
    assert not made.taken
    (func,) = prim_funcs(fused := fuse_packed(fuse(turn_products(made.module))))
    (kernel,) = prim_funcs(scheduled(fused, TARGET))
    assert "threadIdx.y" in kernel.script()
    rng = np.random.default_rng(0)
    values = {n: rng.standard_normal(s) for n, s in
              (("x", (1, 1, 320)), ("w", (24, 320)), ("z", (1, 1, 24)))}  # fmt: skip
    want = values["x"] @ values["w"].T + values["z"]
    (got,) = execute(kernel, [values[p.name] for p in func.params[:-1]])
    np.testing.assert_allclose(got, want, 1e-9, 1e-9)


@pytest.mark.parametrize(("rows", "dtype"), [(2, "float16"), (1, "float32")])
def test_cublaslt_takes_several_rows_and_float32(rows: int, dtype: str) -> None:
    assert {t.backend for t in dispatched(half_net(rows, dtype)).taken} == {"cublaslt"}


@pytest.mark.parametrize(("rows", "along", "twice"), [(16, 1, False), (16, 0, False), (1, 1, True)])
def test_cublaslt_takes_other_products(rows: int, along: int, twice: bool) -> None:
    assert {t.backend for t in dispatched(net(rows, along, twice)).taken} == {"cublaslt"}


@pytest.mark.parametrize("along", [0, 1])
def test_cublaslt_leaves_few_rows(along: int) -> None:
    made = dispatched(net(1, along))
    assert not made.taken
    assert any("1 rows are multiplied with packed weights" in o.why for o in made.left)
