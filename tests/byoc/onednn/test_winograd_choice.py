"""oneDNN: which convolutions have a form by Winograd, and how one is chosen and named."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relax

from opinfo.byoc.backend.region import Region
from opinfo.byoc.backends.onednn import raced_kernel
from opinfo.byoc.backends.onednn.implementation_probe import ask, job_of
from opinfo.byoc.backends.onednn.measured_forms import CLOSE, form_times
from opinfo.byoc.backends.onednn.raced_kernel import alone, kernel

from ...layout import nets
from ...layout.nets import const
from .onednn_cases import implemented, region_of
from .test_winograd import CASES, FORMS, Conv

nn, op = relax.op.nn, relax.op


def _placed(case: Conv) -> Region:
    return region_of(nets.net(case.build, *case.inputs, legal=False))


def _case_job(case: Conv) -> str:
    return str(job_of(_placed(case)))


def test_the_probe_measures_both_tiles_and_their_numbers() -> None:
    case = Conv((1, 21, 18, 40), (56, 3, 3, 40), {"padding": 1}, lambda e, r, y: e(nn.relu(y)))
    times = [t for t in form_times(_case_job(case), 0.001) if t.form in FORMS]
    assert {t.form for t in times} == set(FORMS)
    assert all(t.difference < CLOSE and t.microseconds > 0 for t in times)
    assert all(step.startswith("winograd ") for t in times for step in t.steps)


REFUSED = {
    "one input channel": Conv((1, 9, 9, 1), (16, 3, 3, 1)),
    "one output channel": Conv((1, 9, 9, 16), (1, 3, 3, 16)),
    "stride": Conv((1, 9, 9, 16), (16, 3, 3, 16), {"strides": 2}),
    "groups": Conv((1, 9, 9, 32), (32, 3, 3, 16), {"groups": 2}),
    "window of one pixel": Conv((1, 9, 9, 16), (16, 1, 1, 16)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_convolutions_have_no_such_form(name: str) -> None:
    assert implemented(_case_job(REFUSED[name]), FORMS) == []


def test_weights_must_be_constant_and_channels_innermost() -> None:
    def given(e: Any, r: Any, x: Any, w: Any) -> Any:
        return e(nn.conv2d(x, w, data_layout="NHWC", kernel_layout="OHWI"))

    def first(e: Any, r: Any, x: Any) -> Any:
        return e(nn.conv2d(x, const(r, 16, 16, 3, 3)))

    shapes: dict[Any, tuple[Any, ...]] = {given: ((1, 9, 9, 16), (16, 3, 3, 16)),
                                          first: ((1, 16, 9, 9),)}  # fmt: skip
    for build, given_shapes in shapes.items():
        region = region_of(nets.net(build, *given_shapes, legal=False))
        assert implemented(str(job_of(region)), FORMS) == []


def test_tiles_are_never_chosen_without_being_measured() -> None:
    case = CASES["many tiles"]
    answer = ask(f"query 0 {_case_job(case)}") or {}
    assert answer["steps"] and "winograd" not in " ".join(answer["steps"])


def test_what_follows_a_convolution_does_not_change_its_race() -> None:
    with_sum = CASES["no padding, residual"]
    bare = Conv(with_sum.x, with_sum.w)
    assert job_of(alone(_placed(with_sum))) == job_of(_placed(bare))


def test_a_kernel_is_named_by_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    raced: list[str] = []

    def choose(jobs: list[str]) -> list[str]:
        raced.extend(jobs)
        return ["form winograd4 implementation 1 brg:avx512_core"]

    monkeypatch.setattr(raced_kernel, "chosen_forms", choose)
    raced_kernel._raced.cache_clear()
    try:
        assert kernel(_placed(CASES["no padding, residual"])) == "winograd:brg:avx512_core"
        assert len(raced) == 1
        name = kernel(_placed(REFUSED["stride"]))
        assert name is not None and not name.startswith("winograd") and len(raced) == 1
    finally:
        raced_kernel._raced.cache_clear()
