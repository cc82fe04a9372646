"""Calibrations of made-up samples, and two backends that differ in their costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import relax

from opinfo.byoc import dispatch
from opinfo.byoc.backend.backend import Backend
from opinfo.byoc.backend.region import Call, Region, Tensor
from opinfo.byoc.calibration.calibration import (
    CalibratedMachine,
    Calibration,
    Sample,
)
from opinfo.byoc.calibration.workload import Workload
from opinfo.byoc.patterns.pattern import Pattern, many, one

from ..backends.toy import convert, static

MACHINE = CalibratedMachine("a CPU", "avx2", 1, {"tvm": "0"})
#: Sizes of a matrix product: batch, rows, columns, depth.
SMALL, LARGE = (1, 8, 8, 8), (1, 512, 512, 512)


def table(**times: Any) -> Calibration:
    """A calibration; each keyword is a backend with (kind, sizes, work, moved, microseconds)."""
    samples = [
        Sample(name, Workload(kind, sizes, work, moved), time)
        for name, rows in times.items()
        for kind, sizes, work, moved, time in rows
    ]
    return Calibration(MACHINE, tuple(samples))  # fmt: skip


def streams(rate: float, call: float = 1.0) -> list[Any]:
    """Elementwise samples at ``rate`` bytes in a microsecond."""
    return [("elementwise", (n,), n, 8 * n, call + 8 * n / rate) for n in (64, 1 << 14, 1 << 20)]


def call(op: str, *shapes: tuple[int, ...], out: tuple[int, ...], **attrs: Any) -> Call:
    operands = tuple(Tensor("input", k, s, "float32") for k, s in enumerate(shapes))
    return Call(op, attrs, operands, Tensor("call", 0, out, "float32"))


def alone(*calls: Call) -> Region:
    inputs = tuple(o for c in calls for o in c.operands if isinstance(o, Tensor))
    return Region("r", calls, inputs, (), (calls[-1].result,))


BLUE = Backend("blue", (Pattern("relu", one("relax.nn.relu", static)),
                        Pattern("exp", one("relax.exp", static))), convert)  # fmt: skip
RED = replace(BLUE, name="red")
#: A chain, as `TOY` has, but with any elementwise operators.
CHAIN = Backend("chain", (Pattern("chain", one("relax.nn.relu", static),
                                  many("relax.exp", static)),), convert)  # fmt: skip


def two(emit: Any, rng: Any, x: Any) -> Any:
    return emit(relax.op.exp(emit(relax.op.nn.relu(x))))


def choose(mod: Any, backends: list[Backend], calibration: Calibration, **more: Any) -> Any:
    done = dispatch(mod, backends, more.pop("priority", {"tvm": 3}), calibration=calibration,
                    **more)  # fmt: skip
    return done, [(t.backend, t.ops) for t in done.taken]


def slow_exp(call_: float, rate: float, exp: float) -> list[Any]:
    n = 1 << 16
    return [*streams(rate, call_), ("transcendental", (n,), n, 8 * n, exp)]
