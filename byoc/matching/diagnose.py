"""Diagnostics: why an operator stays with TVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...analysis.results.op_info import LayoutNormalised, Refusal
from ...analysis.support.warn import warn
from ...layout.graph.relax_graph import Op
from ..backend.backend import Backend
from ..patterns.elementwise_groups import Infos
from .near_misses import PartialMatches, buffer_layouts


@dataclass(frozen=True)
class FallbackOp:
    """An operator that stays with TVM.

    Attributes:
        name: The name of its result.
        op: The operator.
        why: The first condition of the nearest pattern that fails.
        suggestion: What would make that pattern match; empty if unknown.
        node: The node of the model that the operator comes from; empty if unknown.
    """

    name: str
    op: str
    why: str
    suggestion: str = ""
    node: str = ""

    @property
    def mend(self) -> str:
        """The old name of `suggestion`."""
        warn("FallbackOp.mend is deprecated: use FallbackOp.suggestion", DeprecationWarning)
        return self.suggestion


def diagnose(
    ops: Sequence[Op], infos: Infos, backends: Sequence[Backend]
) -> tuple[FallbackOp, ...]:
    """The diagnosis of each op: what stops the nearest of all patterns of all backends."""
    chains = PartialMatches(infos, backends) if ops else None
    return tuple(replace(_diagnose(op, infos, chains), node=op.node) for op in ops if chains)


def _diagnose(op: Op, infos: Infos, chains: PartialMatches) -> FallbackOp:
    name = op.outputs[0].name if op.outputs else op.name
    info = infos[op].info
    if isinstance(info, Refusal):
        return FallbackOp(name, op.name, f"not recognised: {info.reason}")
    if isinstance(info, LayoutNormalised):
        return FallbackOp(
            name, info.logical.name, f"its buffers have the layouts {buffer_layouts(info)}"
        )
    if info.packed:
        return FallbackOp(name, info.name, f"its buffers have the layouts {buffer_layouts(info)}")
    miss = chains.nearest(op)
    if miss is not None:
        return FallbackOp(name, info.name, str(miss), miss.suggestion)
    if not chains.backends:
        return FallbackOp(name, info.name, "no available backend has a higher priority than tvm")
    names = ", ".join(b.name for b in chains.backends)
    return FallbackOp(name, info.name, f"no pattern of {names} has {info.name}")
