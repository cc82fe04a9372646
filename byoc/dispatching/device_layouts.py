"""Layouts on a device whose operators mostly wait for memory: planned ones, or the model's own.

The planner prices an operator that stays outside of regions alone, but TVM fuses such operators, so
a plan may save what fusion saves anyway and pay for conversions. Both modules are therefore fused,
and the one whose kernels move less, launches included, is built. Costs that are to be measured are
measured in its layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tvm import relax

from ...layout.model.buffer_bytes import size_of
from ..backend.backend import Backend
from ..prepare.fuse import fuse
from .dispatch import Dispatcher, prepare_dispatch
from .dispatch_request import DispatchOptions, measured_request, plan_layouts, read_request

#: Operators without a kernel; regions have costs of their own.
_FREE = frozenset(f"relax.{n}" for n in (
    "reshape", "expand_dims", "squeeze", "flatten", "shape_of", "call_dps_packed"))  # fmt: skip


def prepare_in_faster_layouts(
    mod: Any, backends: Sequence[Backend], options: DispatchOptions
) -> Dispatcher:
    """As `prepare_dispatch`; planned layouts are kept if they save time on the backends' device.

    Args:
        mod: A Relax module after ``LegalizeOps``; it is not changed.
        backends: The backends. If none says what conversions take on its device, plans are kept.
        options: How to dispatch.

    Returns:
        The dispatcher of the request, in the layouts that were chosen.

    Raises:
        As `dispatch` does.
    """
    on_device = any(b.conversion is not None for b in backends)
    if not on_device or options.layouts != "best" or options.desired:
        return prepare_dispatch(mod, backends, options)
    expected = replace(options, measure=None)
    request = read_request(mod, backends, expected)
    kernel = next((b.conversion for b in request.backends if b.conversion is not None), None)
    if kernel is None:  # that backend is not available
        return prepare_dispatch(mod, backends, options)
    given, planned = Dispatcher(request), Dispatcher(plan_layouts(request, expected))
    faster = min((given, planned), key=lambda dispatcher: device_time(dispatcher, kernel))
    if options.measure is None:
        return faster
    asked = read_request(mod, backends, options)
    return Dispatcher(measured_request(asked, faster.exclusions.request, options))


def device_time(dispatcher: Dispatcher, kernel: Callable[[float], float]) -> float:
    """The microseconds of a dispatched module.

    Args:
        dispatcher: Dispatches the module.
        kernel: Returns the microseconds of a kernel from the bytes that it reads and writes.
    """
    module = fuse(dispatcher.module())
    regions = sum(r.match.cost for r in dispatcher.regions)
    return regions + sum(kernel(moved) for moved in _kernels(module))


def _kernels(module: Any) -> Iterator[float]:
    """The bytes that each kernel outside of regions reads and writes."""
    calls: list[Any] = []

    def visit(expr: Any) -> None:
        if isinstance(expr, relax.Call) and getattr(expr.op, "name", "relax.null") not in _FREE:
            calls.append(expr)

    for func in module.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func.body, visit)
    return (sum(map(_bytes, (*call.args, call))) for call in calls)


def _bytes(expr: Any) -> float:
    """The bytes of a tensor, or of the tensors of a tuple."""
    return _of_type(expr.ty)


def _of_type(kind: Any) -> float:
    if isinstance(kind, relax.TupleType):
        return sum(map(_of_type, kind.fields))
    shape = getattr(kind, "shape", None)
    if not isinstance(shape, relax.ShapeExpr):
        return 0.0
    return size_of(list(shape.values), str(kind.dtype))
