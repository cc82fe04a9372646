"""Passes that plan layouts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tvm

from ..byoc.prepare.raising.raise_ops import raise_ops
from .module_pass import module_pass

if TYPE_CHECKING:
    from ..layout.model.layout import Layout
    from ..layout.planner import Mode
    from ..layout.search.function_plan import Cost


Desired = Mapping[str, Sequence[str] | str]


def PlanLayout(
    desired: Desired | str | None = None,
    mode: Mode = "tir",
    *,
    objective: str | Cost = "bytes",
    pins: Mapping[str, str] | None = None,
) -> Any:
    """Plan the cheapest layouts of a lowered module that satisfy the desired ones.

    Args:
        desired: Layouts by operator, or an implementation such as ``"tvm-nhwc"``; see
            `plan_layout`.
        mode: ``"graph"`` or ``"tir"``; see `plan_layout`.
        objective: ``"bytes"``, ``"count"`` or a cost function; see `plan_layout`.
        pins: Fixed layouts of parameters, by name.

    Returns:
        The pass.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An operator, a layout or an option is unknown.
    """
    from ..layout.plan import check_arguments, plan_layout

    check_arguments(desired, mode, objective)

    def run(mod: Any) -> Any:
        return plan_layout(mod, desired, mode=mode, objective=objective, pins=pins).module

    return module_pass("PlanLayout", run)


def ConvertLayout(
    desired_layouts: Mapping[str, Sequence[str]],
    layout_cb: Callable[..., Any] | None = None,
) -> Any:
    """Convert layouts by planning, with the signature of `relax.transform.ConvertLayout`.

    The module is legalised, planned in graph mode and raised; calls that cannot be raised stay
    ``call_tir``.

    Args:
        desired_layouts: Layouts by operator, ``{"relax.nn.conv2d": ["NHWC", "OHWI"]}``.
        layout_cb: Must be None: it is a callback for Relax calls, which lowering replaces.

    Returns:
        The pass.

    Raises:
        ValueError: `layout_cb` is not None, or an operator or a layout is unknown.
    """
    from ..layout.plan import check_arguments, plan_layout

    if layout_cb is not None:
        raise ValueError("ConvertLayout: layout_cb is not supported; use desired_layouts")
    check_arguments(desired_layouts, "graph", "bytes")

    def run(mod: Any) -> Any:
        lowered = tvm.relax.transform.LegalizeOps()(mod)
        return raise_ops(plan_layout(lowered, desired_layouts, mode="graph").module).module

    return module_pass("ConvertLayout", run)


def ReplaceOpImpl(op: str, prim_func: Any, layouts: Sequence[Layout | str | None]) -> Any:
    """Use a PrimFunc for an operator wherever it provably computes the same result.

    Operators are recognised by their compute, not by an attribute. Conversions are planned.

    Args:
        op: The operator's Relax name.
        prim_func: The PrimFunc to use.
        layouts: The layout of each of its buffers, in the order of its parameters: a string over
            the operator's own layout (``NHWC``), a `Layout`, or None to keep the layout.

    Returns:
        The pass. It warns, with the reason, if it replaces nothing.

    Raises:
        TypeError: `prim_func` is not a PrimFunc.
        ValueError: The operator is unknown, or `layouts` are not one for each parameter.
    """
    from ..layout.plan import implementation, not_replaced, plan_layout

    replacement = implementation(op, prim_func, layouts)

    def run(mod: Any) -> Any:
        planned = plan_layout(mod, implementations=[replacement])
        reason = not_replaced(planned.report, replacement)
        if reason is not None:
            warnings.warn(f"ReplaceOpImpl: {reason}", stacklevel=3)
        return planned.module

    return module_pass("ReplaceOpImpl", run)


def CancelLayoutTransforms() -> Any:
    """Remove pairs of layout conversions that are provably inverse.

    Returns:
        The pass.
    """
    from ..layout.apply.cancel import cancel_layout_transforms

    return module_pass("CancelLayoutTransforms", cancel_layout_transforms)
