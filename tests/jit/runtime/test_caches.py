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


def tail(emit: Emit, cache: Any, x: Any, count: int, less: int = 0, step: int = 1) -> Any:
    """The sum of a cache with new rows, and ``count`` rows before the last ``less``."""
    joined = emit(op.concat([cache, x], 1))
    end = joined.ty.shape[1] - less
    begin = end - count if count else 0
    part = op.strided_slice(joined, [1], [begin], [end], [step], assume_inbound=True)
    return relax.Tuple([emit(op.sum(joined, [1])), emit(part)])


def total(out: Any) -> Any:
    return op.sum(out, [1])


def updated(
    emit: Emit, cache: Any, x: Any, read: Callable[[Any], Any] = total,
    reduction: str = "update", back: tuple[int, ...] = (1, 0, 2),
    chained: Callable[[Any], Any] | None = None,
) -> Any:  # fmt: skip
    """What reads a cache with rows at positions 2, 3, ..., and the cache."""
    count = x.ty.shape[1]
    first = emit(op.permute_dims(cache, [1, 0, 2]))
    index = emit(op.reshape(emit(op.arange(2, count + 2, 1, "int64")), [count, 1]))
    rows = emit(op.permute_dims(x, [1, 0, 2]))
    out = emit(op.permute_dims(emit(op.scatter_nd(first, index, rows, reduction)), back))
    others = [] if chained is None else [emit(chained(first))]
    return relax.Tuple([emit(read(out)), out, *others])


P, Q = tirx.Var("p", "int64"), tirx.Var("q", "int64")


