"""Kernels that write part of a buffer, at indices from data, are operators with an update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import from_source

from opinfo.analysis import Chain, OpInfo, lift, op_info, op_infos
from opinfo.analysis.annotate import annotate
from opinfo.analysis.answer.recover import analyse
from opinfo.analysis.certify.distinct_indices import DISTINCT
from opinfo.analysis.lifting.tir.unliftable import Unliftable
from opinfo.analysis.support.ir.constructors import constructor_of
from opinfo.analysis.terms.evaluate import evaluate
from opinfo.analysis.terms.term import Var

from ...common.interpret import interpret
from ...part import OneIn
from ..recognise.test_composites import module, run
from .test_scatter import TOLD

RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def places(count: int, below: int) -> np.ndarray:
    """Distinct indices in no order."""
    return RANDOM.permutation(below)[:count].astype("int32")


#: A name, the PrimFunc, its arguments, the operator.
KERNELS: dict[str, tuple[str, list[np.ndarray], str]] = {
    "rows of a batch": (
        """
def main(src: T.Buffer((3, 5), "float32"), idx: T.Buffer((3,), "int32"),
         dst: T.Buffer((6, 5), "float32")):
    for b, j in T.grid(3, 5):
        with T.sblock("scatter"):
            vb, vj = T.axis.remap("SS", [b, j])
            dst[idx[vb], vj] = src[vb, vj]
""",
        [floats(3, 5), places(3, 6), floats(6, 5)],
        "relax.nn.index_update",
    ),
    "bias of some logits, by threads": (
        """
def main(x: T.Buffer((3, 9), "float32"), seq: T.Buffer((7,), "int32"),
         tok: T.Buffer((7,), "int32"), bias: T.Buffer((7,), "float32")):
    for a in T.thread_binding(2, thread="blockIdx.x"):
        for b in T.thread_binding(4, thread="threadIdx.x"):
            with T.sblock("block"):
                p = T.axis.spatial(7, a * 4 + b)
                T.where(a * 4 + b < 7)
                x[seq[p], tok[p]] = x[seq[p], tok[p]] + bias[p]
""",
        [floats(3, 9), places(7, 9) % 3, places(7, 9), floats(7)],
        "relax.nn.index_update",
    ),
    "penalties, in two stores": (
        """
def main(x: T.Buffer((4, 9), "float32"), ids: T.Buffer((3,), "int32"),
         pos: T.Buffer((7,), "int32"), tok: T.Buffer((7,), "int32"),
         count: T.Buffer((7,), "int32"), p: T.Buffer((3, 3), "float32")):
    for a in T.thread_binding(2, thread="blockIdx.x"):
        for b in T.thread_binding(4, thread="threadIdx.x"):
            with T.sblock("block"):
                k = T.axis.spatial(7, a * 4 + b)
                T.where(a * 4 + b < 7)
                x[ids[pos[k]], tok[k]] = x[ids[pos[k]], tok[k]] - (
                    p[pos[k], 0] + T.Cast("float32", count[k]) * p[pos[k], 1])
                x[ids[pos[k]], tok[k]] = T.if_then_else(
                    x[ids[pos[k]], tok[k]] < T.float32(0),
                    x[ids[pos[k]], tok[k]] * p[pos[k], 2], x[ids[pos[k]], tok[k]] / p[pos[k], 2])
""",
        [floats(4, 9), places(3, 4), places(7, 9) % 3, places(7, 9), places(7, 9),
         abs(floats(3, 3)) + 1],
        "relax.nn.apply_penalty",
    ),
    "a bit mask, over fused rows and columns": (
        """
