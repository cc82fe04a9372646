"""What has a schedule, what is refused, and that buffers are where they may be."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T

from opinfo.byoc.schedule import Refusal, Scheduled, schedule
from opinfo.byoc.schedule.rules import rule, rules

from .fused import TARGET, at, built, fused_one, inputs, run, scheduled

op, nn = relax.op, relax.op.nn


def product() -> Any:
    return fused_one([["n", 8], [8, 16]], lambda emit, x, w: op.matmul(x, w))


def test_refused_with_a_reason() -> None:
    func = product()
    done = scheduled(func).func
    for given, target, reason in [
        (tvm.IRModule(), TARGET, "expected a PrimFunc, got IRModule"),
        (func, "c", "not LLVM"),
        (done, TARGET, "already scheduled"),
        (func.without_attr("tirx.noalias"), TARGET, "noalias"),
    ]:
        found = schedule(given, target)
        assert isinstance(found, Refusal) and reason in found.reason


def test_a_rule_that_fails_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: Any) -> Any:
        raise ZeroDivisionError("no tile")

    monkeypatch.setattr(import_module("opinfo.byoc.schedule.schedule"), "rules", failing)
    found = schedule(product(), TARGET)
    assert isinstance(found, Refusal) and "ZeroDivisionError: no tile" in found.reason


def test_a_buffer_that_two_stages_write_is_refused() -> None:
    @T.prim_func(private=True, s_tir=True)
    def twice(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tirx.noalias": True})
        for i in range(8):
            with T.sblock("a"):
                v = T.axis.spatial(8, i)
                y[v] = x[v] * 2.0
        for i in range(8):
            with T.sblock("b"):
                v = T.axis.spatial(8, i)
                y[v] = x[v] + 1.0

    found = schedule(twice, TARGET)
    assert isinstance(found, Refusal) and "written by several blocks" in found.reason


def test_loops_without_blocks_are_refused() -> None:
    @T.prim_func(private=True, s_tir=True)
    def scan(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tirx.noalias": True})
        for i in range(8):
            y[i] = x[i] + 1.0

    assert isinstance(schedule(scan, TARGET), Refusal)


def test_what_is_left_as_it_was_has_a_reason() -> None:
    func = fused_one([["n", 33]], lambda emit, x: op.argmax(x, 1))
    found = scheduled(func)
    assert "plain" in found.rules and "depend on one another" in found.reasons[0]
    kernel = built(found.func)
    for n in (1, 7):
        arrays = inputs(func, {"n": n})
        np.testing.assert_array_equal(run(kernel, arrays)[0], arrays[0].argmax(1))


def test_a_reduction_that_is_read_where_it_has_no_element_is_not_put_there() -> None:
    """Only a guard keeps ``total[v - 1]`` inside its buffer."""

    @T.prim_func(private=True, s_tir=True)
    def shifted(x: T.Buffer((8, 16), "float32"), y: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tirx.noalias": True})
        total = T.sblock_alloc_buffer((8,), "float32")
        for i, k in T.grid(8, 16):
            with T.sblock("sum"):
                v, r = T.axis.remap("SR", [i, k])
                with T.init():
                    total[v] = T.float32(0)
                total[v] = total[v] + x[v, r]
        for i in range(8):
            with T.sblock("shift"):
                v = T.axis.spatial(8, i)
                y[v] = T.if_then_else(v >= 1, total[v - 1], T.float32(0))

    found = scheduled(shifted)
    assert "total" in found.func.script()
    (got,) = run(built(found.func), [a := np.ones((8, 16), "float32"), np.ones(8, "float32")])
    np.testing.assert_allclose(got, [0, *a.sum(1)[:-1]])


def test_a_reduction_that_stores_along_its_axis_is_left() -> None:
    @T.prim_func(private=True, s_tir=True)
    def summed(x: T.Buffer((4, 9), "float32"), y: T.Buffer((4, 9), "float32")) -> None:
        T.func_attr({"tirx.noalias": True})
        for i, k in T.grid(4, 9):
            with T.sblock("y"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    y[vi, vk] = T.float32(0)
                y[vi, vk] = y[vi, vk] + x[vi, vk]

    found = schedule(summed, TARGET)
    assert isinstance(found, Refusal)
    assert found.reason == "y: a reduction stores at an index with a reduced axis"


@pytest.mark.parametrize("s", [5, 17])
def test_nothing_is_computed_twice_where_buffers_share_memory(s: int) -> None:
    """TVM puts the normalised scores in the place of the exponentials."""
    func = fused_one([["n", "s", 2, 16]] * 3, lambda emit, q, k, v: nn.attention(q, k, v))
    arrays = inputs(func, {"n": 2, "s": s})
    expected = _attention(*arrays[:3])
    for f in (func, at(func, {"n": 2, "s": s})) if s == 5 else (func,):
        (got,) = run(built(scheduled(f).func), arrays)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def _attention(*given: Any) -> Any:
    q, k, v = (x.transpose(0, 2, 1, 3) for x in given)
    scores = np.exp(q @ k.transpose(0, 1, 3, 2) / 4)
    return (scores / scores.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3)


def test_cores_share_the_outermost_loop() -> None:
    func = fused_one([["n", 8], [8, 64]], lambda emit, x, w: op.matmul(x, w))
    many = tvm.target.Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
    assert "parallel" not in scheduled(func).func.script()
    found = scheduled(func, many)
    assert "parallel" in found.func.script()
    arrays = inputs(func, {"n": 13})
    (got,) = run(built(found.func, many), arrays)
    np.testing.assert_allclose(got, arrays[0] @ arrays[1], rtol=1e-5, atol=1e-5)


def test_rules_are_unique() -> None:
    taken = rules()[0]
    with pytest.raises(ValueError, match="taken"):
        rule(taken.name, precedence=-1)(taken.run)
    with pytest.raises(ValueError, match="taken"):
        rule("another", precedence=taken.precedence)(taken.run)


def test_the_names_are_not_read() -> None:
    """Renamed blocks and buffers give the same nests."""

    @T.prim_func(private=True, s_tir=True)
    def one(a: T.Buffer((4, 8), "float32"), b: T.Buffer((4, 8), "float32")) -> None:
        T.func_attr({"tirx.noalias": True})
        for i, j in T.grid(4, 8):
            with T.sblock("matmul"):
                v, w = T.axis.remap("SS", [i, j])
                b[v, w] = a[v, w] + T.float32(1)

    @T.prim_func(private=True, s_tir=True)
    def two(x: T.Buffer((4, 8), "float32"), pad: T.Buffer((4, 8), "float32")) -> None:
        T.func_attr({"tirx.noalias": True})
        for p, q in T.grid(4, 8):
            with T.sblock("softmax"):
                r, s = T.axis.remap("SS", [p, q])
                pad[r, s] = x[r, s] + T.float32(1)

    tvm.ir.assert_structural_equal(scheduled(one).func, scheduled(two).func)


def test_a_scheduled_function_says_by_what() -> None:
    found = scheduled(product())
    assert isinstance(found, Scheduled) and found.rule == "contraction"
    assert repr(found) == "Scheduled(contraction)"
    assert isinstance(found.func, tirx.PrimFunc)
