"""Answers over the variables of a PrimFunc.

The analysis expresses symbolic dimensions as terms over sizes, so that one answer serves all
PrimFuncs of a structure; a caller gets it as TIR expressions over their own variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import is_ as operator_is
from typing import Any

from ..proposal.answer_values import over, symbolic
from ..terms.term import Var
from .op_info import LayoutNormalised, OpInfo

Leaves = Callable[[], Mapping[Var, Any]]


def over_variables(info: OpInfo | LayoutNormalised, leaves: Leaves) -> OpInfo | LayoutNormalised:
    """Return the answer with TIR expressions for terms over sizes."""
    return _op_over(info, leaves) if isinstance(info, OpInfo) else _laid_over(info, leaves)


def _laid_over(info: LayoutNormalised, leaves: Leaves) -> LayoutNormalised:
    logical = _op_over(info.logical, leaves)
    moved = any(b is not None and b.symbolic for b in info.buffers)
    if logical is info.logical and not moved:
        return info
    buffers = tuple(None if b is None else b.over(leaves()) for b in info.buffers)
    return replace(info, logical=logical, buffers=buffers)


def _op_over(info: OpInfo, leaves: Leaves) -> OpInfo:
    alternatives = tuple(_op_over(a, leaves) for a in info.alternatives)
    relayout = None if info.relayout is None else _laid_over(info.relayout, leaves)
    bounds: list[Any] = [(u.low, u.high, u.values) for u in info.undetermined]
    unchanged = relayout is info.relayout and all(map(operator_is, alternatives, info.alternatives))
    if unchanged and not symbolic([*info.attrs.values(), *bounds]):
        return info
    expressions = leaves()
    return replace(
        info,
        attrs={k: over(v, expressions) for k, v in info.attrs.items()},
        undetermined=tuple(
            replace(
                undetermined,
                **{
                    k: over(getattr(undetermined, k), expressions)
                    for k in ("low", "high", "values")
                },
            )
            for undetermined in info.undetermined
        ),
        alternatives=alternatives,
        relayout=relayout,
    )
