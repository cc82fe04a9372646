"""Which graphs are one region of attention, and why others are not."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.compile import compile_module
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.matching.near_misses import PartialMatches
from opinfo.byoc.prepare.prepare import prepare

from ...layout import nets
from .attention_cases import Attention
from .test_attention import ONLY, error_of, nn, op

Build = Callable[..., Any]
QUERY, KEY, VALUE = (2, 9, 16), (2, 16, 13), (2, 13, 8)
N = tvm.tirx.Var("n", "int64")


def _plain(
    scored: Build = lambda e, s, *o: s, weighed: Build = lambda e, p, *o: p, axis: int = -1
) -> Build:
    """Attention with functions of the emitter, the scores or the weights, and other inputs."""

    def build(emit: Any, rng: Any, q: Any, k: Any, v: Any, *others: Any) -> Any:
        scores = scored(emit, emit(op.matmul(q, k)), *others)
        weights = emit(nn.softmax(scores, axis))
        return emit(op.matmul(weighed(emit, weights, *others), v))

    return build


def _scores_twice(emit: Any, rng: Any, q: Any, k: Any, v: Any) -> Any:
    scores = emit(op.matmul(q, k))
    out = emit(op.matmul(emit(nn.softmax(scores, -1)), v))
    return emit(op.add(out, emit(op.sum(scores, [-1], keepdims=True))))


def _weights_twice(emit: Any, rng: Any, q: Any, k: Any, v: Any) -> Any:
    weights = emit(nn.softmax(emit(op.matmul(q, k)), -1))
    return emit(op.add(emit(op.matmul(weights, v)), emit(op.max(weights, [-1], keepdims=True))))


def _turned(emit: Any, rng: Any, q: Any, k: Any, v: Any) -> Any:
    weights = emit(nn.softmax(emit(op.matmul(q, k)), -1))
    return emit(op.matmul(emit(op.permute_dims(v, (0, 2, 1))),
                          emit(op.permute_dims(weights, (0, 2, 1)))))  # fmt: skip


def _second(emit: Any, rng: Any, q: Any, k: Any, v: Any) -> Any:
    weights = emit(nn.softmax(emit(op.matmul(q, k)), -1))
    return emit(op.matmul(v, weights))


def _log(emit: Any, rng: Any, q: Any, k: Any, v: Any) -> Any:
    return emit(op.matmul(emit(nn.log_softmax(emit(op.matmul(q, k)), -1)), v))


def _halves(emit: Any, rng: Any, *inputs: Any) -> Any:
    q, k, v = (emit(op.astype(x, "float16")) for x in inputs)
    return emit(op.astype(_plain()(emit, rng, q, k, v), "float32"))


def _masked(emit: Any, scores: Any, mask: Any) -> Any:
    return emit(op.add(scores, emit(op.astype(mask, "float32"))))


SHAPES = (QUERY, KEY, VALUE)
REFUSED: dict[str, tuple[Build, tuple[Any, ...], str]] = {
    "softmax along rows": (_plain(axis=1), SHAPES, "axis is 1, expected the last one"),
    "scores are read twice": (_scores_twice, SHAPES, "read by 2 operators"),
    "weights are read twice": (_weights_twice, SHAPES, "read by 2 operators"),
    "log_softmax": (_log, SHAPES, "relax.nn.log_softmax"),
    "weights are transposed": (_turned, SHAPES, "the last two axes of the scores change"),
    "weights are the second operand": (_second, (QUERY, KEY, (2, 8, 9)), "is the second operand"),
    "half precision": (_halves, SHAPES, "the dtype is float16"),
    "rows are symbolic": (_plain(), ((2, N, 16), KEY, VALUE), "an extent is symbolic"),
    "keys are symbolic": (_plain(), (QUERY, (2, 16, N), (2, N, 8)), "an extent is symbolic"),
    "scaled by a tensor": (
        _plain(lambda e, s, t: e(op.multiply(s, t))), (*SHAPES, (13,)), "that is not one number"),
    "scaled to nothing": (
        _plain(lambda e, s: e(op.multiply(s, relax.const(1e-35)))), SHAPES, "the number 1e-35"),
    "a number is divided by the scores": (
        _plain(lambda e, s: e(op.divide(relax.const(1.0), s))), SHAPES, "its second operand"),
    "a number is added": (
        _plain(lambda e, s: e(op.add(s, relax.const(1.0)))), SHAPES, "a number is added"),
    "scores are added to themselves": (
        _plain(lambda e, s: e(op.add(s, s))), SHAPES, ""),
    "scaled after a term": (
        _plain(lambda e, s, t: e(op.multiply(e(op.add(s, t)), relax.const(2.0)))),
        (*SHAPES, (13,)), ""),
    "another function of the scores": (_plain(lambda e, s: e(op.tanh(s))), SHAPES, "relax.tanh"),
    "a term makes the scores larger": (
        _plain(lambda e, s, t: e(op.add(s, t))), (*SHAPES, (3, 1, 9, 13)), "are broadcast"),
    "weights are scaled": (
        _plain(weighed=lambda e, p: e(op.multiply(p, relax.const(2.0)))), SHAPES, ""),
    "weights are broadcast": (_plain(), (QUERY, KEY, (3, 2, 13, 8)), "are broadcast"),
}  # fmt: skip


def _matches(build: Build, shapes: tuple[Any, ...]) -> tuple[list[list[str]], list[str]]:
    """The operators of each match, and the reasons of all misses."""
    lowered = read(prepare(nets.net(build, *shapes, legal=False), [ONLY]), "test")
    names = [[lowered.name_of(o).removeprefix("relax.") for o in m.ops]
             for m in lowered.matches([ONLY])]  # fmt: skip
    partial = PartialMatches(lowered.infos, [ONLY])
    return names, [m.reason for o in lowered.ops for m in partial.misses(o)]


@pytest.mark.parametrize("name", REFUSED)
def test_everything_else_is_refused_with_a_reason(name: str) -> None:
    build, shapes, reason = REFUSED[name]
    matches, reasons = _matches(build, shapes)
    assert matches == []
    assert any(reason in r for r in reasons), reasons


TAKEN: dict[str, tuple[Build, tuple[Any, ...], list[str]]] = {
    "two products around a softmax": (_plain(), SHAPES, ["matmul", "nn.softmax", "matmul"]),
    "a mask of integers, cast before": (
        _plain(_masked), (*SHAPES, (13,)), ["matmul", "add", "nn.softmax", "matmul"]),
    "keys of one head for all": (
        _plain(), ((2, 3, 9, 16), (2, 1, 16, 13), (2, 1, 13, 8)),
        ["matmul", "nn.softmax", "matmul"]),
    "no batch": (_plain(), ((9, 16), (16, 13), (13, 8)), ["matmul", "nn.softmax", "matmul"]),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken(name: str) -> None:
    build, shapes, ops = TAKEN[name]
    assert _matches(build, shapes)[0] == [ops]
    module = nets.net(build, *shapes, legal=False)
    inputs = [np.random.default_rng(k).standard_normal(s).astype("float32")
              for k, s in enumerate(shapes)]  # fmt: skip
    q, k, v, *terms = (x.astype("float64") for x in inputs)
    scores = q @ k + (terms[0] if terms else 0)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    machine = compile_module(module, [ONLY], plan=False).machine()
    found = machine["main"](*map(tvm.runtime.tensor, inputs)).numpy()
    assert error_of(found, weights / weights.sum(-1, keepdims=True) @ v) < 1e-6


def test_operands_are_read_where_they_lie_as_far_as_only_the_region_reads_them() -> None:
    """Queries that the program also returns are read as they are."""

    def build(emit: Any, rng: Any, q: Any, k: Any, v: Any) -> Any:
        q = emit(op.permute_dims(q, (0, 2, 1)))
        k, v = (emit(op.permute_dims(emit(op.reshape(x, (2, 13, 8))), (0, 2, 1))) for x in (k, v))
        v = emit(op.permute_dims(v, (0, 2, 1)))
        out = emit(op.matmul(emit(nn.softmax(emit(op.matmul(q, k)), -1)), v))
        out = emit(op.reshape(emit(op.permute_dims(out, (1, 0, 2))), (9, 16)))
        return emit(relax.Tuple([out, q]))

    matches, _ = _matches(build, ((2, 8, 9), (13, 16), (26, 8)))
    before = ["reshape", "permute_dims", "matmul", "nn.softmax", "reshape", "permute_dims",
              "permute_dims", "matmul"]  # fmt: skip
    assert matches == [before, [*before, "permute_dims"], [*before, "permute_dims", "reshape"]]


def test_a_result_whose_rows_are_divided_is_copied() -> None:
    def build(emit: Any, rng: Any, q: Any, k: Any, v: Any) -> Any:
        out = _plain()(emit, rng, q, k, v)
        out = emit(op.reshape(out, (2, 3, 3, 8)))
        return emit(op.permute_dims(out, (0, 2, 1, 3)))

    matches, reasons = _matches(build, SHAPES)
    taken = ["matmul", "nn.softmax", "matmul"]
    assert matches == [taken, [*taken, "reshape"]] or matches == [taken]
    assert any("it divides rows or columns of the result" in r for r in reasons)


def test_all_prefixes_of_moves_are_offered_once() -> None:
    matches, _ = _matches(Attention().build, Attention().shapes)
    assert len(matches) == len({*map(tuple, matches)}) == 3
    assert all(a == b[: len(a)] for a, b in itertools.pairwise(matches))
