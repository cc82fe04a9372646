"""oneDNN: attention as one region computes what its operators do, and matches nothing else."""

from __future__ import annotations

import ctypes
import importlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backend.backend import Backend
from opinfo.byoc.backend.region import Region
from opinfo.byoc.backends.onednn import ATTENTION, ONEDNN, raced_kernel
from opinfo.byoc.backends.onednn.implementation_probe import job_of
from opinfo.byoc.backends.onednn.measured_forms import CLOSE, form_times
from opinfo.byoc.backends.onednn.raced_kernel import kernel
from opinfo.byoc.calibration.cost_model import CostModel
from opinfo.byoc.compile import compile_module
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.matching.near_misses import PartialMatches
from opinfo.byoc.prepare.prepare import prepare

from ...layout import nets
from ...models.weights import Array
from ..calibration.calibrated import streams, table
from ..onednn.test_onednn_forms import _region
from .attention_cases import CASES, INF, Attention

nn, op = relax.op.nn, relax.op
CONVERT = importlib.import_module("opinfo.byoc.backends.onednn.convert")
WITHOUT = replace(ONEDNN, patterns=tuple(p for p in ONEDNN.patterns if p is not ATTENTION))
ONLY = replace(ONEDNN, patterns=(ATTENTION,))


def _module() -> Any:
    """All cases in one function."""
    given = [relax.Var(f"x{k}_{j}", relax.TensorType(s, "float32"))
             for k, c in enumerate(CASES.values()) for j, s in enumerate(c.shapes)]  # fmt: skip
    builder, at = relax.BlockBuilder(), iter(given)
    with builder.function("main", given):
        with builder.dataflow():
            results = [c.build(builder.emit, None, *[next(at) for _ in c.shapes])
                       for c in CASES.values()]  # fmt: skip
            out = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(out)
    return builder.get()


def _results(backend: Backend, inputs: list[Array], regions: int | None = None) -> list[Array]:
    compiled = compile_module(_module(), [backend], plan=False)
    if regions is not None:
        taken = [t for t in compiled.dispatched.taken if t.pattern == "attention"]
        assert len(taken) == regions and not compiled.dispatched.left
    found = compiled.machine()["main"](*map(tvm.runtime.tensor, inputs))
    return [r.numpy() for r in found]


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """So many threads for libraries on libgomp, on any number of cores."""
    library = ctypes.CDLL("libgomp.so.1")
    before = library.omp_get_max_threads()
    library.omp_set_num_threads(request.param)
    yield
    library.omp_set_num_threads(before)


@pytest.fixture(scope="module")
def separate() -> list[tuple[Array, float]]:
    """The result of each case in float64, and the error of oneDNN's separate operators."""
    inputs = [c.inputs() for c in CASES.values()]
    found = _results(WITHOUT, [x for xs in inputs for x in xs])
    expected = [c.reference(*xs) for c, xs in zip(CASES.values(), inputs, strict=True)]
    return [(e, _error(f, e)) for f, e in zip(found, expected, strict=True)]


def _error(found: Array, expected: Array) -> float:
    """The largest difference, as a part of the largest element."""
    assert found.shape == expected.shape and found.dtype == np.float32
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize(("threads", "form"), [(1, ""), (3, ""), (1, "only separate")],
                         indirect=["threads"])  # fmt: skip
@pytest.mark.usefixtures("threads")
def test_one_region_is_as_exact_as_separate_operators(
    monkeypatch: pytest.MonkeyPatch, separate: list[tuple[Array, float]], form: str
) -> None:
    monkeypatch.setattr(CONVERT, "chosen_forms", lambda jobs, _: [form for _ in jobs])
    found = _results(ONLY, [x for c in CASES.values() for x in c.inputs()], len(CASES))
    for name, one, (expected, error) in zip(CASES, found, separate, strict=True):
        assert _error(one, expected) <= 2 * max(error, 2.0**-23), name


