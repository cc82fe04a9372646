"""The cost of each match, and of each operator that stays with TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...layout.graph.relax_graph import Op
from ..backend.match import Match
from ..matching.force import CannotForce
from .dispatch_request import DispatchRequest


@dataclass(frozen=True)
class CostedMatches:
    """Matches with their costs, and ``staying``: what each op costs with TVM; microseconds."""

    matches: Sequence[Match]
    staying: Mapping[Op, float]


def cost_matches(request: DispatchRequest, matches: Sequence[Match]) -> CostedMatches:
    """The costs of matches: measured, or else from the backends and FLOPs.

    Measuring excludes matches that fail, and adds matches of ``tvm``: chains that TVM fuses.

    Raises:
        CannotForce: Measuring excludes all matches of a forced operator.
    """
    costing, rules = request.costing, request.rules
    if costing is None:
        return CostedMatches(matches, request.lowered.staying)
    measured = list(filter(rules.usable, costing(matches)))
    matched = {op for m in measured for op in m.ops}
    missing = next((op for op in rules.must if op not in matched), None)
    if missing is not None:
        raise CannotForce(costing.reasons[missing])
    return CostedMatches(measured, {**request.lowered.staying, **costing.tvm_times})
