"""Why an op stayed behind: the nearest pattern and the first condition that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...analysis.results.op_info import LayoutNormalised, Refusal
from ...layout.graph.relax_graph import Op
from ..backend.backend import Backend
from ..patterns.elementwise_groups import Infos
from .near_misses import PartialMatches, laid


@dataclass(frozen=True)
class Left:
    """An op that no backend took; ``name`` is the value that it makes.

    ``mend``: what would make the nearest pattern match, "" where that is not known. ``node``: the
    node of the model that the op comes from, "" where that is not known.
    """

    name: str
    op: str
    why: str
    mend: str = ""
    node: str = ""


def left_behind(ops: Sequence[Op], infos: Infos, backends: Sequence[Backend]) -> tuple[Left, ...]:
    """One reason for each op: of all patterns of all backends, what stops the nearest one."""
    chains = PartialMatches(infos, backends) if ops else None
    return tuple(replace(_left(op, infos, chains), node=op.node) for op in ops if chains)


def _left(op: Op, infos: Infos, chains: PartialMatches) -> Left:
    name = op.outputs[0].name if op.outputs else op.name
    info = infos[op].info
    if isinstance(info, Refusal):
        return Left(name, op.name, f"not recognised: {info.reason}")
    if isinstance(info, LayoutNormalised):
        return Left(name, info.logical.name, f"its buffers are laid out as {laid(info)}")
    if info.packed:
        return Left(name, info.name, f"its buffers are laid out as {laid(info)}")
    found = chains.nearest(op)
    if found is not None:
        return Left(name, info.name, str(found), found.mend)
    if not chains.backends:
        return Left(name, info.name, "no backend is available and before tvm in priority")
    names = ", ".join(b.name for b in chains.backends)
    return Left(name, info.name, f"no pattern of {names} has {info.name}")
