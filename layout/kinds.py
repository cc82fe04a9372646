"""What the planner knows of each PrimFunc, once for those that are structurally equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.lifting.comprehension import Lifted
from ..analysis.lifting.from_tir import Unliftable
from ..analysis.lifting.lift import lift
from ..analysis.recover import analyser
from ..analysis.same import ByStructure
from ..analysis.terms.term import ONE, Load, mul
from .choices import Kind
from .flow import Flow, flow
from .graph import Graph, Op
from .stages import Opaque
from .wants import want


def kinds(graph: Graph, desired: Mapping[str, Sequence[str]]) -> dict[Op, Kind]:
    """By op. Raises ``ValueError`` where desired layouts do not fit an operator."""
    analyse = analyser() if desired else None

    def kind(func: Any) -> Kind:
        found: Flow | None = None
        reason = ""
        try:
            found = flow(func)
        except Opaque as e:
            reason = e.reason
        wanted = want(analyse(func), desired) if analyse is not None else None
        return Kind(found, reason, wanted, found is not None and only_moves(func))

    known = ByStructure(kind)
    return {op: known(op.func) for op in graph.ops}


def only_moves(func: Any) -> bool:
    """Whether each output element is one of the only input, and there are as many of both."""
    try:
        lifted = lift(func)
    except (Unliftable, RecursionError):
        return False
    if len(lifted.outputs) != 1 or len(lifted.inputs) != 1:
        return False
    (c,) = lifted.outputs
    return isinstance(_load(c.body), Load) and _volume(lifted, 0) is _volume(lifted, 1)


def _load(body: Any) -> Any:
    return getattr(body, "atom", None) or body


def _volume(lifted: Lifted, k: int) -> Any:
    out = ONE
    for e in getattr(lifted.params[k], "shape", ()):
        out = mul(out, e)
    return out