@pytest.mark.parametrize(("body", "sizes", "why"), [
    (lambda e, x, c: op.add(x, x), (P,), "returns no parameter with new rows"),
    (lambda e, x, c: op.concat([e(op.exp(x)), c[0]], 1), (P,), "is not a parameter"),
    (lambda e, x, c: op.concat([c[0], x], 1), (7,), "axis 1 of a has no symbolic length"),
    (lambda e, x, c: op.concat([c[0], x, x], 1), (P,), "joins 3 tensors"),
    (lambda e, x, c: relax.Tuple([e(op.concat([c[0], x], 1)), e(op.concat([c[0], x], 1))]), (P,),
     "twice"),
    (lambda e, x, c: summed(e, op.concat(e(relax.Tuple([c[0], x])), 1)), (P,), "has a name"),
    (lambda e, x, c: op.concat([c[0], x], 1), (P,), "no tensor of known rank beside its caches"),
    # not the last rows
    *((lambda e, x, c, a=a: tail(e, c[0], x, *a), (P,), "not proved to be the last rows")
      for a in ((0, -3), (4, 1), (3, 0, 2))),
    (lambda e, x, c: tail(e, c[0], x, 3), (5,), "axis 1 of a has no symbolic length"),
    (lambda e, x, c: relax.Tuple([*tail(e, c[0], x, 3).fields, e(op.concat([c[1], x], 1))]),
     (P, P), "keeps different ones"),
    # not rows that replace others
    (lambda e, x, c: updated(e, c[0], x, reduction="add"), (8,), "adds to its cache"),
    (lambda e, x, c: updated(e, c[0], x, back=(1, 2, 0)), (8,), "axes in another order"),
    (lambda e, x, c: updated(e, e(op.exp(c[0])), x), (8,), "updates is not a parameter"),
    (lambda e, x, c: relax.Tuple([*updated(e, c[0], x).fields, e(op.exp(c[0]))]), (8,),
     "reads a elsewhere"),
    (lambda e, x, c: updated(e, c[0], x, lambda out: op.reshape(out, [8, WIDTH])), (8,),
     "may be a view of a cache"),
    (lambda e, x, c: updated(e, c[0], x, chained=op.exp), (8,), "reads a elsewhere"),
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

    assert "uses past as a whole" in refusal([x, past], body)


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
    about = '{"caches": [[1, -1, 1, 1, 0]], "groups": [["n"]]}'
    with builder.function("main", [x, c, length], attrs={CACHES: about}):
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
    alone = module_of(lambda emit, x, pasts: op.concat([pasts[0], x], 1), P)
    module["prefill"] = alone["main"].with_attr("global_symbol", "prefill")
    with pytest.warns(UserWarning, match="does not change prefill: it returns no tensor"):
        after = AppendToCaches()(module)
    tvm.ir.assert_structural_equal(after["prefill"], module["prefill"])


def _unread(emit: Emit, x: Any, c: Any) -> Any:
    return relax.Tuple([emit(op.exp(x)), *(emit(op.concat([y, x], 1)) for y in c)])


def _reread(emit: Emit, x: Any, c: Any) -> Any:
    joined = emit(op.concat([c[0], emit(op.add(x, x))], 1))
    return relax.Tuple([emit(op.exp(c[0])), c[0], emit(op.sum(joined, [1])), joined])


def _sliding(emit: Emit, x: Any, c: Any) -> Any:
    """Two caches of different lengths: the last three rows of one, and all of the other."""
    whole, other = (emit(op.concat([y, x], 1)) for y in c)
    end = whole.ty.shape[1]
    part = op.strided_slice(whole, [1], [tirx.max(end - 3, 0)], [end], [1], assume_inbound=True)
    return relax.Tuple([emit(op.sum(whole, [1])), emit(op.sum(other, [1])), emit(part), other])


def _rolling(emit: Emit, x: Any, c: Any) -> Any:
    """Always five rows; the result also reads them as they were."""
    return relax.Tuple([emit(op.exp(c[0])), *tail(emit, c[0], x, 5).fields])


#: Functions by kind, the number of caches, which are last among the results, and their rows.
KINDS: dict[str, tuple[Any, int, tuple[Any, ...]]] = {
    "unread": (_unread, 2, (P, P)), "reread": (_reread, 1, (P,)), "sliding": (_sliding, 2, (P, Q)),
    "rolling": (_rolling, 1, (5,)), "static": (lambda e, x, c: updated(e, c[0], x), 1, (8,)),
}  # fmt: skip


@pytest.fixture(scope="module")
def kinds() -> Iterator[Any]:
    module = tvm.IRModule()
    for name, (body, _, sizes) in KINDS.items():
        module[name] = module_of(body, *sizes)["main"].with_attr("global_symbol", name)
    before = module.script()
    written = AppendToCaches()(module)
    assert module.script() == before
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    with opinfo.Session(opinfo.compile(written, [], shapes="generic")) as session:
        yield session, machine


def _run(kinds: Any, name: str, rows: list[int], other: Any = None) -> Any:
    """Compare each call with that of the function as it was, to which its caches are passed."""
    session, machine = kinds
    _, count, sizes = KINDS[name]
    caches = [np.zeros((1, s if isinstance(s, int) else 0, WIDTH), "float32") for s in sizes]
    generation = other
    for k, new in enumerate(rows):
        x = draw(new, seed=k)
        outs = [o.numpy() for o in machine[name](*map(tvm.runtime.tensor, (x, *caches)))]
        expected, caches = outs[:-count], outs[-count:]
        if generation is None:
            generation = session.start(x, function=name)
        elif k == 0:
            generation.start(x)
        else:
            generation.step(x)
        got = [generation.result] if len(expected) == 1 else list(generation.result)
        assert len(got) == len(expected)
        for ours, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-4, atol=1e-4)
    assert generation.length == sum(rows)
    return generation


@pytest.mark.parametrize("name", KINDS)
def test_calls_return_what_the_function_returns_with_its_caches(kinds: Any, name: str) -> None:
    rows = [2, 1, 3, 1] if name in ("static", "reread") else [2, 1, 40, 1, 30, 1, 1, 60]
    again = _run(kinds, name, rows)
    fork, first = again.fork(), [o.copy() for o in again._buffers]
    fork.step(draw(2, seed=9))
    for own, before in zip(again._buffers, first, strict=True):
        np.testing.assert_array_equal(own, before)
    _run(kinds, name, [1, 2], again)  # nothing is left of the rows before


@pytest.mark.parametrize(("name", "rows", "why"), [
    ("sliding", [2, 3], "keeps only the last rows"),
    ("rolling", [2, 1], "keeps only the last rows"),
    ("rolling", [2, 3], "keeps only the last rows"),  # as many rows as the window has
    ("static", [2, 3], "stores rows at positions"),
])  # fmt: skip
def test_rows_that_cannot_be_kept_alone_are_only_reset_to_none(
    kinds: Any, name: str, rows: list[int], why: str
) -> None:
    generation = _run(kinds, name, rows)
    with pytest.raises(ValueError, match=f"reset: a cache {why}.*; expected 0 or {sum(rows)}"):
        generation.reset(2)
    generation.reset(sum(rows))
    generation.fork().step(draw(1))
    generation.reset()
    assert generation.length == 0
    x = draw(2, seed=3)
    again, fresh = (g.numpy() if hasattr(g, "numpy") else g[0].numpy() for g in (
        generation.step(x), kinds[0].start(x, function=name).result))  # fmt: skip
    np.testing.assert_array_equal(again, fresh)


@pytest.mark.parametrize("name", KINDS)
def test_a_fork_continues_as_the_function_does(kinds: Any, name: str) -> None:
    session, machine = kinds
    _, count, sizes = KINDS[name]
    caches = [np.zeros((1, s if isinstance(s, int) else 0, WIDTH), "float32") for s in sizes]
    generation = None
    for k, new in enumerate((2, 1, 3, 2)):
        x = draw(new, seed=k)
        outs = [o.numpy() for o in machine[name](*map(tvm.runtime.tensor, (x, *caches)))]
        caches = outs[-count:]
        if generation is None:
            generation = session.start(x, function=name)
        else:
            fork = generation.fork()
            generation.step(draw(4, seed=90))  # the fork has no part in it
            generation = fork
            generation.step(x)
        got = [generation.result] if len(outs) == count + 1 else list(generation.result)
        for ours, theirs in zip(got, outs[:-count], strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-4, atol=1e-4)


def test_rows_outside_of_a_static_cache_are_dropped(kinds: Any) -> None:
    """Positions 2 to 9 of eight: the last two are outside, and what follows the cache stays."""
    generation = kinds[0].start(draw(8), function="static")
    np.testing.assert_array_equal(generation._buffers[0][0, 2:], draw(8)[0, :6])
    assert not generation._buffers[0][0, :2].any()
