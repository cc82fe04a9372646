"""Kernels whose blocks walk over tiles of groups of rows become products, or stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.analysis.results.op_info import Refusal
from opinfo.byoc.prepare.prepare import prepare
from opinfo.byoc.prepare.raising.raise_groups import grouped_product, raise_groups
from opinfo.testing.strip import strip

GROUPS, DEPTH, COLUMNS = 3, 64, 64
KERNEL = """
@T.prim_func(s_tir=True)
def main(p: T.handle, w: T.Buffer((3, 64, 8), "uint32"), s: T.Buffer((3, 64, 2), "float16"),
         starts: T.Buffer((4,), "int32"), q: T.handle):
    n = T.int32()
    x = T.match_buffer(p, (n, 64), "float16")
    out = T.match_buffer(q, (n, 64), "float16")
    for b in T.thread_binding(5, thread="blockIdx.x"):
        with T.sblock("block"):
            v = T.axis.spatial(5, b)
            T.reads(x[:, :], w[:, :, :], s[:, :, :], starts[:])
            T.writes(out[:, :])
            ends = T.sblock_alloc_buffer((2,), "int32", scope="local")
            rows = T.sblock_alloc_buffer((2,), "int32", scope="local")
            group = T.sblock_alloc_buffer((1,), "int32", scope="local")
            tile = T.sblock_alloc_buffer((1,), "int32", scope="local")
            ends[0] = 0
            ends[1] = T.ceildiv(starts[1] - starts[0], 4) * 2
            rows[0] = {first}
            rows[1] = starts[1] - starts[0]
            group[0] = 0
            tile[0] = v
            while T.tvm_thread_invariant(group[0] < 3):
                while ends[1] <= tile[0] and group[0] < 3:
                    group[0] += 1
                    if group[0] < 3:
                        e: T.int32 = group[0]
                        delta: T.int32 = {delta}
                        ends[0] = ends[1]
                        ends[1] += T.ceildiv(delta, 4) * {across}
                        rows[0] = rows[1]
                        rows[1] += delta
                T.tvm_storage_sync("shared")
                if T.tvm_thread_invariant(group[0] < 3):
                    e: T.int32 = group[0]
                    number: T.int32 = tile[0] - ends[0]
                    row: T.int32 = number // 2 * 4 + rows[0]
                    column: T.int32 = number % 2 * 32
                    with T.sblock("tile"):
                        T.reads(x[:, :], w[:, :, :], s[:, :, :], starts[:])
                        T.writes(out[:, :])
                        xs = T.sblock_alloc_buffer((4, 64), "float16", scope="shared")
                        ws = T.sblock_alloc_buffer((32, 64), "float16", scope="shared")
                        total = T.sblock_alloc_buffer((4, 32), "float32", scope="local")
                        for ty in T.thread_binding(4, thread="threadIdx.y"):
                            for tx in T.thread_binding(8, thread="threadIdx.x"):
                                for c in range(4):
                                    with T.sblock("start"):
                                        i = T.axis.spatial(4, ty)
                                        j = T.axis.spatial(32, tx * 4 + c)
                                        total[i, j] = T.float32(0)
                                for o in range(2):
                                    for c in range(4):
                                        with T.sblock("rows"):
                                            i = T.axis.spatial(4, ty)
                                            k = T.axis.spatial(64, o * 32 + tx * 4 + c)
                                            xs[i, k] = T.if_then_else(
                                                row + i < rows[1], x[row + i, k], T.float16(0))
                                    for c in range(32):
                                        with T.sblock("weights"):
                                            j = T.axis.spatial(32, ty * 8 + tx)
                                            k = T.axis.spatial(64, o * 32 + c)
                                            ws[j, k] = {weight}
                                    for r, c in T.grid(32, 4):
                                        with T.sblock("add"):
                                            i = T.axis.spatial(4, ty)
                                            j = T.axis.spatial(32, tx * 4 + c)
                                            k = T.axis.reduce(64, o * 32 + r)
                                            total[i, j] += T.Cast("float32", xs[i, k] * ws[j, k])
                                for c in range(4):
                                    with T.sblock("store"):
                                        i = T.axis.spatial(4, ty)
                                        j = T.axis.spatial(32, tx * 4 + c)
                                        if {inside}:
                                            out[row + i, column + j] = T.Cast(
                                                "float16", total[i, j])
                tile[0] += {blocks}
