"""One model: its conversions, and those that each method leaves with NHWC convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from benchmarks.common import nets
from benchmarks.common.resources import cpu_seconds
from opinfo.layout.plan import plan_layout
from opinfo.layout.report.count import count
from opinfo.layout.report.plan_report import Conversions
from tests import models as real
from tests.common.run import run

from .convert_layout import Converted, left_by_convert_layout

NHWC = {"nn.conv2d": ["NHWC", "OHWI"]}
PACKED = {f"NCHW{k}c": {"nn.conv2d": [f"NCHW{k}c", f"OIHW{k}i{k}o"]} for k in (8, 16)}
MODES = ("graph", "tir")


@dataclass(frozen=True)
class Left:
    """The conversions that remain in a planned module, and the solver's result.

    ``seconds`` is the CPU time of planning; ``outputs`` compares the results, if they were run.
    """

    conversions: Conversions
    status: str
    objective: float
    bound: float
    seconds: float
    outputs: str = "not run"

    @property
    def optimal(self) -> bool:
        return self.status == "optimal" and self.bound >= self.objective * (1 - 1e-6) - 0.5


@dataclass(frozen=True)
class Row:
    """A model of the table; a text is the reason why something could not be measured."""

    model: str
    before: Conversions
    convert_layout: Converted
    onnx_runtime: Conversions | str
    planned: Mapping[str, Left | str]
    lowering: float


def measure(name: str, execute: bool = False, modes: Sequence[str] = MODES) -> Row:
    """Return the row of a model; ``execute`` also compiles it and compares the outputs."""
    return _row(name, nets.module(name), _onnx_runtime(name),
                nets.inputs(name) if execute else None, modes)  # fmt: skip


def measure_real(name: str, execute: bool = False) -> Row:
    """Return the row of PP-OCRv4 or an ONNX light model, whose weights are parameters."""
    mod = real.module(name)
    values = [*real.inputs(name), *real.weights(name)] if execute else None
    return _row(name, mod, "not run", values, MODES)


def _row(
    name: str,
    mod: Any,
    onnx_runtime: Conversions | str,
    values: Sequence[Any] | None,
    modes: Sequence[str],
) -> Row:
    lowering, lowered = cpu_seconds(lambda: relax.transform.LegalizeOps()(mod))
    expected = None if values is None else Expected(lowered, values)
    planned = {mode: plan(lowered, NHWC, mode, expected) for mode in modes}
    converted = left_by_convert_layout(mod)
    return Row(name, count(lowered), converted, onnx_runtime, planned, lowering)


def plan(
    lowered: Any,
    desired: Mapping[str, Sequence[str]],
    mode: Any = "tir",
    expected: Expected | None = None,
) -> Left | str:
    """Plan a legalised module and count the conversions left; run it if ``expected`` is given."""
    try:
        seconds, planned = cpu_seconds(lambda: plan_layout(lowered, desired=desired, mode=mode))
    except Exception as error:  # continue with the other plans
        return f"raises {type(error).__name__}: {str(error).splitlines()[0][:120]}"
    report = planned.report
    try:
        outputs = "not run" if expected is None else expected.compare(planned.module)
    except Exception as error:  # of compilation
        outputs = f"raises {type(error).__name__}"
    conversions = count(planned.module)
    return Left(conversions, report.status, report.objective, report.bound, seconds, outputs)


class Expected:
    """The outputs of an unplanned module for values of its parameters."""

    def __init__(self, mod: Any, values: Sequence[Any]) -> None:
        self.values, self.outputs = values, run(mod, values)

    def compare(self, mod: Any) -> str:
        """Return the largest difference of the outputs, relative to their largest value."""
        worst = 0.0
        for a, b in zip(self.outputs, run(mod, self.values), strict=True):
            if a.shape != b.shape or not np.isfinite(np.asarray(a, "float64")).all():
                return "not comparable"
            scale = max(float(np.abs(a).max(initial=0)), 1e-30)
            worst = max(worst, float(np.abs(a.astype("float64") - b).max(initial=0)) / scale)
        return "bit-equal" if worst == 0 else f"within {worst:.1e}"


def _onnx_runtime(name: str) -> Conversions | str:
    try:
        from .transpose_optimiser import left_by_onnx_runtime
    except ImportError as error:
        return f"{error.name} is not installed"
    try:
        return left_by_onnx_runtime(name)
    except Exception as error:  # its exporter or its optimiser
        return f"raises {type(error).__name__}"
