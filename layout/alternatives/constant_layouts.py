"""The layouts of an op's constants, which cost nothing."""

from __future__ import annotations

from collections.abc import Mapping

from ..graph.relax_graph import Op
from ..model.digit import Digit
from ..model.layout import Layout
from .alternative import GIVEN, Alternative
from .op_spec import OpSpec, buffer_of


def constants(
    op: Op, spec: OpSpec, alternative: Alternative, chosen: Mapping[int, Layout]
) -> dict[int, Layout]:
    """The layouts of an op's constants, by parameter, that fit those of its other values."""
    if alternative.why == GIVEN:
        return {}
    if alternative.constants:
        return {k: x for k, x in enumerate(alternative.constants) if x is not None}
    constant_params = [k for k, v in enumerate(op.inputs) if v is not None and v.free]
    unchanged = all(x.is_identity for x in chosen.values())
    constraint = spec.met(chosen)
    required = constraint.layouts if constraint is not None else {}
    if not constant_params or (unchanged and not required):
        return {}
    layouts = None
    if spec.flow is not None:
        layouts = spec.flow.spread({buffer_of(spec.flow, k): x for k, x in chosen.items()})
    exact = constraint is not None and constraint.exact
    if spec.flow is None or layouts is None:  # the required layouts do not flow
        if unchanged and not exact:
            return {}
        return {k: required[k] for k in constant_params if k in required}
    out = {}
    for k in constant_params:
        layout = layouts[buffer_of(spec.flow, k)]
        out[k] = required[k] if exact and k in required else layout
        if k in required and not exact:
            out[k] = arranged(layout, required[k])
        if constraint is not None and not constraint.takes(k, out[k]):
            out[k] = required.get(k, Layout.identity(len(layout.dims)))
    return out


def arranged(layout: Layout, target: Layout) -> Layout:
    """The ``target`` layout, with the digits of each axis in the order of ``layout``."""
    if target.permutation is None:
        return target
    digits: dict[int, list[Digit]] = {}
    for digit in layout.digits:
        digits.setdefault(digit.axis, []).append(digit)
    return Layout(tuple(tuple(digits[a]) for a in target.permutation))
