"""Caches are written in place, and a session keeps them between calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.jit import BoundaryError
from opinfo.jit.arguments.signature import Signature
from opinfo.transform import AppendToCaches

from .cache_modules import WIDTH, P, attention, draw, expected, module_of

op = relax.op
Array = np.ndarray[Any, Any]
Emit = Callable[[Any], Any]


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    module = AppendToCaches()(attention(fields=True, batch=None, names=("main", "decode")))
    with opinfo.Session(opinfo.compile(module, [], shapes="jit")) as session:
        yield session


def check(generation: Any, rows: list[Array]) -> None:
    np.testing.assert_allclose(generation.result.numpy(), expected(rows), rtol=1e-5, atol=1e-5)
    assert generation.length == sum(r.shape[1] for r in rows)


@pytest.mark.parametrize("batch", [1, 3])
def test_steps_attend_to_all_rows_so_far_beyond_the_first_room(session: Any, batch: int) -> None:
    rows = [draw(60, batch)]
    generation = session.start(rows[0], step="decode")
    room = generation.capacity
    check(generation, rows)
    for k in range(8):
        rows.append(draw(1, batch, k))
        generation.step(rows[-1])
        check(generation, rows)
    assert generation.capacity == 2 * room


def test_a_step_may_have_several_rows(session: Any) -> None:
    rows = [draw(2), draw(5, seed=1), draw(200, seed=2)]
    generation = session.start(rows[0])
    generation.step(rows[1])
    generation.step(rows[2])
    check(generation, rows)


def test_a_step_writes_in_place(session: Any) -> None:
    generation = session.start(draw(3))
    (buffer, _), before = generation._buffers, generation._buffers[0].copy()
    generation.step(draw(1, seed=1))
    assert generation._buffers[0] is buffer
    # Rows beyond the length are not set, and may be NaN, which differs from itself.
    changed = np.flatnonzero((buffer.view("uint32") != before.view("uint32")).any(-1))
    assert set(changed) <= {3}
    np.testing.assert_array_equal(buffer[0, :4], np.concatenate([draw(3), draw(1, seed=1)], 1)[0])


def test_a_fork_and_a_reset_continue_from_their_rows(session: Any) -> None:
    first, other, third = draw(3), draw(1, seed=1), draw(1, seed=2)
    generation = session.start(first)
    fork = generation.fork()
    generation.step(other)
    fork.step(third)
    check(fork, [first, third])
    generation.reset(3)
    generation.step(third)
    check(generation, [first, third])
    with pytest.raises(ValueError, match="expected a length from 0 to 4, got 5"):
        generation.reset(5)


def test_no_kernel_is_compiled_for_a_length(session: Any) -> None:
    strategies = {f.function: (type(f.strategy).__name__, f.why) for f in session._kept.functions}
    grows = {name for name, how in strategies.items()
             if how == ("Generic", "its sizes change whenever a cache grows")}  # fmt: skip
    assert {"matmul", "matmul1", "softmax"} <= grows
    jitted = {name for name, (strategy, _) in strategies.items() if strategy == "Jit"}
    assert jitted and all(name.startswith("add") for name in jitted)


def test_a_call_behind_the_end_of_a_cache_is_refused(session: Any) -> None:
    zeros = np.zeros((1, 8, WIDTH), "float32")
    caches = tuple(tvm.runtime.tensor(zeros) for _ in range(2))
    session["main"](draw(4), caches, (4,))
    with pytest.raises(BoundaryError, match="room for 8 rows, and 4 in use and 5 new ones"):
        session["main"](draw(5), caches, (4,))


def test_inputs_that_do_not_fit_leave_the_caches(session: Any) -> None:
    rows = [draw(3)]
    generation = session.start(rows[0])
    for wrong in ((), (draw(1)[..., :2],), (draw(1, batch=2),)):
        with pytest.raises(BoundaryError):
            generation.step(*wrong)
    rows.append(draw(1, seed=1))
    generation.step(rows[1])
    check(generation, rows)


def test_the_rewritten_function_has_room_and_no_caches_among_its_results() -> None:
    module = attention()
    before = module.script()
    func = AppendToCaches()(module)["main"]
    assert module.script() == before
    signature = Signature.of(func)
    assert str(signature) == (
        "main(x: float32[1, s, 4], keys: float32[1, capacity, 4], "
        "values: float32[1, capacity, 4], cache_length: shape[p])"
    )
    assert [(c.param, c.axis, c.count) for c in signature.caches] == [(1, 1, "s"), (2, 1, "s")]
    assert isinstance(func.ret_ty, relax.TensorType)
    assert Signature.from_json(signature.to_json()) == signature


def test_caches_are_in_the_order_of_the_parameters() -> None:
    def body(emit: Emit, x: Any, caches: Any) -> Any:
        joined = [emit(op.concat([y, x], 1)) for y in caches]
        return relax.Tuple([*(emit(op.sum(j, [1])) for j in joined), *joined[::-1]])

    module = module_of(body, P, P)
    assert [c.param for c in Signature.of(AppendToCaches()(module)["main"]).caches] == [1, 2]


def test_a_cache_that_would_be_copied_is_refused(session: Any) -> None:
    good = tvm.runtime.tensor(np.zeros((1, 8, WIDTH), "float32"))
    raw = np.zeros(8 * WIDTH + 17, "float32")
    start = 2 if raw[1:].ctypes.data % 64 == 0 else 1
    readonly = np.zeros((1, 8, WIDTH), "float32")
    readonly.flags.writeable = False
    for bad in (raw[start : start + 8 * WIDTH].reshape(1, 8, WIDTH),
                np.zeros((1, 8, 2 * WIDTH), "float32")[..., :WIDTH], readonly):  # fmt: skip
        with pytest.raises(BoundaryError, match=r"cache parameter past\[1\] must be a writable"):
            session["main"](draw(3), (good, bad), (0,))
