"""The loops over the iterators of a block, and their order.

Spatial loops are in the order of memory, reductions in that of the operand that most of them run
over. Where the innermost loop runs over neighbours in every access, reductions are outside of it:

    Before: for i, j, k: out[i, j] += x[i, k] * y[k, j]
    After:  for i, k, j: out[i, j] += x[i, k] * y[k, j]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.terms.quotient import is_div
from ...analysis.terms.term import ONE, CallTerm, Int, Var, as_int, integer, variable
from ...analysis.terms.traversal import free, ints, subterms
from ...analysis.undo_layouts.tensor_access import coefficient

#: Elements that are in registers at a time: neighbours, and terms of a sum.
WIDTH, DEPTH = 8, 4
#: The physical indices of an access; None for one that depends on data.
Index = tuple[Int | None, ...]


@dataclass(frozen=True)
class Iterator:
    """A new iterator; ``stem`` is what its name in TVMScript is formed from."""

    var: Var
    stem: str

    @property
    def extent(self) -> Int:
        assert self.var.extent is not None
        return self.var.extent

    @property
    def reduced(self) -> bool:
        return self.var.kind == "reduce"


@dataclass(frozen=True)
class Loop:
    """A digit of an iterator: ``extent`` values, ``div`` apart."""

    iterator: Iterator
    extent: Int
    div: int = 1


def unsplit(iterators: Sequence[Iterator]) -> tuple[Loop, ...]:
    """One loop for each iterator."""
    return tuple(Loop(i, i.extent) for i in iterators)


def in_memory_order(
    spatial: Sequence[Iterator], reduced: Sequence[Iterator], reads: Sequence[Index], tile: bool
) -> tuple[Loop, ...]:
    """Spatial loops in the order of memory, reductions in the order of what they run over.

    Reductions are outside the innermost spatial loop if it runs over neighbours in every access:
    its iterations are then independent and contiguous. In a grouped convolution, that loop runs
    over the channels of one group, and the loop over groups is outside.

    Args:
        spatial: The iterators over the result, from the slowest dimension to the fastest.
        reduced: The iterators of the reduction.
        reads: The physical index of each access.
        tile: Also split loops so that a few elements are in registers at a time.
    """
    reads = [r for r in reads if None not in r]
    reduced = _in_read_order(reduced, reads)
    wide = [s for s in spatial if s.extent is not ONE]
    if not reduced or not wide:
        return unsplit([*spatial, *reduced])
    last = wide[-1]
    k = spatial.index(last)
    inner, groups = unsplit(spatial[k:]), unsplit(())
    if not all(_fastest(last.var, r) for r in reads):
        few, many = _grouped(last, reads)
        if few is ONE:
            return unsplit([*spatial, *reduced])
        groups = (Loop(last, many, few.const or 0),)
        inner = (Loop(last, few), *inner[1:])
    if tile:
        return _tiled(spatial[:k], groups, reduced, inner)
    return (*unsplit(spatial[:k]), *groups, *unsplit(reduced), *inner)


def _grouped(iterator: Iterator, reads: Sequence[Index]) -> tuple[Int, Int]:
    """How many steps of an iterator run over neighbours in every access, and how often they do.

    pad[f // 16 * 8 + r], w[f, r]    16 at a time
    """
    extent = iterator.extent.const or 0
    atoms = (atom for r in reads for p in r if p is not None for atom in subterms(p))
    cuts = {
        as_int(atom.args[1]).const
        for atom in atoms
        if isinstance(atom, CallTerm) and is_div(atom) and atom.args[0] is as_int(iterator.var)
    }
    for few in sorted((c for c in cuts if c and extent % c == 0), reverse=True):
        high = variable("loop", "high", integer(extent // few))
        low = variable("loop", "low", integer(few))
        at = {iterator.var: as_int(high) * few + as_int(low)}
        parts = ([None if p is None else ints(p, at) for p in r] for r in reads)
        if all(_fastest(low, r) for r in parts):
            return integer(few), integer(extent // few)
    return ONE, iterator.extent


def _tiled(
    outer: Sequence[Iterator],
    groups: Sequence[Loop],
    reduced: Sequence[Iterator],
    inner: Sequence[Loop],
) -> tuple[Loop, ...]:
    """Some steps of the last outer loop and of the last reduction go inside of the inner loops.

    Each element of an operand that is loaded is then used more than once:

        for w, r, c:  out[w, c] += x[w, r] * y[r, c]
        for w_0, r_0, c, w_1, r_1:  the same with w = 7 * w_0 + w_1 and r = 4 * r_0 + r_1
    """
    inside: list[Loop] = []
    around: list[list[Loop]] = []
    for part, most in ((outer, WIDTH), (reduced, DEPTH)):
        wide = [i for i in part if i.extent is not ONE]
        loops = list(unsplit(part))
        few = _divisor(wide[-1].extent, most) if wide else 1
        if few > 1:
            at, steps = part.index(wide[-1]), integer((wide[-1].extent.const or 0) // few)
            loops[at : at + 1] = [] if steps is ONE else [Loop(wide[-1], steps, few)]
            inside.append(Loop(wide[-1], integer(few)))
        around.append(loops)
    return (*around[0], *groups, *around[1], *inner, *inside)


def _divisor(extent: Int, most: int) -> int:
    """The largest divisor up to ``most``; 1 if the extent is unknown."""
    size = extent.const
    return 1 if size is None else max(d for d in range(1, most + 1) if size % d == 0)


def _in_read_order(reduced: Sequence[Iterator], reads: Sequence[Index]) -> list[Iterator]:
    """The reductions in the order of the dimensions of the operand that most of them run over."""

    def places(read: Index) -> dict[Var, int]:
        return {v: d for d, p in enumerate(read) if p is not None for v in free(p)}

    dims = max(map(places, reads), default={}, key=lambda p: sum(r.var in p for r in reduced))
    return sorted(reduced, key=lambda iterator: dims.get(iterator.var, -1))


def _fastest(var: Var, index: Sequence[Int | None]) -> bool:
    """Whether an access goes to the next element with ``var``, or does not depend on it."""
    dims = [k for k, p in enumerate(index) if p is not None and var in free(p)]
    if not dims:
        return True
    poly = index[-1]
    return dims == [len(index) - 1] and poly is not None and coefficient(poly, var) is ONE
