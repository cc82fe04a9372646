"""The costing of a dispatch: measured, calibrated, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...layout.graph.relax_graph import Op
from ..backend.backend import Backend
from ..backend.match import Match
from ..calibration.calibrated_costing import CalibratedCosting
from ..calibration.cost_model import TVM, CostModel
from ..calibration.prune_matches import Pruning
from ..matching.match_rules import MatchRules
from ..patterns.elementwise_groups import Infos

if TYPE_CHECKING:
    from ..measure import Measure
    from ..measure.costs import Costing


def costing_of(
    ops: Sequence[Op], infos: Infos, backends: Sequence[Backend], rules: MatchRules,
    measure: Measure | None, model: CostModel | None,
) -> Costing | CalibratedCosting | None:  # fmt: skip
    """What costs the matches of ops; None if only backends and FLOPs estimate them.

    Args:
        ops: The ops.
        infos: What they compute.
        backends: The backends of the matches.
        rules: Which matches may be chosen. Forced ones, and those of a class above TVM's, are
            measured whatever they cost.
        measure: How to measure; None to look costs up.
        model: The cost model of a calibration.
    """
    if measure is not None:
        from ..measure.costs import Costing  # imports the tracker, which only measuring needs

        floor = rules.classes.get(TVM, 1)

        def keep(match: Match) -> bool:
            forced = any((op.origin or op) in rules.forced for op in match.ops)
            return forced or rules.classes[match.backend] > floor

        pruning = None if model is None else Pruning(model, keep)
        return Costing(ops, infos, backends, measure, pruning)
    return None if model is None else CalibratedCosting(ops, infos, backends, model)
