"""Chains of operators that TVM fuses, whose code is costed as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from ...layout.graph.relax_graph import Op
from ..backend.match import Match
from ..patterns.elementwise_groups import Infos
from ..patterns.pattern_node import follower

Ops = tuple[Op, ...]
#: Kinds of operators that TVM fuses into their producer.
POINTWISE = ("kElemWise", "kBroadcast")


def fused_chains(matches: Sequence[Match], infos: Infos) -> list[Ops]:
    """The chains of several ops in which TVM's code competes with matches.

    The ops of each match, the chain that TVM fuses them into, and what a match leaves of it.
    """
    out: dict[Ops, None] = {}
    for match in matches:
        longest = extended(match.ops, infos)
        for chain in (match.ops, longest, longest[len(match.ops) :]):
            if len(chain) > 1:
                out[chain] = None
    by_start: dict[Op, list[Ops]] = {}
    for match in matches:
        by_start.setdefault(match.ops[0], []).append(match.ops)
    for chains in by_start.values():
        for long in chains:
            rests = (long[len(c) :] for c in chains if long[: len(c)] == c)
            out.update(dict.fromkeys(r for r in rests if len(r) > 1))
    return list(out)


def extended(ops: Ops, infos: Infos) -> Ops:
    """A chain with all elementwise operators that continue it."""
    after = follower(ops[-1], infos)
    while after is not None and after.info.kind in POINTWISE and after.op not in ops:
        ops = (*ops, *(after.ops or (after.op,)))
        after = follower(ops[-1], infos)
    return ops