"""


def four_bits(group: str = "e", column: str = "column + j", k: str = "k") -> str:
    """An element of a matrix of 4 bits in groups of 32 along the depth."""
    word = f'T.shift_right(w[{group}, {column}, ({k}) // 8], T.Cast("uint32", ({k}) % 8 * 4))'
    value = f'T.Cast("float16", T.bitwise_and({word}, T.uint32(15))) - T.float16(7)'
    return f"({value}) * s[{group}, {column}, ({k}) // 32]"


WALK = {"first": "0", "delta": "starts[e + 1] - starts[e]", "across": 2, "blocks": 5,
        "inside": "row + i < rows[1]", "weight": four_bits()}  # fmt: skip
STARTS = ([0, 5, 5, 13], [0, 0, 0, 1], [2, 11, 19, 20], [0, 0, 0, 0])


def kernel(**changes: Any) -> Any:
    """A kernel without names, changed in some places."""
    source = KERNEL.format(**WALK | changes)
    func = tvm.script.from_source(source, extra_vars={"T": tvm.script.tirx})
    return strip(func.with_attr("global_symbol", "main"))


def float_kernel(weight: str) -> Any:
    """A kernel with matrices of float16, which are square."""
    words = 'w: T.Buffer((3, 64, 8), "uint32"), s: T.Buffer((3, 64, 2), "float16")'
    source = KERNEL.replace(words, 'w: T.Buffer((3, 64, 64), "float16")')
    source = source.replace(", s[:, :, :]", "").format(**WALK | {"weight": weight})
    return strip(tvm.script.from_source(source, extra_vars={"T": tvm.script.tirx}))


BITS = [((GROUPS, COLUMNS, DEPTH // 8), "uint32"), ((GROUPS, COLUMNS, 2), "float16")]
FLOATS = [((GROUPS, COLUMNS, DEPTH), "float16")]


def module(func: Any, matrices: Any = BITS) -> Any:
    """A module that calls a kernel."""
    bb = relax.BlockBuilder()
    n = tvm.tirx.Var("n", "int64")
    types = [((n, DEPTH), "float16"), *matrices, ((GROUPS + 1,), "int32")]
    params = [relax.Var(f"p{k}", relax.TensorType(s, d)) for k, (s, d) in enumerate(types)]
    gvar = bb.add_func(func.without_attr("global_symbol"), "kernel")
    with bb.function("main", params):
        with bb.dataflow():
            out_type = relax.TensorType((n, COLUMNS), "float16")
            out = bb.emit_output(relax.call_tir(gvar, params, out_type))
        bb.emit_func_output(out)
    return bb.get()


def inputs(starts: Sequence[int]) -> list[Any]:
    rng = np.random.default_rng(starts[-1])
    x = rng.standard_normal((starts[-1] - starts[0], DEPTH)).astype("float16")
    w = rng.integers(0, 2**32, (GROUPS, COLUMNS, DEPTH // 8), "uint32")
    s = (0.01 + rng.random((GROUPS, COLUMNS, 2)) / 10).astype("float16")
    return [x, w, s, np.array(starts, "int32")]


def expected(x: Any, w: Any, s: Any, starts: Any) -> Any:
    """The products in float64."""
    shifts = 4 * np.arange(8, dtype="uint32")
    values = (w[..., None] >> shifts & np.uint32(15)).reshape(GROUPS, COLUMNS, DEPTH) - 7.0
    matrices = values * s.astype(float).repeat(32, 2)
    chosen = matrices[np.repeat(np.arange(GROUPS), np.diff(starts))]
    return np.einsum("nk,njk->nj", x.astype(float), chosen)


def test_products_of_groups_are_those_of_numpy() -> None:
    compiled = opinfo.compile(module(kernel()), ["experts", "tvm"])
    assert compiled.dispatched is not None
    assert [r.backend for r in compiled.dispatched.taken] == ["experts"], compiled.report()
    for starts in STARTS:
        arrays = inputs(starts)
        got = np.asarray(compiled.run(*arrays))
        np.testing.assert_allclose(got, expected(*arrays), rtol=4e-3, atol=4e-2)


@pytest.mark.parametrize(("weight", "letters"), [("w[e, column + j, k]", "nk,njk->nj"),
                                                ("w[e, k, column + j]", "nk,nkj->nj")])  # fmt: skip
def test_products_with_matrices_of_floats_are_those_of_numpy(weight: str, letters: str) -> None:
    compiled = opinfo.compile(module(float_kernel(weight), FLOATS), ["experts", "tvm"])
    assert compiled.dispatched is not None
    assert [r.backend for r in compiled.dispatched.taken] == ["experts"], compiled.report()
    rng = np.random.default_rng(0)
    w = rng.standard_normal(FLOATS[0][0]).astype("float16")
    for starts in STARTS:
        x = rng.standard_normal((starts[-1] - starts[0], DEPTH)).astype("float16")
        chosen = w[np.repeat(np.arange(GROUPS), np.diff(starts))].astype(float)
        got = np.asarray(compiled.run(x, w, np.array(starts, "int32")))
        want = np.einsum(letters, x.astype(float), chosen)
        np.testing.assert_allclose(got, want, rtol=4e-3, atol=4e-2)


def test_a_module_without_the_backend_keeps_its_kernel() -> None:
    prepared = prepare(module(kernel()), ["tvm"])
    assert any(isinstance(f, tvm.tirx.PrimFunc) for f in prepared.functions.values())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"delta": "starts[e] - starts[e - 1]"}, "not counted by differences of its starts"),
        ({"across": 3}, "the first group is counted differently from the others"),
        ({"blocks": 6}, "not as many further as there are blocks"),
        ({"first": "1"}, "the first group does not begin at 0"),
        ({"inside": "row + i <= rows[1]"}, "outside of the rows of a group"),
        ({"inside": "row + i < n"}, "outside of the rows of a group"),
        ({"inside": "row + i + 1 < rows[1]"}, "outside of the rows of a group"),
        ({"weight": four_bits("e - 1")}, "otherwise than for rows and matrices"),
        ({"weight": four_bits("0")}, "no recogniser knows"),
        ({"weight": four_bits(k="63 - k")}, "no recogniser knows"),
        ({"weight": four_bits(column="row % 64")}, "otherwise than for rows and matrices"),
    ],
)  # fmt: skip
def test_another_walk_or_tile_stays(changes: dict[str, Any], reason: str) -> None:
    func = kernel(**changes)
    answer = grouped_product(func)
    assert isinstance(answer, Refusal) and reason in str(answer)
    mod = module(func)
    assert raise_groups(mod) is mod
