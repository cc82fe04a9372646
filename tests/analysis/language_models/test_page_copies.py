"""Kernels that copy pages, read layers, or merge results of attention; the oracle runs threads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.script import from_source
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis import Chain, OpInfo, Refusal, op_info, op_infos
from opinfo.analysis.lifting.kernels import LAUNCHED
from opinfo.analysis.lifting.parallel.threads import IN_STEP
from opinfo.analysis.support.ir.constructors import constructor_of
from opinfo.analysis.terms.integer import floordiv
from opinfo.analysis.terms.order import nonneg
from opinfo.analysis.terms.term import as_int, integer, variable

from ...common.lockstep import execute
from ...part import OneIn
from ..recognise.test_composites import module, run

RANDOM = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


COPY = """
def main(pages: T.Buffer((5, 2, 2, 6, 4), "float32"), source: T.int64, target: T.int64,
         n: T.int64):
    for b in T.thread_binding((n * T.int64(8) + T.int64(15)) // T.int64(16), "blockIdx.x"):
        for t in T.thread_binding(16, "threadIdx.x"):
            with T.sblock("copy"):
                vh = T.axis.spatial(2, T.Cast("int32",
                    (b * T.int64(16) + T.Cast("int64", t)) // (n * T.int64(4))))
                vp = T.axis.spatial(n,
                    (b * T.int64(16) + T.Cast("int64", t)) % (n * T.int64(4)) // T.int64(4))
                vd = T.axis.spatial(4, T.Cast("int32",
                    (b * T.int64(16) + T.Cast("int64", t)) % T.int64(4)))
                T.where((b * T.int64(16) + T.Cast("int64", t)) < n * T.int64(2) * T.int64(4))
                pages[target, 0, vh, vp, vd] = pages[source, 0, vh, vp, vd]
                pages[target, 1, vh, vp, vd] = pages[source, 1, vh, vp, vd]
"""
READ = """
def main(pages: T.Buffer((5, 2, 2, 6, 4), "float32"), pos: T.Buffer((7,), "int32"),
         keys: T.Buffer((3, 7, 2, 4), "float32"), values: T.Buffer((3, 7, 2, 4), "float32"),
         layer: T.int64):
    for p, h, d in T.grid(7, 2, 4):
        with T.sblock("copy"):
            vp, vh, vd = T.axis.remap("SSS", [p, h, d])
            keys[layer, vp, vh, vd] = pages[pos[vp] // 6, 0, vh, pos[vp] % 6, vd]
            values[layer, vp, vh, vd] = pages[pos[vp] // 6, 1, vh, pos[vp] % 6, vd]
"""
MERGE = """
def main(v: T.Buffer((3, 2, 8), "float32"), s: T.Buffer((3, 2), "float32"),
         w: T.Buffer((3, 2, 8), "float32"), r: T.Buffer((3, 2), "float32")):
    for b in T.thread_binding(3, "blockIdx.x"):
        for h in T.thread_binding(2, "threadIdx.y"):
            for t in T.thread_binding(4, "threadIdx.x"):
                with T.sblock("merge"):
                    x = T.sblock_alloc_buffer((1,), scope="local")
                    y = T.sblock_alloc_buffer((1,), scope="local")
                    top = T.sblock_alloc_buffer((1,), scope="local")
                    x[0] = s[b, h]
                    y[0] = r[b, h]
                    top[0] = T.max(x[0], y[0])
                    x[0] = T.exp2(x[0] - top[0])
                    y[0] = T.exp2(y[0] - top[0])
                    for k in range(2):
                        v[b, h, t * 2 + k] = (v[b, h, t * 2 + k] * (x[0] / (x[0] + y[0]))
                                              + w[b, h, t * 2 + k] * (y[0] / (x[0] + y[0])))
                    s[b, h] = T.log2(x[0] + y[0]) + top[0]
"""
#: The PrimFunc, its arguments, the operator, and changes after which it computes something else.
KERNELS: dict[str, tuple[str, list[Any], str, list[tuple[str, str]]]] = {
    "copy": (COPY, [floats(5, 2, 2, 6, 4), *map(np.int64, (3, 1, 4))], "relax.nn.copy_page", [
        ("pages[target, 0", "pages[source + T.int64(1), 0"),
        ("// (n * T.int64(4))", "// (n * T.int64(4)) * T.int64(0)"),
        ("pages[source, 1, vh", "pages[source, 1, 1 - vh"),
        ("pages[source, 0, vh, vp, vd]", "pages[source, 0, vh, vp, 3 - vd]"),
        ("< n * T.int64(2) * T.int64(4))", "< n * T.int64(4))"),
        ("* T.int64(2) * T.int64(4))", "* T.int64(2) * T.int64(4) - T.int64(1))"),
        ("pages[target, 0, vh, vp", "pages[target, 0, vh, n - T.int64(1) - vp"),
        ("pages[source, 0, vh, vp", "pages[source, 0, vh, (vp + T.int64(1)) % T.int64(6)"),
    ]),
    "read": (
        READ,
        [floats(5, 2, 2, 6, 4), RANDOM.integers(0, 30, 7).astype("int32"), floats(3, 7, 2, 4),
         floats(3, 7, 2, 4), np.int64(1)],
        "relax.nn.read_from_pages",
        [
            ("pos[vp] % 6, vd]\n            values", "(pos[vp] + 1) % 6, vd]\n            values"),
            ("pages[pos[vp] // 6, 1", "pages[pos[vp] // 6, 0"),
            ("pages[pos[vp] // 6, 1, vh", "pages[pos[vp] // 6, 1, 1 - vh"),
            ("values[layer,", "values[T.int64(2) - layer,"),
            ("keys[layer, vp", "keys[layer, 6 - vp"),
            ("pages[pos[vp]", "pages[pos[6 - vp]"),
            ("T.grid(7, 2, 4)", "T.grid(6, 2, 4)"),
        ],
    ),
    "merge": (
        MERGE,
        [floats(3, 2, 8), floats(3, 2), floats(3, 2, 8), floats(3, 2)],
        "relax.nn.merge_attention_states",
        [
            ("T.exp2(y[0] - top[0])", "T.exp(y[0] - top[0])"),
            ("T.max(x[0], y[0])", "x[0]"),
            ("+ top[0]", "- top[0]"),
            ("T.log2(x[0] + y[0])", "T.log(x[0] + y[0])"),
            ("w[b, h, t * 2 + k] * (y[0]", "w[b, h, t * 2 + k] * (x[0]"),
            ("w[b, h, t * 2 + k]", "w[b, h, t * 2 + 1 - k]"),
            ("y[0] = r[b, h]", "y[0] = r[b, 1 - h]"),
            ("(y[0] / (x[0] + y[0]))", "(y[0] / (x[0] - y[0]))"),
            ("range(2)", "range(1)"),
            ("s[b, h] = T.log2", "s[b, 1 - h] = T.log2"),
        ],
    ),
}  # fmt: skip


def kernel(name: str, change: tuple[str, str] = ("", "")) -> Any:
    text = KERNELS[name][0]
    assert change[0] in text
    return from_source("@T.prim_func(s_tir=True)" + text.replace(*change, 1))


@cache
def answer(name: str) -> Any:
    return op_info(kernel(name))


def updated(func: Any, info: OpInfo, arguments: list[Any]) -> list[np.ndarray]:
    after = execute(func, arguments)
    buffers = [k for k, p in enumerate(func.params) if is_buffer_var(p)]
    return [after[buffers.index(k)] for k in info.inplace_indices]


def operator(info: OpInfo, arguments: list[Any]) -> list[np.ndarray]:
    operands = [np.asarray(arguments[k]) for k in info.operands if isinstance(k, int)]
    types = [(a.shape, str(a.dtype)) for a in operands]
    mod = relax.transform.LegalizeOps()(module(constructor_of(info.name), *types, **info.attrs))
    out = run(mod, *operands)
    return list(out) if isinstance(out, (list, tuple)) else [out]


@pytest.mark.parametrize("name", KERNELS)
def test_the_operator_computes_the_update(name: str) -> None:
    func, (_, arguments, expected, _) = kernel(name), KERNELS[name]
    info = answer(name)
    assert isinstance(info, OpInfo) and info.name == expected, info
    for actual, after in zip(
        operator(info, arguments), updated(func, info, arguments), strict=True
    ):
        np.testing.assert_allclose(actual, after, rtol=1e-5)
    chain = op_infos(func)
    assert isinstance(chain, Chain) and chain.names == (expected,)
    assert chain.inplace_indices == info.inplace_indices
    assert chain.steps[0].info.certificate.assumptions == info.certificate.assumptions


@pytest.mark.parametrize("name", KERNELS)
def test_no_mutant_is_the_operator(name: str, one_in: OneIn) -> None:
    """What is certified must be right; most mutants are refused."""
    _, arguments, expected, changes = KERNELS[name]
    for change in one_in(3, changes):
        func = kernel(name, change)
        info = op_info(func)
        if isinstance(info, OpInfo):
            assert info.name != expected or info.operands != answer(name).operands, change
            for a, b in zip(operator(info, arguments), updated(func, info, arguments), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=str(change))


def _assumptions(name: str) -> Mapping[str, None]:
    info = answer(name)
    assert isinstance(info, OpInfo)
    return dict.fromkeys(info.certificate.assumptions)


@pytest.mark.parametrize("place", ["i + 1", "i + n", "i - 1"])
def test_a_store_that_is_outside_for_all_sizes_is_refused(place: str) -> None:
    func = from_source(f"""
@T.prim_func(s_tir=True)
def main(x: T.handle, out: T.handle):
    n = T.int64()
    a = T.match_buffer(x, (n,), "float32")
    b = T.match_buffer(out, (n,), "float32")
    for i in range(n):
        b[{place}] = a[i]
""")
    refusal = op_info(func)
    assert isinstance(refusal, Refusal)
    assert "out of bounds" in refusal.reason or "outside of its buffer" in refusal.reason


def test_a_scalar_may_be_negative() -> None:
    scalar = as_int(variable("scalar", "k", dtype="int64"))
    size = as_int(variable("size", "k"))
    assert not nonneg(floordiv(scalar, integer(16))) and nonneg(floordiv(size, integer(16)))


def test_what_a_launch_implies_is_an_assumption() -> None:
    assert LAUNCHED in _assumptions("copy") and IN_STEP not in _assumptions("copy")
    assert IN_STEP in _assumptions("merge") and LAUNCHED not in _assumptions("merge")


@pytest.mark.parametrize("change", [
    ('T.thread_binding(4, "threadIdx.x")', 'T.thread_binding(4, "threadIdx.z")'),
    ("y[0] = r[b, h]", "y[0] = s[b, 1 - h]"),
])  # fmt: skip
def test_threads_of_other_warps_are_not_in_step(change: tuple[str, str]) -> None:
    refusal = op_info(kernel("merge", change))
    assert not refusal and "without a barrier" in refusal.reason  # type: ignore[union-attr]
