"""Costs of matches and of TVM's own code by a calibration, in place of measuring them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...analysis.results.op_info import OpInfo
from ...layout.graph.relax_graph import Op
from ...layout.model.buffer_bytes import size_of
from ..backend.backend import Backend
from ..backend.flops import flops
from ..backend.match import Match
from ..backend.region import Region, region
from ..backend.sized_region import sized
from ..matching.tvm_chains import Ops, fused_chains
from ..patterns.elementwise_groups import Infos
from .cost_model import ESTIMATED, TVM, CostModel, Estimate
from .workload import OTHER, Workload

#: The microseconds of a call, for backends that say no cost.
CALL = 1.0
#: Dtypes whose arithmetic the samples are of; in a subgraph, there may be casts to small ones.
SAMPLED = ("float32", "int64", "int32", "bool")
CAST_TO = ("int8", "uint8")


def priced(backend: Backend, model: CostModel | None) -> Backend:
    """The backend with costs by a calibration, where that has samples of it.

    A region of another dtype costs what the backend itself estimates. A backend without samples
    and without estimates costs its calls, so larger regions win.
    """
    if model is None or (backend.cost is not None and not model.knows(backend.name)):
        return backend
    if not model.knows(backend.name):
        return replace(backend, cost=lambda placed: CALL)

    def cost(placed: Region) -> float:
        return expected(backend, placed, model).microseconds

    return replace(backend, cost=cost)


def expected(backend: Backend, placed: Region, model: CostModel) -> Estimate:
    """The expected cost of a region without symbolic extents on a backend."""
    tensors = (*placed.inputs, *placed.results, *(c.result for c in placed.calls))
    coarse = bool(backend.coarse) and not backend.patterns
    known = (*SAMPLED, *CAST_TO) if coarse else SAMPLED
    if all(t.dtype in known for t in tensors) and model.knows(backend.name):
        kernel = None if backend.implementation is None else backend.implementation(placed)
        estimate = model.cost(backend.name, placed, coarse, kernel)
        assert estimate is not None
        return estimate
    return Estimate(0.0 if backend.cost is None else backend.cost(placed), ESTIMATED)


def tvm_cost(ops: Sequence[Op], infos: Infos, model: CostModel) -> Estimate:
    """The expected cost of TVM's own code for ops that it fuses."""
    if all(isinstance(infos[op].info, OpInfo) and len(op.outputs) == 1 for op in ops):
        estimate = model.cost(TVM, sized(region("", ops, infos, elements=False).region))
        if estimate is not None:
            return estimate
    work = sum(flops(infos[op], op) for op in ops)
    ends = {v for v in (*ops[0].inputs, *ops[-1].outputs) if v is not None}
    moved = sum(size_of(v.shape, v.dtype) for v in ends)
    return Estimate(model.other(TVM, Workload(OTHER, (max(1, work),), max(1, work), moved)),
                    ESTIMATED)  # fmt: skip


class CalibratedCosting:
    """Costs matches of some ops; a call returns the matches that may be chosen.

    It serves like `measure.costs.Costing`: ``tvm_times`` has the cost of each op that stays with
    TVM; nothing is excluded, so ``reasons`` and ``timings`` are empty.
    """

    def __init__(
        self, ops: Sequence[Op], infos: Infos, backends: Sequence[Backend], model: CostModel
    ) -> None:
        self.infos, self.model, self.backends = infos, model, {b.name: b for b in backends}
        self.tvm_times = {op: tvm_cost((op,), infos, model).microseconds for op in ops}
        self.reasons: dict[Op, str] = {}
        self.timings: tuple[()] = ()

    def __call__(self, matches: Sequence[Match]) -> list[Match]:
        """The matches, which have their costs, and the chains that TVM fuses."""
        chains = fused_chains([m for m in matches if not _large(m.ops)], self.infos)
        return [*matches, *map(self.fused, chains)]

    def fused(self, ops: Ops) -> Match:
        """TVM's code for a chain."""
        return Match(TVM, "fused", ops, tvm_cost(ops, self.infos, self.model).microseconds)

    def source(self, backend: str, ops: Ops) -> str:
        """Where the cost of ops with a backend or ``tvm`` comes from, as `Estimate` says."""
        if backend == TVM:
            return tvm_cost(ops, self.infos, self.model).source
        wanted = self.backends[backend]
        placed = sized(region("", ops, self.infos, wanted.merges, elements=False).region)
        return expected(wanted, placed, self.model).source


def _large(ops: Ops) -> bool:
    """Whether ops are a subgraph rather than a chain, which TVM does not fuse."""
    return any(not any(v in b.inputs for v in a.outputs) for a, b in pairwise(ops))
