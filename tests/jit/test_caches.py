"""Caches are written in place, and a session keeps them between calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import opinfo
from opinfo.jit import BoundaryError
from opinfo.jit.arguments.signature import Signature
from opinfo.transform import AppendToCaches

op = relax.op
WIDTH = 4
Array = np.ndarray[Any, Any]
Emit = Callable[[Any], Any]


def attention(*, fields: bool = False, batch: Any = 1, names: tuple[str, ...] = ("main",)) -> Any:
    """A module whose functions attend to what they have cached: keys x, values 2 x."""
    builder = relax.BlockBuilder()
    for name in names:
        s, p = (1 if name == "decode" else tirx.Var("s", "int64")), tirx.Var("p", "int64")
        batched = tirx.Var("b", "int64") if batch is None else batch
        x = relax.Var("x", relax.TensorType([batched, s, WIDTH], "float32"))
        cache = relax.TensorType([batched, p, WIDTH], "float32")
        params = [relax.Var("past", relax.TupleType([cache, cache]))]
        if not fields:
            params = [relax.Var("keys", cache), relax.Var("values", cache)]
        with builder.function(name, [x, *params]):
            with builder.dataflow():
                old = [relax.TupleGetItem(params[0], k) for k in (0, 1)] if fields else params
                twice = builder.emit(op.add(x, x))
                keys = builder.emit(op.concat([old[0], x], 1))
                values = builder.emit(op.concat([old[1], twice], 1))
                scores = builder.emit(op.matmul(x, op.permute_dims(keys, [0, 2, 1])))
                read = builder.emit(op.matmul(builder.emit(op.nn.softmax(scores)), values))
                out = builder.emit_output(relax.Tuple([read, relax.Tuple([keys, values])]))
            builder.emit_func_output(out)
    return builder.get()


def expected(rows: list[Array]) -> Array:
    keys = np.concatenate(rows, 1)
    scores = np.exp(rows[-1] @ keys.transpose(0, 2, 1))
    return np.asarray(scores / scores.sum(-1, keepdims=True) @ (2 * keys))


def draw(count: int, batch: int = 1, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((batch, count, WIDTH)).astype("float32")


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    module = AppendToCaches()(attention(fields=True, batch=None, names=("main", "decode")))
    with opinfo.Session(opinfo.compile(module, shapes="jit")) as session:
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
    changed = np.flatnonzero((buffer != before).any(-1))
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
    caches = tuple(np.zeros((1, 8, WIDTH), "float32") for _ in range(2))
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


def module_of(body: Callable[[Emit, Any, Any], Any], *sizes: Any) -> tvm.IRModule:
    """A module of a function of x and a cache."""
    builder, s = relax.BlockBuilder(), tirx.Var("s", "int64")
    x, *pasts = (relax.Var(n, relax.TensorType([1, e, WIDTH], "float32"))
                 for n, e in zip(("x", "a", "b"), (s, *sizes), strict=False))  # fmt: skip
    with builder.function("main", [x, *pasts]):
        with builder.dataflow():
            out = builder.emit_output(body(builder.emit, x, pasts))
        builder.emit_func_output(out)
    return builder.get()


P, Q = tirx.Var("p", "int64"), tirx.Var("q", "int64")


@pytest.mark.parametrize(("body", "sizes", "why"), [
    (lambda e, x, c: op.add(x, x), (P,), "returns no concatenation"),
    (lambda e, x, c: op.concat([e(op.exp(x)), c[0]], 1), (P,), "is no parameter"),
    (lambda e, x, c: op.concat([c[0], x], 1), (7,), "axis 1 of a has no symbolic length"),
    (lambda e, x, c: op.concat([c[0], x, x], 1), (P,), "joins 3 tensors"),
    (lambda e, x, c: relax.Tuple([e(op.concat([c[0], x], 1)), e(op.exp(c[0]))]), (P,), "reads a"),
    (lambda e, x, c: relax.Tuple([e(op.concat([y, x], 1)) for y in c]), (P, Q),
     "different lengths"),
    (lambda e, x, c: relax.Tuple([e(op.concat([c[0], x], 1)), e(op.concat([c[0], x], 1))]), (P,),
     "twice"),
])  # fmt: skip
def test_refusals(body: Any, sizes: Any, why: str) -> None:
    with pytest.raises(ValueError, match=f"AppendToCaches: no function .*({why})"):
        AppendToCaches()(module_of(body, *sizes))


def test_a_session_without_caches_names_the_pass() -> None:
    compiled = opinfo.compile(module_of(lambda e, x, c: op.exp(x)), shapes="generic")
    with opinfo.Session(compiled) as session:
        with pytest.raises(ValueError, match=r"main has no caches; .*AppendToCaches"):
            session.start(draw(1))