def test_a_row_that_is_masked_as_a_whole_is_nan_as_by_separate_operators() -> None:
    case = Attention(batch=2, rows=7, keys=21, terms=((2, 1, 7, 21),))
    *inputs, mask = case.inputs()
    mask[0, 0, 3] = -INF  # a whole row
    mask[1, 0, 5, 1:] = -INF  # all but one key
    mask[1, 0, 6, 20:] = -INF
    found = [compile_module(case.module(), [b], plan=False).machine()["main"](
        *map(tvm.runtime.tensor, (*inputs, mask))).numpy() for b in (ONLY, WITHOUT)]  # fmt: skip
    expected = case.reference(*inputs, mask)
    assert np.isnan(expected).sum() == 64
    for one in found:
        assert np.array_equal(np.isnan(one), np.isnan(expected))
        seen = ~np.isnan(expected)
        assert np.abs(one - expected)[seen].max() < 1e-5


def test_large_scores_neither_overflow_nor_vanish() -> None:
    case = Attention(rows=6, keys=40, terms=((1, 40),), scaled=False)
    q, k, v, term = case.inputs()
    q[:, :3] *= 1e3  # a difference of more than 88 between scores of a row
    term[:] = -3e38
    term[0, :7] = 0
    machine = compile_module(case.module(), [ONLY], plan=False).machine()
    found = machine["main"](*map(tvm.runtime.tensor, (q, k, v, term))).numpy()
    assert _error(found, case.reference(q, k, v, term)) < 1e-4


# --- What matches


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
    assert _error(found, weights / weights.sum(-1, keepdims=True) @ v) < 1e-6


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


# --- What is chosen


def _attention_region() -> Region:
    return _region(Attention(rows=40, keys=48).module())


def test_the_race_has_both_forms_with_the_same_numbers() -> None:
    times = form_times(str(job_of(_attention_region())), 0.001)
    assert [t.form for t in times] == ["", "separate"]
    assert times[0].steps == ("attention:own",) and len(times[1].steps) > 3
    assert all(t.difference < CLOSE and t.microseconds > 0 for t in times)
    assert times[1].words == "form separate implementation 1 separate"


@pytest.mark.parametrize(("form", "name"), [
    ("", "attention"), ("form separate implementation 1 separate", "separate")])  # fmt: skip
def test_the_race_names_the_kernel(monkeypatch: pytest.MonkeyPatch, form: str, name: str) -> None:
    monkeypatch.setattr(raced_kernel, "chosen_forms", lambda jobs: [form])
    raced_kernel._attention.cache_clear()
    try:
        assert kernel(_attention_region()) == name
    finally:
        raced_kernel._attention.cache_clear()


def test_attention_costs_its_products_or_what_was_measured() -> None:
    region = replace(_attention_region())
    product = ("matmul batched", (2, 40, 48, 32), 2 * 40 * 48 * 32, 4 * 9000, 20.0)
    others = [product, ("softmax inner", (80, 48), 80 * 48, 30720, 30.0), *streams(1e4)]
    measured = ("attention", (2, 40, 48, 32), 4 * 40 * 48 * 32, 4 * 14000, 25.0)

    def cost(*samples: Any, name: str) -> tuple[float, str]:
        estimate = CostModel(table(lib=[*others, *samples])).cost("lib", region, kernel=name)
        assert estimate is not None
        return estimate.microseconds, estimate.source

    apart, _ = cost(name="separate")
    products, source = cost(name="attention")
    assert source == "estimated" and 30 < products < apart - 25
    found, source = cost(measured, name="attention")
    assert source == "calibrated" and found == pytest.approx(25, rel=0.05)


def test_all_prefixes_of_moves_are_offered_once() -> None:
    matches, _ = _matches(Attention().build, Attention().shapes)
    assert len(matches) == len({*map(tuple, matches)}) == 3
    assert all(a == b[: len(a)] for a, b in itertools.pairwise(matches))
