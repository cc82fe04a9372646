"""Repeated blocks of a graph, which a page shows as one box each.

A block is an interval of the nodes in program order, so nothing outside of it lies on a way between
two nodes in it, and drawing it as one box makes no circle.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

#: The fewest nodes of a block, and the most.
LEAST, MOST = 3, 200


@dataclass(frozen=True)
class Block:
    """The nodes from ``start`` up to ``stop``."""

    label: str
    start: int
    stop: int


@dataclass(frozen=True)
class _Run:
    """Blocks of ``period`` nodes that follow each other, the same operators in each."""

    start: int
    period: int
    repeats: int

    @property
    def covered(self) -> int:
        return self.period * self.repeats


def blocks(operators: Sequence[str], names: Sequence[str]) -> list[Block]:
    """Disjoint blocks that repeat at once, those that cover most first.

    Args:
        operators: What each node computes, in program order.
        names: The model's name of each node, or "": blocks are called by what theirs begin with.

    >>> [b.label for b in blocks(["x"] + 2 * ["a", "b", "c"], [""] * 7)]
    ['1 of 2: a, b, c', '2 of 2: a, b, c']
    """
    out: list[Block] = []
    _search(operators, names, 0, len(operators), out)
    return sorted(out, key=lambda b: b.start)


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
    """The run that covers most nodes; of several the one of the shortest blocks."""
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
    """What all names begin with, up to a separator: ``encoder.layer.3``."""
    known = [re.split(r"[./]", name.strip("/")) for name in names if name]
    if not known:
        return ""
    shared = []
    for parts in zip(*known, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared) if len(shared) > 1 else ""


def _listed(operators: Sequence[str]) -> str:
    kinds = list(dict.fromkeys(op.removeprefix("nn.") for op in operators))
    return ", ".join(kinds[:3]) + (", …" if len(kinds) > 3 else "")
