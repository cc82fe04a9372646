"""Find repeated blocks of a graph, which a page folds into one box each.

A block is an interval of nodes in program order, so no path between two of its nodes leaves it, and
folding it creates no cycle.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

#: Minimum and maximum number of nodes in a block.
LEAST, MOST = 3, 200


@dataclass(frozen=True)
class Block:
    """The nodes from ``start`` to ``stop``, exclusive."""

    label: str
    start: int
    stop: int


@dataclass(frozen=True)
class _Run:
    """Consecutive blocks of ``period`` nodes with the same operators."""

    start: int
    period: int
    repeats: int

    @property
    def covered(self) -> int:
        return self.period * self.repeats


def blocks(operators: Sequence[str], names: Sequence[str]) -> list[Block]:
    """Find disjoint blocks that repeat consecutively, greedily by the nodes covered.

    Args:
        operators: The operator of each node, in program order.
        names: The model's name of each node, or "". A common prefix labels a block.

    >>> [b.label for b in blocks(["x"] + 2 * ["a", "b", "c"], [""] * 7)]
    ['1 of 2: a, b, c', '2 of 2: a, b, c']
    """
    out: list[Block] = []
    _search(operators, names, 0, len(operators), out)
    return sorted(out, key=lambda block: block.start)


def _search(
    operators: Sequence[str], names: Sequence[str], low: int, high: int, out: list[Block]
) -> None:
    run = _longest(operators, low, high)
    if run is None:
        return
    starts = [run.start + k * run.period for k in range(run.repeats)]
    scopes = [_scope(names[s : s + run.period]) for s in starts]
    listed = _listed(operators[run.start : run.start + run.period])
    distinct = len({s for s in scopes if s}) == run.repeats
    for k, (start, scope) in enumerate(zip(starts, scopes, strict=True)):
        label = scope if distinct else f"{k + 1} of {run.repeats}: {scope or listed}"
        out.append(Block(label, start, start + run.period))
    _search(operators, names, low, run.start, out)
    _search(operators, names, run.start + run.covered, high, out)


def _longest(operators: Sequence[str], low: int, high: int) -> _Run | None:
    """Return the run that covers most nodes; among equal ones, that with the shortest blocks."""
    best: _Run | None = None
    for period in range(LEAST, min((high - low) // 2, MOST) + 1):
        same = 0
        for k in range(low, high - period + 1):
            if k < high - period and operators[k] == operators[k + period]:
                same += 1
                continue
            repeats = same // period + 1
            if repeats > 1 and (best is None or repeats * period > best.covered):
                best = _Run(k - same, period, repeats)
            same = 0
    return best


def _scope(names: Sequence[str]) -> str:
    """Return the common prefix of names up to a separator: ``encoder.layer.3``."""
    paths = [re.split(r"[./]", name.strip("/")) for name in names if name]
    if not paths:
        return ""
    shared = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared) if len(shared) > 1 else ""


def _listed(operators: Sequence[str]) -> str:
    kinds = list(dict.fromkeys(op.removeprefix("nn.") for op in operators))
    return ", ".join(kinds[:3]) + (", …" if len(kinds) > 3 else "")
