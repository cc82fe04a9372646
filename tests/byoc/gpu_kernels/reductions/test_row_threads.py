"""How threads share rows: what they accumulate in, and how many they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import te, tirx

from opinfo.byoc.backends.nvidia.schedules.program.thread_loops import in_turns, number
from opinfo.byoc.backends.nvidia.schedules.rows import row_kernel
from opinfo.byoc.backends.nvidia.splits.split_kernels import split_kernels
from opinfo.byoc.backends.nvidia.tvm_schedules import _lowers

from ....common.interpret import interpret
from ....common.machine import execute
from ..gpu_cases import TARGET, check, kernel_of, nn, op, prim_func, rule_of


def softmax(emit: Any, x: Any) -> Any:
    return emit(nn.softmax(x, axis=1))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_extremes_of_halves_are_in_float32(dtype: str) -> None:
    """Of a maximum of halves, CUDA has four instructions, and TVM no shuffles of bfloat16."""
    func = prim_func(lambda e, x: e(op.max(x, [-1])), (4, 264), dtype=dtype)
    kernel = kernel_of(func)
    own = [b for b in kernel.body.block.alloc_buffers if b.name.endswith(("_acc", "_row"))]
    assert [str(b.ty.dtype) for b in own] == ["float32"] * 2
    check(func, kernel)


def extreme(kind: str, start: Any, length: int = 264, dtype: str = "float16") -> Any:
    pick = {"max": tirx.Max, "min": tirx.Min}[kind]
    k, x = te.reduce_axis((0, length), "k"), te.placeholder((4, length), dtype)
    first = start if callable(start) else lambda t: tirx.const(start, t)
    reducer = te.comm_reducer(lambda a, b: pick(a, b), first, name=kind)
    out = te.compute((4,), lambda i: reducer(x[i, k], axis=k), name="out")
    return te.create_prim_func([x, out]).with_attr("tirx.noalias", True)


@pytest.mark.parametrize(("kind", "start"), [("max", 0.0), ("min", 0.0), ("max", -3.0)])
def test_extremes_may_start_at_any_finite_number(kind: str, start: float) -> None:
    """TVM's reduction over threads starts at the number that changes none."""
    func = extreme(kind, start)
    kernel, rng = kernel_of(func), np.random.default_rng(0)
    assert _lowers(kernel, TARGET)
    for values in (rng.standard_normal((4, 264)), -np.ones((4, 264)), np.ones((4, 264))):
        (got,), (want,) = execute(kernel, [values]), interpret(func, [values])
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("kind", "start"), [("max", -np.inf), ("min", np.inf)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_extremes_of_infinities_are_not_over_threads(kind: str, start: float, dtype: str) -> None:
    """There they would be the largest finite number."""
    func = extreme(kind, start, dtype=dtype)
    assert "rows" not in rule_of(func)
    (got,) = execute(kernel_of(func), [np.full((4, 264), start)])
    np.testing.assert_array_equal(got, np.full(4, start))


@pytest.mark.parametrize("length", [6, 264])
def test_extremes_of_halves_may_start_at_an_expression(length: int) -> None:
    func = extreme("max", lambda t: tirx.Mul(tirx.const(-1, t), tirx.const(0.5, t)), length)
    for values in (np.full((4, length), -9.0), np.full((4, length), 2.0)):
        (got,), (want,) = execute(kernel_of(func), [values]), interpret(func, [values])
        np.testing.assert_array_equal(got, want)


def test_few_rows_have_several_threads_each(monkeypatch: pytest.MonkeyPatch) -> None:
    func = prim_func(lambda e, x: e(op.sum(x, [1])), (32, 16), dtype="float32")
    assert rule_of(func) == "few rows"
    check(func, kernel_of(func))
    monkeypatch.setattr(row_kernel, "FEW_ROWS", 500)
    assert rule_of(func) == "pointwise"


def test_short_rows_that_are_many_have_their_own_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_kernel, "FEW_ROWS", 1)
    func = prim_func(lambda e, x: e(nn.log_softmax(x)), (9, 10))
    assert rule_of(func) == "short rows"
    check(func, kernel_of(func))


def threads_of(kernel: Any) -> int:
    found: list[int] = []

    def note(loop: Any) -> None:
        if loop.thread_binding is not None and loop.thread_binding.thread_tag == "threadIdx.x":
            found.append(int(loop.extent))

    tvm_ffi.structural_walk(kernel.body, (tirx.For, note))
    return found[0]


