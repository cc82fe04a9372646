"""Which candidates are worth measuring: those that a calibration says could be the best.

Dropped are

- matches that cost more than `FACTOR` times what their operators cost otherwise, as one match or
  one by one;
- matches that a longer one of the same backend contains and that no plan needs: the rest of the
  longer one costs nothing less elsewhere, and no other match competes for it;
- TVM's code for operators that cost more than `FACTOR` times as much as with a backend.

A backend without samples only estimates its costs: its matches are measured, and bound nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...layout.graph.relax_graph import Op
from ..backend.match import Match
from ..patterns.elementwise_groups import Infos
from .calibrated_costing import tvm_cost
from .cost_model import CostModel

#: How far a calibrated cost may be from the real one.
FACTOR = 3.0


@dataclass(frozen=True)
class Pruning:
    """How to prune: the model, and which matches are kept whatever they cost."""

    model: CostModel
    keep: Callable[[Match], bool] = lambda match: False

    def tvm_costs(self, ops: Sequence[Op], infos: Infos) -> dict[Op, float]:
        """The calibrated cost of each op with TVM."""
        return {op: tvm_cost((op,), infos, self.model).microseconds for op in ops}

    def worthwhile(self, matches: Sequence[Match], tvm: Mapping[Op, float]) -> list[Match]:
        """The matches to measure, which have calibrated costs; ``tvm`` has the cost of each op."""
        known = [m for m in matches if self.model.knows(m.backend)]
        single = _singles(known, tvm)
        best: dict[frozenset[Op], float] = {}
        for match in known:
            ops = frozenset(match.ops)
            best[ops] = min(match.cost, best.get(ops, sum(single[op] for op in match.ops)))
        near = [m for m in matches if self.kept(m) or m.cost <= FACTOR * best[frozenset(m.ops)]]
        having: dict[Op, list[Match]] = {}
        for match in near:
            for op in match.ops:
                having.setdefault(op, []).append(match)
        return [m for m in near if self.kept(m) or not _covered(m, having, single)]

    def kept(self, match: Match) -> bool:
        """Whether a match is measured whatever it costs."""
        return self.keep(match) or not self.model.knows(match.backend)

    def by_tvm(self, matches: Sequence[Match], tvm: Mapping[Op, float]) -> set[Op]:
        """The ops whose code by TVM is worth measuring."""
        single = _singles([m for m in matches if self.model.knows(m.backend)], {})
        return {op for op, cost in tvm.items() if cost <= FACTOR * single.get(op, cost)}


def _singles(matches: Sequence[Match], tvm: Mapping[Op, float]) -> dict[Op, float]:
    """The least cost of each op alone."""
    single = dict(tvm)
    for match in matches:
        if len(match.ops) == 1:
            (op,) = match.ops
            single[op] = min(match.cost, single.get(op, match.cost))
    return single


def _covered(
    match: Match, having: Mapping[Op, Sequence[Match]], single: Mapping[Op, float]
) -> bool:
    """Whether a longer match makes this one needless; ``having`` has the matches with each op."""
    ops = set(match.ops)
    for longer in having[match.ops[0]]:
        rest = [op for op in longer.ops if op not in ops]
        if (longer.backend != match.backend or not rest or not ops.issubset(longer.ops)
                or longer.cost > match.cost + sum(single[op] for op in rest)):  # fmt: skip
            continue
        rivals = (m for op in rest for m in having[op] if len(m.ops) > 1)
        if all(not ops.isdisjoint(m.ops) for m in rivals):
            return True
    return False
