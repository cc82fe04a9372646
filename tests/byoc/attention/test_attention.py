"""oneDNN: attention as one region computes what its operators do, and matches nothing else."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Iterator
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

from ...models.weights import Array
from ..calibration.calibrated import streams, table
from ..onednn.onednn_cases import region_of
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
    return [(e, error_of(f, e)) for f, e in zip(found, expected, strict=True)]


def error_of(found: Array, expected: Array) -> float:
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
        # Some roundings are allowed: in how many parts a product adds depends on the CPU.
        assert error_of(one, expected) <= 2 * max(error, 2.0**-20), name


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
    assert error_of(found, case.reference(q, k, v, term)) < 1e-4


# --- What matches


# --- What is chosen


def _attention_region() -> Region:
    return region_of(Attention(rows=40, keys=48).module())


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
