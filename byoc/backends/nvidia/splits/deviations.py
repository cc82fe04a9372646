"""Sums of squared deviations from a mean, of which the parts need the means of parts only.

    s[i] = sum_k x[i, k]                  q[i] = sum_k (x[i, k] - s[i] / n)^2

    s_part[i, p] = sum_t x[i, p m + t]    q_part[i, p] = sum_t (x[i, p m + t] - s_part[i, p] / m)^2
    s[i] = sum_p s_part[i, p]
    q[i] = sum_p q_part[i, p] + m (s_part[i, p] / m - s[i] / n)^2

The terms are read once; the sum of all would be needed before they are read a second time. Both are
equal for real numbers (Chan, Golub, LeVeque), and rounding is that of deviations, not that of a
difference of squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .....analysis.blocks.loop_steps import Axis, LoopStep
from .....analysis.blocks.tir import Values, dtype_of, integer, loads, static, values
from .....analysis.lifting.tir.node import items, substitute
from ..schedules.program.combiners import combiner
from ..schedules.program.gpu_program import (
    GpuProgram,
    NoGpuSchedule,
    expanded,
    extents,
    product,
)
from .split_plan import SplitPlan

FLOAT = "float32"


@dataclass(frozen=True)
class Deviations:
    """The terms of a sum are the squares of ``value - mean``, both over the axes of its step.

    ``sums`` are the parts of the values' sum, each of ``count`` terms. Their coordinates are those
    of the step's parts at ``order``, None for 0.
    """

    value: Any
    mean: Any
    sums: Any
    count: int
    order: tuple[int | None, ...]

    def of_part(self, at: Values, place: Sequence[Any]) -> Any:
        """A term of a part: the squared deviation from the part's own mean."""
        return _square(substitute(self.value, at) - self.part_mean(place))

    def of_means(self, at: Values, part: Any, place: Sequence[Any]) -> Any:
        """A term of the whole: a part, and what its mean is apart from that of all."""
        apart = _square(self.part_mean(place) - substitute(self.mean, at))
        return part + _number(self.count) * apart

    def part_mean(self, place: Sequence[Any]) -> Any:
        at = [integer(0, place[0]) if k is None else place[k] for k in self.order]
        return tirx.BufferLoad(self.sums, at) / _number(self.count)


def deviations(
    program: GpuProgram, first: tuple[LoopStep, SplitPlan, Any], step: LoopStep, plan: SplitPlan
) -> Deviations | None:
    """Return how a step sums deviations from the mean of the values that another step sums.

    Args:
        program: The program of both.
        first: The other step, its plan, and the buffer of its parts.
        step: The step, whose axes are those of the first.
        plan: How it is divided: as the first, in parts of the same number of terms.
    """
    before, before_plan, sums = first
    axes = _same_axes(before, step)
    order = None if axes is None else _order(before_plan, plan, axes)
    if axes is None or order is None or not _is_even(step, plan):
        return None
    if len(before.updates) != 1 or len(step.updates) != 1:
        return None
    try:
        summed, squared = (combiner(s.updates[0]) for s in (before, step))
    except NoGpuSchedule:
        return None
    if any(c.kind is not tirx.Add or dtype_of(u.buffer) != FLOAT for c, u in (
            (summed, before.updates[0]), (squared, step.updates[0]))):  # fmt: skip
        return None
    term, value = (_whole(program, c.term) for c in (squared, summed))
    value = substitute(value, values(*((b.var, a.var) for a, b in axes)))
    difference = _root(term)
    if not isinstance(difference, tirx.Sub) or dtype_of(difference) != FLOAT:
        return None
    if not tvm_ffi.structural_equal(difference.a, value):
        return None
    if not _is_mean(difference.b, before, axes, product(extents(before.reduced))):
        return None
    count = product(extents(before.reduced)) // product(plan.digits)
    count //= product(extents(plan.across))
    return Deviations(difference.a, difference.b, sums, count, order)


def _same_axes(before: LoopStep, step: LoopStep) -> list[tuple[Axis, Axis]] | None:
    """The axes of a step and those of the one before it, in order; None if they differ."""
    pairs: list[tuple[Axis, Axis]] = []
    for kind in (False, True):
        mine, others = ([a for a in s.axes if a.reduced == kind and static(a.extent) != 1]
                        for s in (step, before))  # fmt: skip
        if extents(mine) != extents(others):
            return None
        pairs += zip(mine, others, strict=True)
    return pairs


def _order(
    before: SplitPlan, plan: SplitPlan, axes: Sequence[tuple[Axis, Axis]]
) -> tuple[int | None, ...] | None:
    """Where in one order of axes are those of another one; None unless parts are numbered alike."""
    mine = {id(b): id(a) for a, b in axes}  # by an axis of the other step
    places = {id(a): k for k, a in enumerate(plan.order)}

    def long(order: Sequence[Axis]) -> list[Axis]:
        return [a for a in order if static(a.extent) != 1]

    def counts(digits: Sequence[int]) -> list[int]:
        return [d for d in digits if d != 1]

    for now, then in ((plan.order, before.order), (plan.across, before.across)):
        if [mine[id(a)] for a in long(then)] != [id(a) for a in long(now)]:
            return None
    if counts(plan.digits) != counts(before.digits) or not plan.order:
        return None
    return tuple(places[mine[id(a)]] if static(a.extent) != 1 else None for a in before.order)


def _is_even(step: LoopStep, plan: SplitPlan) -> bool:
    return all(n % d == 0 for n, d in zip(extents(step.reduced), plan.digits, strict=True))


def _whole(program: GpuProgram, expr: Any) -> Any:
    """An expression without names for parts."""
    lets, out = expanded(expr, program.definitions)
    for var, part in reversed(lets):
        out = substitute(out, values((var, part)))
    return out


def _root(term: Any) -> Any | None:
    """What is squared."""
    if isinstance(term, tirx.Mul) and tvm_ffi.structural_equal(term.a, term.b):
        return term.a
    return None


def _is_mean(expr: Any, before: LoopStep, axes: Sequence[tuple[Axis, Axis]], count: int) -> bool:
    """Whether an expression is the sum of the same row, divided by the number of terms."""
    if not isinstance(expr, tirx.Div) or not isinstance(expr.b, tirx.FloatImm):
        return False
    total, update = expr.a, before.updates[0]
    if not isinstance(total, tvm.ir.TensorLoad) or not total.source.same_as(update.buffer):
        return False
    ones = values(*((a.var, tirx.IntImm(dtype_of(a.var), 0))
                    for a in before.axes if static(a.extent) == 1))  # fmt: skip
    renamed = values(*((b.var, a.var) for a, b in axes))
    own = [substitute(substitute(i, ones), renamed) for i in update.indices]
    same = all(map(tvm_ffi.structural_equal, items(total.indices), own))
    return bool(expr.b.value == count and loads(expr) == [total] and same)


def _square(x: Any) -> Any:
    return x * x


def _number(value: int) -> Any:
    return tirx.FloatImm(FLOAT, float(value))
