"""A step that is inlined into a gather of its result is found before the gather."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from opinfo.analysis import Chain, op_infos
from opinfo.analysis.chain.cut_gathers import gathered
from opinfo.analysis.chain.tensor_program import coordinates_of
from opinfo.analysis.terms.term import Int, TensorVar, Term, as_int, load, raw_call, size
from opinfo.testing.unoptimised import unoptimised
from tests.common.compose import differs

#: What `fuse_tir` leaves of dequantise and take: unpacked words, and the rest in the gather.
FUSED = """
@T.prim_func(s_tir=True)
def main(w: T.Buffer((9, 8), "uint32"), s: T.Buffer((9, 2), "float16"),
         ids: T.Buffer({ids}, "int32"), out: T.Buffer({out}, "float16")):
    c = T.sblock_alloc_buffer((9, 64), "float16")
    for i, j in T.grid(9, 64):
        with T.sblock("a"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = T.Cast("float16", w[vi, vj // 8] >> T.Cast("uint32", vj % 8 * 4)
                               & T.uint32(15))
    for i, j in T.grid(*{grid}):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = (c[{c}] - T.float16(7)) * s[{s}]
"""
ROWS = {"ids": (5,), "out": (5, 64), "grid": (5, 64), "c": "ids[vi], vj", "s": "ids[vi], vj // 32"}
ONE = ROWS | {
    "ids": (1,), "out": (1, 64), "grid": (1, 64),
    "c": "ids[0], vj", "s": "ids[0], vj // 32",
}  # fmt: skip


def _func(text: str, **parts: object) -> tvm.tirx.PrimFunc:
    return tvm.script.from_source("# from tvm.script import tirx as T\n" + text.format(**parts))


def _check(func: tvm.tirx.PrimFunc, ids: np.ndarray, take: object) -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, (9, 8), "uint32")
    scale = rng.random((9, 2)).astype("float16")
    values = np.stack([words >> 4 * k & 15 for k in range(8)], -1).reshape(9, 64)
    full = (values.astype("float16") - np.float16(7)) * scale.repeat(32, 1)
    expected = take(full)  # type: ignore[operator]
    out = tvm.runtime.tensor(np.zeros(expected.shape, "float16"))
    built = unoptimised(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))
    built["main"](*map(tvm.runtime.tensor, (words, scale, ids)), out)
    np.testing.assert_array_equal(out.numpy(), expected)


@pytest.mark.parametrize("parts", [ROWS, ONE], ids=["rows", "one row"])
def test_dequantize_and_take(parts: dict[str, object]) -> None:
    func = _func(FUSED, **parts)
    chain = op_infos(func)
    assert isinstance(chain, Chain), chain
    assert chain.names == ("relax.nn.group_dequantize", "relax.take")
    dequantize, take = chain.steps
    assert dequantize.operands == (0, 1) and take.attrs["axis"] == 0
    assert dequantize.attrs["bits"] == 4 and dequantize.attrs["group_size"] == 32
    assert take.operands[1] == 2
    ids = np.arange(8, -1, -2, dtype=np.int32)[: parts["ids"][0]]  # type: ignore[index]
    _check(func, ids, lambda full: full[ids])


@pytest.mark.parametrize(
    "change",
    [
        {"s": "ids[4 - vi], vj // 32"},
        {"s": "vi, vj // 32"},
        {"s": "T.min(ids[vi] + 1, 8), vj // 32"},
        {"c": "ids[vi], 63 - vj"},
        {"s": "ids[vi], 1 - vj // 32"},
        {"c": "ids[vi], (vi + vj) % 64"},
    ],
    ids=["another row", "not gathered", "the next row", "reversed", "another group", "shifted"],
)
def test_other_elements_are_not_dequantized_rows(change: dict[str, str]) -> None:
    chain = op_infos(_func(FUSED, **ROWS | change))
    names = [s.name for s in getattr(chain, "steps", ())]
    assert names != ["relax.nn.group_dequantize", "relax.take"]


def test_a_step_over_one_tensor() -> None:
    text = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((9, 8), "float32"), ids: T.Buffer((5,), "int32"),
         out: T.Buffer((5, 8), "float32")):
    for i, j in T.grid(5, 8):
        out[i, j] = T.max(x[ids[i], j], T.float32(0))
"""
    chain = op_infos(_func(text))
    assert isinstance(chain, Chain) and chain.names == ("relax.nn.relu", "relax.take")
    assert differs(_func(text), chain) == 0


def test_a_step_over_gathered_columns() -> None:
    text = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 9, 3), "float32"), y: T.Buffer((4, 9, 3), "float32"),
         ids: T.Buffer((5, 2), "int32"), out: T.Buffer((4, 5, 2, 3), "float32")):
    for a, b, c, d in T.grid(4, 5, 2, 3):
        out[a, b, c, d] = T.exp(x[a, ids[b, c], d] + y[a, ids[b, c], d])
