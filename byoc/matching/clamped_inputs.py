"""The inputs of a model that a runtime which computes integers in float32 gets clamped."""

from __future__ import annotations

from typing import Any

from ..patterns.clamped_values import is_wide
from .lowered import Lowered


def clamped_inputs(main: Any, lowered: Lowered) -> frozenset[int] | str:
    """The positions of inputs without bounds; or why clamping them may change a result.

    What operators read and write is for their conditions; this looks at everything else.

    Args:
        main: The function whose parameters the inputs are.
        lowered: The lowered module that it is in.
    """
    of_name = {g.name_hint: g for g in lowered.functions}
    graph = lowered.functions[of_name["main"]]
    params = lowered.mod[of_name["main"]].params
    values = [graph.of[p] if p in graph.of else None for p in params]
    if [str(p.ty.dtype) for p in main.params] != [None if v is None else v.dtype for v in values]:
        return "its inputs are not those of the model"
    for function in lowered.functions.values():
        for value in function.values:
            if value.pinned is not None and is_wide(value, lowered.infos):
                return f"{value.name} may be beyond 2^24, and is {value.pinned}"
    wide = {k for k, v in enumerate(values) if v is not None and is_wide(v, lowered.infos)}
    if wide and len(lowered.functions) > 1:
        return f"input {min(wide)} has no bounds, and the model has several functions"
    return frozenset(wide)
