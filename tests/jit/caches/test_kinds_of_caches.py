"""Caches that calls do not read, or read again, or drop rows from, in sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import opinfo
from opinfo.transform import AppendToCaches

from .cache_modules import WIDTH, P, Q, draw, module_of, tail, updated

op = relax.op
Array = np.ndarray[Any, Any]
Emit = Callable[[Any], Any]


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
