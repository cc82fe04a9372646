"""Layouts on a device: planned, or the model's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tvm import relax

from opinfo.byoc.backend.catalog import find
from opinfo.byoc.dispatching import device_layouts
from opinfo.byoc.dispatching.device_layouts import device_time, prepare_in_faster_layouts
from opinfo.byoc.dispatching.dispatch import Dispatcher, prepare_dispatch
from opinfo.byoc.dispatching.dispatch_request import DispatchOptions
from opinfo.byoc.measure import Measure
from opinfo.byoc.measure.costs import Costing
from opinfo.byoc.prepare.prepare import prepare

from ...layout.nets import net

op = relax.op
#: A convolution in NCHW, which oneDNN prefers in NHWC, between elementwise operators.
CONVOLUTION = prepare(net(
    lambda e, r, x, w: e(op.exp(e(op.nn.conv2d(e(op.tanh(x)), w, padding=1)))),
    (1, 8, 8, 8), (8, 8, 3, 3), legal=False))  # fmt: skip
#: Two elementwise operators, then a reshape.
ELEMENTWISE = prepare(net(
    lambda e, r, x: e(op.reshape(e(op.exp(e(op.tanh(x)))), (128,))),
    (8, 16), legal=False))  # fmt: skip


def test_fused_operators_are_one_kernel_that_moves_its_input_and_output() -> None:
    calls: list[float] = []

    def kernel(moved: float) -> float:
        calls.append(moved)
        return 3.0

    dispatcher = prepare_dispatch(ELEMENTWISE, [], DispatchOptions())
    total = device_time(dispatcher, kernel)
    assert calls and all(moved == 2 * 8 * 16 * 4 for moved in calls)
    assert total == 3.0 * len(calls)


def test_a_module_without_operators_takes_no_time() -> None:
    mod = net(lambda e, r, x: e(op.reshape(x, (2, 4))), (8,))
    views = relax.transform.RewriteDataflowReshape()(mod)
    assert device_time(prepare_dispatch(views, [], DispatchOptions()), lambda moved: 3.0) == 0.0


@pytest.mark.parametrize("planned_is_slower", [False, True])
def test_the_faster_of_both_modules_is_built(
    planned_is_slower: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time(dispatcher: Dispatcher, kernel: Any) -> float:
        is_planned = dispatcher.run().report is not None
        return 2.0 if is_planned is planned_is_slower else 1.0

    monkeypatch.setattr(device_layouts, "device_time", time)
    backend = replace(find("onednn"), conversion=lambda moved: moved / 1e6)
    chosen = prepare_in_faster_layouts(CONVOLUTION, [backend], DispatchOptions(layouts="best"))
    assert (chosen.run().report is None) is planned_is_slower


@pytest.mark.parametrize("planned_is_slower", [False, True])
def test_costs_are_measured_in_the_layouts_that_were_chosen(
    planned_is_slower: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time(dispatcher: Dispatcher, kernel: Any) -> float:
        assert dispatcher.exclusions.request.costing is None  # these are expected costs
        is_planned = dispatcher.run().report is not None
        return 2.0 if is_planned is planned_is_slower else 1.0

    monkeypatch.setattr(device_layouts, "device_time", time)
    backend = replace(find("onednn"), conversion=lambda moved: moved / 1e6)
    how = DispatchOptions({"onednn": 3, "tvm": 3}, measure=Measure(), layouts="best")
    request = prepare_in_faster_layouts(CONVOLUTION, [backend], how).exclusions.request
    assert (request.layouts is None) is planned_is_slower
    assert isinstance(request.costing, Costing) and request.costing.ops == request.lowered.ops
    assert request.rules.classes == {"onednn": 3, "tvm": 3}


def test_without_a_device_plans_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_layouts, "device_time", lambda *_: pytest.fail("it was asked"))
    chosen = prepare_in_faster_layouts(
        CONVOLUTION, [find("onednn")], DispatchOptions(layouts="best")
    )
    assert chosen.run().report is not None
