"""Why an op stayed behind: the nearest pattern and the first condition that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..analysis.op_info import OpInfo
from ..layout.graph import Op
from .backend import Backend
from .pattern import nearest
from .region import Infos


@dataclass(frozen=True)
class Left:
    """An op that no backend took; ``name`` is the value that it makes."""

    name: str
    op: str
    why: str


def left_behind(ops: Sequence[Op], infos: Infos, backends: Sequence[Backend]) -> tuple[Left, ...]:
    """One reason for each op."""
    return tuple(_left(op, infos, backends) for op in ops)


def _left(op: Op, infos: Infos, backends: Sequence[Backend]) -> Left:
    name = op.outputs[0].name if op.outputs else op.name
    info = infos[op].info
    if not isinstance(info, OpInfo):
        return Left(name, op.name, f"not recognised: {info.reason}")
    if info.relaid:
        return Left(name, info.name, f"its buffers are laid out as {', '.join(info.layouts)}")
    for b in backends:
        found = nearest(b.patterns, op, infos)
        if found is not None:
            return Left(name, info.name, f"{b.name}, pattern {found[0].name}: {found[1]}")
    names = ", ".join(b.name for b in backends) or "no backend"
    return Left(name, info.name, f"no pattern of {names} begins with {info.name}")
