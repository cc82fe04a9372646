"""Operators that a schedule or a person has put into one block are separated again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T

from opinfo.analysis import Chain, Refusal, op_infos
from opinfo.analysis.chain.define import define
from opinfo.analysis.chain.definition_window import DefinitionWindow, Growing, Recover
from opinfo.analysis.chain.inlined_operators import BUDGET, InlinedOperators
from opinfo.analysis.chain.segment import segment
from opinfo.testing.strip import strip
from tests.common.compose import differs
from tests.common.prim_funcs import fused, prim_funcs

from .test_op_infos import Conv

NAMES = ("relax.nn.conv2d", "relax.add", "relax.nn.relu")


def _fused() -> tirx.PrimFunc:
    (func,) = prim_funcs(fused(Conv))
    return func


def inline_padding(s: Any, pad: Any, conv: Any, add: Any, relu: Any) -> None:
    s.compute_inline(pad)


def inline_bias(s: Any, pad: Any, conv: Any, add: Any, relu: Any) -> None:
    s.compute_inline(add)


def reverse_inline(s: Any, pad: Any, conv: Any, add: Any, relu: Any) -> None:
    s.reverse_compute_inline(relu)


def compute_at(s: Any, pad: Any, conv: Any, add: Any, relu: Any) -> None:
    s.compute_inline(add)
    s.compute_at(conv, s.get_loops(relu)[2])


def reverse_compute_at(s: Any, pad: Any, conv: Any, add: Any, relu: Any) -> None:
    s.reverse_compute_inline(relu)
    s.reverse_compute_at(add, s.get_loops(conv)[2])


def everything_in_one_nest(s: Any, pad: Any, conv: Any, add: Any, relu: Any) -> None:
    s.compute_at(pad, s.get_loops(conv)[2])
    reverse_compute_at(s, pad, conv, add, relu)


@pytest.mark.parametrize(
    "change",
    [
        inline_padding,
        inline_bias,
        reverse_inline,
        compute_at,
        reverse_compute_at,
        everything_in_one_nest,
    ],
)
def test_scheduled_chains_are_recovered(change: Callable[..., None]) -> None:
    mod = tvm.IRModule({"main": _fused().with_attr("global_symbol", "main")})
    s = tvm.s_tir.Schedule(mod)
    change(s, *s.get_child_blocks(s.get_sblock("root")))
    chain = op_infos(strip(s.mod["main"]))
    assert isinstance(chain, Chain), chain
    conv = chain.steps[0]
    assert chain.names == NAMES
    assert conv.operands == (0, 1) and conv.attrs["padding"] == (1, 1, 1, 1)
    assert (conv.attrs["strides"], conv.attrs["groups"]) == ((2, 2), 2)
    assert 2 in chain.steps[1].operands


@T.prim_func(s_tir=True)
def by_hand(
    x: T.Buffer((1, 4, 8, 8), "float32"),
    w: T.Buffer((6, 4, 3, 3), "float32"),
    b: T.Buffer((6,), "float32"),
    y: T.Buffer((1, 6, 6, 6), "float32"),
) -> None:
    acc = T.sblock_alloc_buffer((1,), "float32")
    for f, i, j in T.grid(6, 6, 6):
        with T.sblock("o"):
            vf, vi, vj = T.axis.remap("SSS", [f, i, j])
            acc[0] = T.float32(0)
            for c, u, v in T.grid(4, 3, 3):
                acc[0] = acc[0] + T.max(x[0, c, vi + u, vj + v], T.float32(0)) * w[vf, c, u, v]
            y[0, vf, vi, vj] = T.max(acc[0] + b[vf], T.float32(0))


def test_relu_conv_bias_relu_in_one_block() -> None:
    chain = op_infos(by_hand)
    assert isinstance(chain, Chain), chain
    names = ("nn.relu", "nn.conv2d", "reshape", "add", "nn.relu")
    assert chain.names == tuple(f"relax.{n}" for n in names)
    assert differs(by_hand, chain) == 0


@T.prim_func(s_tir=True)
def shared_formula(
    x: T.Buffer((4, 8), "float32"), w: T.Buffer((8, 6), "float32"), y: T.Buffer((4, 6), "float32")
) -> None:
    m = T.sblock_alloc_buffer((4, 6), "float32")
    for i, j, k in T.grid(4, 6, 8):
        with T.sblock("matmul"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                m[vi, vj] = T.float32(0)
            m[vi, vj] += x[vi, vk] * w[vk, vj]
    for i, j in T.grid(4, 6):
        with T.sblock("silu of twice"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = (m[vi, vj] + m[vi, vj]) * T.sigmoid(m[vi, vj] + m[vi, vj])


def test_the_largest_operator_is_cut_out() -> None:
    chain = op_infos(shared_formula)
    assert isinstance(chain, Chain), chain
    assert chain.names[0] == "relax.matmul" and chain.names[-1] == "relax.nn.silu"
    assert differs(shared_formula, chain) < 1e-6


@T.prim_func(s_tir=True)
def mixed_places(x: T.Buffer((8,), "float32"), y: T.Buffer((4,), "float32")) -> None:
    for i in range(4):
        with T.sblock("gcd"):
            v = T.axis.spatial(4, i)
            y[v] = T.call_extern("float32", "mystery", x[v]) + x[v * v % 7]


def test_an_unknown_formula_is_refused() -> None:
    assert isinstance(op_infos(mixed_places), Refusal)


def _elementwise(formula: str) -> Any:
    return tvm.script.from_source(f"""
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32"), o: T.Buffer((8,), "float32")):
    for i in range(8):
        o[i] = {formula}
