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
from opinfo.jit.arguments.signature import CACHES, Signature
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


def summed(emit: Emit, joined: Any, *others: Any) -> Any:
    joined = emit(joined)
    return relax.Tuple([emit(op.sum(joined, [1])), joined, *others])


P, Q = tirx.Var("p", "int64"), tirx.Var("q", "int64")


@pytest.mark.parametrize(("body", "sizes", "why"), [
    (lambda e, x, c: op.add(x, x), (P,), "returns no concatenation"),
    (lambda e, x, c: op.concat([e(op.exp(x)), c[0]], 1), (P,), "is not a parameter"),
    (lambda e, x, c: op.concat([c[0], x], 1), (7,), "axis 1 of a has no symbolic length"),
    (lambda e, x, c: op.concat([c[0], x, x], 1), (P,), "joins 3 tensors"),
    (lambda e, x, c: relax.Tuple([e(op.concat([c[0], x], 1)), e(op.exp(c[0]))]), (P,), "reads a "),
    (lambda e, x, c: relax.Tuple([e(op.concat([y, x], 1)) for y in c]), (P, Q),
     "different lengths"),
    (lambda e, x, c: relax.Tuple([e(op.concat([c[0], x], 1)), e(op.concat([c[0], x], 1))]), (P,),
     "twice"),
    (lambda e, x, c: summed(e, op.concat([c[0], c[0]], 1)), (P,), "reads a elsewhere"),
    (lambda e, x, c: summed(e, op.concat([c[0], x], 1), c[0]), (P,), "reads a elsewhere"),
    (lambda e, x, c: summed(e, op.concat([c[0], x], 1), e(op.concat(e(relax.Tuple(c * 2)), 2))),
     (P,), "reads a elsewhere"),
    (lambda e, x, c: summed(e, op.concat(e(relax.Tuple([c[0], x])), 1)), (P,), "has a name"),
    (lambda e, x, c: relax.Tuple([e(op.exp(x)), e(op.concat([c[0], x], 1))]), (P,),
     "no other result reads a"),
    (lambda e, x, c: op.concat([c[0], x], 1), (P,), "no other result reads a"),
    (lambda e, x, c: relax.Tuple([e(op.zeros_like(j := e(op.concat([c[0], x], 1)))), j]), (P,),
     "no other result reads a"),
])  # fmt: skip
def test_refusals(body: Any, sizes: Any, why: str) -> None:
    with pytest.raises(ValueError, match=f"AppendToCaches: no function .*({why})"):
        AppendToCaches()(module_of(body, *sizes))


def refusal(params: list[Any], body: Callable[[Any], Any]) -> str:
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(body(builder))
        builder.emit_func_output(out)
    with pytest.raises(ValueError, match="AppendToCaches: no function") as caught:
        AppendToCaches()(builder.get())
    return str(caught.value)


def rows_of(name: str, *shape: Any, dtype: str = "float32") -> Any:
    return relax.Var(name, relax.TensorType(shape, dtype))


def test_a_matched_cache_is_refused() -> None:
    x, c, r = rows_of("x", 1, Q, WIDTH), rows_of("c", 1, P, WIDTH), tirx.Var("r", "int64")
    ty = relax.TensorType([1, r, WIDTH], "float32")
    why = refusal([x, c], lambda b: summed(b.emit, op.concat([b.match_cast(c, ty), x], 1)))
    assert "is not a parameter" in why


def test_a_tuple_of_caches_used_as_a_whole_is_refused() -> None:
    x, c = rows_of("x", 1, Q, WIDTH), rows_of("c", 1, P, WIDTH)
    past = relax.Var("past", relax.TupleType([c.ty, c.ty]))

    def body(b: Any) -> Any:
        whole = b.emit(op.concat(past, 2))
        return summed(b.emit, op.concat([relax.TupleGetItem(past, 0), x], 1), whole)

    assert "reads past elsewhere" in refusal([x, past], body)


def test_a_flattening_concatenation_is_refused() -> None:
    x, c = rows_of("x", Q), rows_of("c", P)
    why = refusal([x, c], lambda b: (lambda j: relax.Tuple([b.emit(op.exp(j)), j]))(
        b.emit(op.concat([c, x], None))))  # fmt: skip
    assert "joins flattened tensors" in why


def test_a_cache_that_numpy_has_no_arrays_of_is_refused() -> None:
    x, c = (rows_of(n, 1, e, WIDTH, dtype="bfloat16") for n, e in (("x", Q), ("c", P)))
    assert "is bfloat16" in refusal([x, c], lambda b: summed(b.emit, op.concat([c, x], 1)))


def test_a_parameter_named_like_the_length_is_refused() -> None:
    x, c = rows_of("x", 1, Q, WIDTH), rows_of("c", 1, P, WIDTH)
    size = relax.Var("cache_length", relax.ShapeType([tirx.Var("n", "int64")]))
    why = refusal([x, size, c], lambda b: summed(b.emit, op.concat([c, x], 1)))
    assert "it has a parameter cache_length" in why


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


def test_a_store_that_was_simplified_away_is_refused() -> None:
    builder = relax.BlockBuilder()
    x, c = rows_of("x", 1, Q, WIDTH), rows_of("c", 1, P, WIDTH)
    length = relax.Var("cache_length", relax.ShapeType([tirx.Var("n", "int64")]))
    with builder.function("main", [x, c, length], attrs={CACHES: "[[1, -1, 1, 1]]"}):
        with builder.dataflow():
            out = builder.emit_output(op.exp(x))
        builder.emit_func_output(out)
    module = builder.get()
    with pytest.raises(ValueError, match="1 caches, and only 0 stores to them are left"):
        opinfo.compile(module, shapes="generic")


def test_a_session_without_caches_names_the_pass() -> None:
    compiled = opinfo.compile(module_of(lambda e, x, c: op.exp(x)), shapes="generic")
    with opinfo.Session(compiled) as session:
        with pytest.raises(ValueError, match=r"main has no caches; .*AppendToCaches"):
            session.start(draw(1))


def test_a_function_that_stays_beside_a_rewritten_one_is_named() -> None:
    module = module_of(lambda emit, x, pasts: summed(emit, op.concat([pasts[0], x], 1)), P)
    unread = module_of(lambda emit, x, pasts: relax.Tuple([emit(op.concat([pasts[0], x], 1))]), P)
    module["prefill"] = unread["main"].with_attr("global_symbol", "prefill")
    with pytest.warns(UserWarning, match="does not change prefill: no other result reads"):
        after = AppendToCaches()(module)
    tvm.ir.assert_structural_equal(after["prefill"], module["prefill"])