def main(x: T.Buffer((3, 40), "float32"), ids: T.Buffer((2,), "int32"),
         mask: T.Buffer((3, 2), "int32")):
    for a in T.thread_binding(5, thread="blockIdx.x"):
        for b in T.thread_binding(16, thread="threadIdx.x"):
            with T.sblock("block"):
                s = T.axis.spatial(2, (a * 16 + b) // 40)
                v = T.axis.spatial(40, (a * 16 + b) % 40)
                T.where(a * 16 + b < 80)
                x[ids[s], v] = T.if_then_else(mask[ids[s], v // 32] >> v % 32 & 1 == 1,
                                              x[ids[s], v], T.float32(-3.4028234663852886e38))
""",
        [floats(3, 40), places(2, 3), RANDOM.integers(-(2**31), 2**31, (3, 2), dtype="int32")],
        "relax.nn.apply_token_bitmask",
    ),
    "a cache of keys and values": (
        """
def main(pages: T.Buffer((3, 2, 2, 4, 5), "float32"), k: T.Buffer((6, 2, 5), "float32"),
         v: T.Buffer((6, 2, 5), "float32"), pos: T.Buffer((6,), "int32")):
    for t, h, f in T.grid(6, 2, 5):
        if pos[t] != -1:
            with T.sblock("k"):
                vt, vh, vf = T.axis.remap("SSS", [t, h, f])
                pages[pos[vt] // 4, 0, vh, pos[vt] % 4, vf] = k[vt, vh, vf]
            with T.sblock("v"):
                vt, vh, vf = T.axis.remap("SSS", [t, h, f])
                pages[pos[vt] // 4, 1, vh, pos[vt] % 4, vf] = v[vt, vh, vf]
""",
        [floats(3, 2, 2, 4, 5), floats(6, 2, 5), floats(6, 2, 5),
         np.append(places(5, 12), -1).astype("int32")],
        "relax.nn.append_to_pages",
    ),
}  # fmt: skip


def kernel(name: str, change: tuple[str, str] = ("", "")) -> Any:
    text = KERNELS[name][0]
    assert change[0] in text
    return from_source("@T.prim_func(s_tir=True)" + text.replace(*change))


def operator(info: OpInfo, arrays: list[np.ndarray]) -> Any:
    """What the operator returns."""
    operands = [arrays[k] for k in info.operands if isinstance(k, int)]
    make = constructor_of(info.name)
    types = [(a.shape, str(a.dtype)) for a in operands]
    mod = relax.transform.LegalizeOps()(module(make, *types, **info.attrs))
    return run(mod, *operands)


def updated(func: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    copies = [a.copy() for a in arrays]
    interpret(func, copies)
    return copies


@pytest.mark.parametrize("name", KERNELS)
def test_the_operator_computes_the_update(name: str) -> None:
    func, (_, arrays, expected) = kernel(name), KERNELS[name]
    info = op_info(func)
    assert isinstance(info, OpInfo) and info.name == expected, info
    (place,) = info.inplace_indices
    after = updated(func, arrays)
    np.testing.assert_allclose(operator(info, arrays), after[place], rtol=1e-6)
    assert not np.array_equal(after[place], arrays[place])
    chain = op_infos(func)
    assert isinstance(chain, Chain) and chain.names == (expected,)
    assert chain.inplace_indices == (place,) and repr(chain).endswith(f"return %{place} := $0")


MUTANTS: Mapping[str, list[tuple[str, str]]] = {
    "rows of a batch": [
        ("dst[idx[vb], vj]", "dst[idx[2 - vb], vj]"),
        ("dst[idx[vb], vj]", "dst[5 - idx[vb], vj]"),
        ("src[vb, vj]", "src[vb, 4 - vj]"),
        ("src[vb, vj]", "dst[vb, vj] + src[vb, vj]"),
        ("T.grid(3, 5)", "T.grid(3, 4)"),
    ],
    "bias of some logits, by threads": [
        ("+ bias[p]", "- bias[p]"),
        ("x[seq[p], tok[p]] + bias[p]", "bias[p] + bias[p]"),
        ("+ bias[p]", "+ bias[6 - p]"),
        ("a * 4 + b < 7", "a * 4 + b < 6"),
        ("x[seq[p], tok[p]] + bias", "x[seq[6 - p], tok[p]] + bias"),
    ],
    "penalties, in two stores": [
        (" < T.float32(0)", " > T.float32(0)"),
        ("] - (", "] + ("),
        ("p[pos[k], 0]", "p[ids[pos[k]] % 3, 0]"),
        ("count[k]", "count[6 - k]"),
        ("x[ids[pos[k]], tok[k]] * p", "x[ids[pos[k]], tok[k]] / p"),
        ("p[pos[k], 1]", "p[pos[k], 2]"),
    ],
    "a bit mask, over fused rows and columns": [
        ("& 1 == 1", "& 1 == 0"),
        ("v % 32", "v % 16"),
        ("mask[ids[s], ", "mask[s, "),
        ("a * 16 + b < 80", "a * 16 + b < 79"),
        ("(a * 16 + b) // 40", "1 - (a * 16 + b) // 40"),
        ("-3.4028234663852886e38", "0"),
    ],
    "a cache of keys and values": [
        ("pos[t] != -1", "pos[t] != 0"),
        ("pages[pos[vt] // 4, 1, vh", "pages[pos[vt] // 4, 1, 1 - vh"),
        ("v[vt, vh, vf]", "v[5 - vt, vh, vf]"),
        ("v[vt, vh, vf]", "k[vt, vh, vf]"),
        ("0, vh, pos[vt] % 4", "0, vh, (pos[vt] + 1) % 4"),
        ("pages[pos[vt] // 4, 0", "pages[2 - pos[vt] // 4, 0"),
    ],
}


@pytest.mark.parametrize("name", MUTANTS)
def test_no_mutant_is_the_operator(name: str, one_in: OneIn) -> None:
    """What is certified must be right; most mutants are refused."""
    _, arrays, expected = KERNELS[name]
    for change in one_in(3, MUTANTS[name]):
        func = kernel(name, change)
        info = op_info(func)
        if isinstance(info, OpInfo):
            original = updated(kernel(name), arrays)[info.inplace_indices[0]]
            after = updated(func, arrays)[info.inplace_indices[0]]
            np.testing.assert_allclose(operator(info, arrays), after, 1e-6, err_msg=str(change))
            same = info.name == expected and info.operands == op_info(kernel(name)).operands  # type: ignore[union-attr]
            assert not same or np.array_equal(after, original), (change, info)


def test_what_distinct_indices_decide_is_an_assumption() -> None:
    penalty = op_info(kernel("penalties, in two stores"))
    assert isinstance(penalty, OpInfo) and {TOLD, DISTINCT} <= set(penalty.certificate.assumptions)
    rows = op_info(kernel("rows of a batch"))
    assert isinstance(rows, OpInfo) and TOLD not in rows.certificate.assumptions


def test_a_serial_update_that_meets_itself_is_not_a_single_one() -> None:
    """Two penalties of one token add up in a loop, and do not in the operator."""
    text = KERNELS["penalties, in two stores"][0]
    text = text.replace('T.thread_binding(2, thread="blockIdx.x")', "range(2)")
    text = text.replace('T.thread_binding(4, thread="threadIdx.x")', "range(4)")
    assert "thread" not in text
    assert not op_info(from_source("@T.prim_func(s_tir=True)" + text))


@pytest.mark.parametrize(
    "loop", ["range(4)", "T.parallel(4)", 'T.thread_binding(4, "threadIdx.x")']
)
@pytest.mark.parametrize("second", [
    "if u[p] > T.float32(0):\n            x[tok[p]] = T.float32(3)",
    "if u[p] > T.float32(0):\n            x[tok[p]] = x[tok[p]] + T.float32(3)",
    "x[8 - tok[p]] = T.float32(3)",
    "x[tok[3 - p]] = T.float32(3)",
    "x[tok[p]] = x[tok[3 - p]]",
])  # fmt: skip
def test_a_second_store_is_right_or_refused(loop: str, second: str) -> None:
    func = from_source(f"""
@T.prim_func(s_tir=True)
def main(x: T.Buffer((9,), "float32"), tok: T.Buffer((4,), "int32"),
         u: T.Buffer((4,), "float32")):
    for p in {loop}:
        x[tok[p]] = u[p]
        {second}
""")
    arrays = [floats(9), np.array([1, 3, 2, 4], "int32"), floats(4)]
    try:
        (definition,) = lift(func, in_place=True).outputs
    except Unliftable:
        return
    axis = definition.axes[0].atom
    assert isinstance(axis, Var)
    found = evaluate(definition.body, {axis: np.arange(9)}, lambda t, i: arrays[t.position][i])
    np.testing.assert_allclose(found, updated(func, arrays)[0])


@pytest.mark.parametrize("index", ["q[p]", "tok[p] // 2"])
def test_places_that_are_computed_are_not_assumed_to_be_distinct(index: str) -> None:
    func = from_source(f"""
@T.prim_func(s_tir=True)
def main(x: T.Buffer((9,), "float32"), tok: T.Buffer((4,), "int32"),
         bias: T.Buffer((4,), "float32")):
    q = T.alloc_buffer((4,), "int32")
    for p in range(4):
        q[p] = p // 2
    for p in T.thread_binding(4, thread="threadIdx.x"):
        x[{index}] = x[{index}] + bias[p]
""")
    info = op_info(func)
    assert not isinstance(info, OpInfo) or index != "q[p]"


def test_a_call_has_no_old_content() -> None:
    func = kernel("rows of a batch")
    assert not analyse(func).over_tensors().info
    mod = tvm.IRModule({"main": func})
    attrs = annotate(mod)["main"].attrs
    assert not any(str(k).startswith("opinfo") for k in (attrs.keys() if attrs else ()))