"""
    chain = op_infos(_func(text))
    assert isinstance(chain, Chain), chain
    assert chain.names == ("relax.add", "relax.exp", "relax.take")
    assert chain.steps[-1].attrs["axis"] == 1
    assert differs(_func(text), chain) < 1e-6


#: A product with rows of one expert: as people write it for mixtures of experts.
EXPERTS = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((1, 64), "float32"), w: T.Buffer((4, 6, 8), "uint32"),
         s: T.Buffer((4, 6, 2), "float32"), ids: T.Buffer((1, 3), "int32"),
         out: T.Buffer((3, 6), "float32")):
    for e in {loop}:
        with T.sblock("expert"):
            ve = T.axis.spatial(3, e)
            y = T.sblock_alloc_buffer((6, 64), "float32")
            for i, j in T.grid(6, 64):
                with T.sblock("a"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = (T.Cast("float32", w[ids[0, ve], vi, vj // 8]
                        >> T.Cast("uint32", vj % 8 * 4) & T.uint32({mask})) - T.float32(7)
                        ) * s[ids[0, {row}], vi, vj // 32]
            for i, j in T.grid(6, 64):
                with T.sblock("b"):
                    vi, vj = T.axis.remap("SR", [i, j])
                    with T.init():
                        out[ve, vi] = T.float32(0)
                    out[ve, vi] = out[ve, vi] + x[0, vj] * y[vi, vj]
"""
THREADS = 'T.thread_binding(3, thread="blockIdx.y")'


@pytest.mark.parametrize("loop", ["range(3)", THREADS], ids=["loop", "threads"])
def test_a_dequantized_operand_of_a_product(loop: str) -> None:
    parts = {"mask": "15", "row": "ve"}
    chain = op_infos(_func(EXPERTS, loop=loop, **parts))
    assert isinstance(chain, Chain), chain
    names = ("relax.reshape", "relax.nn.group_dequantize", "relax.take", "relax.einsum")
    assert chain.names == names
    assert chain.steps[1].attrs["axis"] == 2 and chain.steps[2].attrs["axis"] == 0
    assert differs(_func(EXPERTS, loop="range(3)", **parts), chain) < 1e-5


@pytest.mark.parametrize("change", [{"mask": "7"}, {"row": "2 - ve"}])
def test_other_products_are_not(change: dict[str, str]) -> None:
    parts = {"loop": THREADS, "mask": "15", "row": "ve"} | change
    chain = op_infos(_func(EXPERTS, **parts))
    assert "relax.nn.group_dequantize" not in [s.name for s in getattr(chain, "steps", ())]


def test_an_inlined_dequantization_of_a_product() -> None:
    text = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((3, 64), "float32"), w: T.Buffer((8, 6), "uint32"),
         s: T.Buffer((2, 6), "float32"), out: T.Buffer((3, 6), "float32")):
    for i, j, k in T.grid(3, 6, 64):
        with T.sblock("b"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                out[vi, vj] = T.float32(0)
            out[vi, vj] = out[vi, vj] + x[vi, vk] * ((T.Cast("float32", w[vk // 8, vj]
                >> T.Cast("uint32", vk % 8 * 4) & T.uint32(15)) - T.float32(7)) * s[vk // 32, vj])
"""
    chain = op_infos(_func(text))
    assert isinstance(chain, Chain), chain
    assert chain.names == ("relax.nn.group_dequantize", "relax.matmul")
    assert differs(_func(text), chain) < 1e-5


def test_a_product_with_gathered_rows() -> None:
    text = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((3, 8), "float32"), w: T.Buffer((4, 6, 8), "float32"),
         ids: T.Buffer((1, 3), "int32"), out: T.Buffer((3, 6), "float32")):
    for i, j, k in T.grid(3, 6, 8):
        with T.sblock("b"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                out[vi, vj] = T.float32(0)
            out[vi, vj] = out[vi, vj] + x[vi, vk] * w[ids[0, vi], vj, vk]
"""
    chain = op_infos(_func(text))
    assert isinstance(chain, Chain), chain
    assert chain.names[:2] == ("relax.reshape", "relax.take") and len(chain) == 3
    assert differs(_func(text), chain) < 1e-5


def test_a_formula_may_not_depend_on_where_it_is_gathered() -> None:
    """A cut at it would define a tensor by a coordinate that the tensor does not have."""
    e, n, m = size("e"), size("n"), size("m")
    x, ids = TensorVar("x", (e, n), "float32", 0), TensorVar("i", (m,), "int32", 1)
    out = TensorVar("out", (m, n), "float32", 2)
    y0, y1 = coordinates_of(out)
    row = as_int(load(ids, (y0,)))
    double = raw_call("mul", (load(x, (row, y1)), load(x, (row, y1))), "float32")
    mixed = raw_call("mul", (load(x, (row, y1)), load(x, (row, y1 - y0))), "float32")

    def new(body: Term, shape: tuple[Int, ...]) -> TensorVar:
        return TensorVar("V", shape, body.dtype)

    assert len(gathered(double, out, new)) == 1
    assert gathered(mixed, out, new) == []