def test_rows_that_stay_in_registers_leave_room_for_other_blocks() -> None:
    sums = prim_func(lambda e, x: e(op.sum(x, [0])), (8192, 2048))
    assert threads_of(kernel_of(sums)) == 512
    assert threads_of(kernel_of(prim_func(softmax, (64, 128, 2048)))) == 256


def test_rows_that_are_read_once_have_fewer_threads() -> None:
    shape = (512, 32000)
    once, twice = (kernel_of(prim_func(lambda e, x, f=f: e(f(x)), shape)) for f in (
        lambda x: op.argmax(x, -1), nn.log_softmax))  # fmt: skip
    assert (threads_of(once), threads_of(twice)) == (512, 512)


@pytest.mark.parametrize(
    ("length", "dtype", "rows", "threads"),
    [
        (40960, "float16", 512, 512),  # ten vectors of a thread
        (40968, "float16", 512, 1024),  # one more
        (40960, "float16", 8, 1024),  # few rows
        (20480, "float32", 512, 512),
    ],
)
def test_two_blocks_of_long_rows_fit_a_multiprocessor(
    length: int, dtype: str, rows: int, threads: int
) -> None:
    func = prim_func(lambda e, x: e(nn.log_softmax(x)), (rows, length), dtype=dtype)
    assert threads_of(kernel_of(func)) == threads


def test_long_rows_of_two_tensors_have_more_threads() -> None:
    func = prim_func(lambda e, x, y: e(nn.log_softmax(e(op.add(x, y)))), *[(512, 40960)] * 2)
    assert threads_of(kernel_of(func)) == 1024


def test_places_of_registers_are_known_when_a_thread_has_ten_vectors() -> None:
    """An index that varies at run time would put registers into memory."""
    kernel = kernel_of(prim_func(lambda e, x: e(nn.log_softmax(x)), (512, 36864)))
    serial: list[Any] = []

    def note(loop: Any) -> None:
        if loop.thread_binding is None and loop.kind == tirx.ForKind.SERIAL:
            serial.append(loop)

    tvm_ffi.structural_walk(kernel.body, (tirx.For, note))
    assert threads_of(kernel) == 512 and not serial


@pytest.mark.parametrize(("dtype", "parts"), [("float32", 1024), ("float16", 512)])
def test_a_block_has_at_most_64_kib(dtype: str, parts: int) -> None:
    found = split_kernels(prim_func(lambda e, x: e(op.sum(x)), (8192, 2048), dtype=dtype))
    assert isinstance(found, tuple)
    assert int(found[0].writes[0].ty.shape[0]) == parts


@pytest.mark.parametrize(("extent", "most", "loops"), [
    (21, 8, [("serial", 3), ("unrolled", 7)]), (8, 8, [("unrolled", 8)]),
    (6, 1, [("serial", 6)]), (13, 8, [("serial", 13)]), (1, 8, []),
])  # fmt: skip
def test_loops_are_unrolled_by_divisors(extent: int, most: int, loops: list[Any]) -> None:
    var, buffer = tirx.Var("i", "int32"), tirx.decl_buffer((extent,), "float32")
    stmt = in_turns(var, extent, most, tirx.BufferStore(
        buffer, tirx.FloatImm("float32", 1.0), [tirx.Cast("int64", var) + number(0)]))  # fmt: skip
    found = []
    while isinstance(stmt, tirx.For):
        found.append((tirx.ForKind(stmt.kind).name.lower(), int(stmt.extent)))
        stmt = stmt.body
    assert found == loops


def test_padding_is_not_decided_for_each_lane() -> None:
    func = prim_func(lambda e, x: e(nn.pad(x, [0, 0, 1, 1, 1, 1, 0, 0])), (2, 5, 5, 16))
    text = kernel_of(func).script()
    assert "if_then_else" not in text and text.count("else:") == 1
    check(func, kernel_of(func))


def test_padding_within_a_vector_is_decided_for_each_lane() -> None:
    func = prim_func(lambda e, x: e(nn.pad(x, [0, 0, 0, 0, 0, 0, 4, 4])), (2, 5, 5, 16))
    assert "if_then_else" in kernel_of(func).script()
    check(func, kernel_of(func))