""")


def _wrapped(times: int) -> str:
    formula = "T.nextafter(x[i], y[i])"
    for k in range(times):
        formula = f"T.exp({formula} * (y[i] + T.float32({k + 2})))"
    return formula


def _tree(depth: int, leaves: Iterator[str]) -> str:
    if depth == 0:
        return next(leaves)
    a, b = _tree(depth - 1, leaves), _tree(depth - 1, leaves)
    return f"T.tanh({a} {'-+'[depth % 2]} {b})"


def _windows(formula: str) -> tuple[Any, int]:
    """The chain, and how many windows were looked at for it."""
    seen: list[Any] = []

    class Counting(Recover):
        def __call__(self, w: DefinitionWindow, *rest: Any) -> Any:
            seen.append(w)
            return super().__call__(w, *rest)

    program = define(_elementwise(formula))
    return segment(program, Counting()), len(seen)


def test_work_grows_slowly_with_the_nesting_around_what_is_unknown() -> None:
    (_, few), (parts, many) = _windows(_wrapped(2)), _windows(_wrapped(6))
    assert isinstance(parts[0].info, Refusal)
    assert many < 20 * few and many < BUDGET


def test_a_deep_tree_is_read_within_the_budget() -> None:
    leaves = (f"T.asin({v}[i])" if k % 3 else f"{v}[i]" for k, v in enumerate("xy" * 8))
    func = _elementwise(_tree(3, leaves))
    chain = op_infos(func)
    assert isinstance(chain, Chain), chain
    assert differs(func, chain) < 1e-6


def test_parts_that_occur_twice_are_one_step() -> None:
    twice = "(T.exp(x[i] * y[i]) + T.float32(1)) * T.tanh(T.exp(x[i] * y[i]))"
    func = _elementwise(twice)
    chain = op_infos(func)
    assert isinstance(chain, Chain), chain
    assert chain.names.count("relax.exp") == 1
    assert differs(func, chain) < 1e-6


def test_an_exhausted_budget_is_a_refusal() -> None:
    program = define(_elementwise("T.exp(x[i] * y[i]) + T.tanh(x[i])"))
    (d,) = program.definitions
    assert InlinedOperators(Recover())(d) is not None
    assert InlinedOperators(Recover(), budget=2)(d) is None


def test_windows_that_race_are_not_taken_for_those_that_do_not() -> None:
    (d,) = define(_elementwise("T.exp(x[i])")).definitions
    seen = Recover()
    found = []
    for races in (False, True):
        growing = Growing()
        growing.add(replace(d, races=races))
        found.append(
            seen(growing.window(frozenset({d.tensor})), None, lambda f, _: Refusal(str(f.races)))
        )
    assert [f.reason for f in found if isinstance(f, Refusal)] == ["False", "True"]
