"""The PrimFunc of one group of rows, from the body of a walk over tiles.

    Before: if first + i < last: out[first + i, j] = .. x[first + i, k] .. w[group, j, k]
    After:  if i < rows: out[i, j] = .. x[i, k] .. w[j, k]

The rows of a group are views that begin at its first row, so rows may be used in two ways only: as
the index of such a tensor, and compared with the row behind the group. Each access is under such a
condition, so that nothing reaches rows of other groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from ..lifting.tir.node import NodeDict, items
from ..support.ir.call_ops import op_name
from ..support.tvm_compat import SBlock, TensorLoad, source_of, sym
from .straight_line import NotWalk, Place, conjuncts, mentions, same

#: The greatest number of rows, whose arithmetic does not overflow.
MOST = 2**31 - 1
CHOICES = ("prim.if_then_else", "tirx.if_then_else")


@dataclass(frozen=True)
class GroupTile:
    """The variables and extents of a tile.

    Attributes:
        row, column: The variables of the tile in its group.
        across, height: How many tiles are side by side, and how many rows a tile has.
        group, first, last: The variables of the group, its first row, and the row behind it.
    """

    row: Any
    column: Any
    across: int
    height: int
    group: Any
    first: Any
    last: Any


class OneGroup:
    """Rewrites the body of a tile.

    Attributes:
        batches: The positions of tensors that have a matrix for each group.
        rows: The positions of tensors of which a group has some rows.
    """

    def __init__(self, func: Any, tile: GroupTile, starts: int, count: int, other: Sequence[Any],
                 own: dict[Place, Any]) -> None:  # fmt: skip
        self.func, self.tile, self.starts, self.count = func, tile, starts, count
        self.batches: list[int] = []
        self.rows: list[int] = []
        self._forbidden = [tile.group, tile.first, tile.last, *other]
        self._own = {buffer for buffer, _ in own}
        self._size = tirx.Var("rows", str(tile.last.ty.dtype))
        self._analyzer = sym.Analyzer()
        for var, extent in ((tile.column, tile.across), (tile.row, MOST // tile.height)):
            self._analyzer.bind(var, ir.Range(0, extent))
        self._conditions: list[Any] = []
        self._params = items(func.params)
        self._new: NodeDict[Any] = NodeDict()  # by the buffer of the kernel

    def func_of(self, body: Any) -> Any:
        """Return the PrimFunc."""
        of = self.tile
        for access in _accesses(body):
            self._classify(*access)
        inner = self._rewritten(body)
        for var in self._forbidden:
            if mentions(inner, var):
                raise NotWalk("a number of the walk is used otherwise than for rows and matrices")
        serial, zero = tirx.ForKind.SERIAL, tirx.const(0, str(of.row.ty.dtype))
        inner = tirx.For(of.column, zero, zero + of.across, serial, inner)
        tiles = tirx.floordiv(self._size + (of.height - 1), of.height)
        params = [self._new[p] if p in self._new else p
                  for k, p in enumerate(self._params) if k != self.starts]  # fmt: skip
        body = tirx.For(of.row, zero, tiles, serial, inner)
        return tirx.PrimFunc(params, body).with_attr("tirx.noalias", True).with_attr("s_tir", True)

    def _classify(self, buffer: Any, indices: list[Any], stored: bool) -> None:
        """Note how a tensor is divided among groups, and check that all accesses agree."""
        position = next((k for k, p in enumerate(self._params) if p.same_as(buffer)), None)
        if buffer.__chandle__() in self._own or position == self.starts:
            raise NotWalk("a tile changes the walk, or reads the starts of groups")
        if position is None:
            return  # memory of the tile
        shape, kind = items(buffer.shape), None
        if same(indices[0], self.tile.group):
            kind, kept = self.batches, shape[1:]
            if stored or not same(shape[0], self.count):
                raise NotWalk(f"{buffer.name} has not one matrix for each group")
        elif mentions(indices[0], self.tile.first):
            kind, kept = self.rows, [self._size, *shape[1:]]
        elif stored:
            raise NotWalk(f"{buffer.name} is stored otherwise than by rows of a group")
        lists = [x for x in (self.batches, self.rows) if position in x]
        if any(x is not kind for x in lists) or (kind is None and buffer in self._new):
            raise NotWalk(f"{buffer.name} is used in two ways")
        if kind is not None and not lists:
            kind.append(position)
            self._new[buffer] = tirx.decl_buffer(kept, str(buffer.ty.dtype), str(buffer.name))

    def _rewritten(self, body: Any) -> Any:
        rules = [(TensorLoad, self._load), (tirx.BufferStore, self._store), (tirx.LT, self._less),
                 (tirx.IfThenElse, self._branch), (ir.Call, self._choice), (tirx.For, self._loop),
                 (SBlock, self._block)]  # fmt: skip
        return tvm_ffi.structural_mutate(body, rules)

    def _load(self, node: Any, mutator: Any) -> Any:
        new = self._new.get(source_of(node))
        if new is None:
            return mutator.default_mutate(node)
        return tirx.BufferLoad(new, self._indices(source_of(node), node.indices, mutator))

    def _store(self, node: Any, mutator: Any) -> Any:
        new = self._new.get(node.buffer)
        if new is None:
            return mutator.default_mutate(node)
        indices = self._indices(node.buffer, node.indices, mutator)
        return tirx.BufferStore(new, mutator.mutate(node.value), indices)

    def _indices(self, buffer: Any, indices: Any, mutator: Any) -> list[Any]:
        """The indices in what one group has of a tensor."""
        first, *rest = items(indices)
        rest = [mutator.mutate(i) for i in rest]
        if any(self._params[k].same_as(buffer) for k in self.batches):
            return rest
        row = self._row(first)
        inside = any(c[0] is not None and same(c[0], row) for c in self._conditions)
        if not inside or not self._analyzer.can_prove(row >= 0):
            raise NotWalk(f"{buffer.name} has an access that may be outside of the rows of a group")
        return [row, *rest]

    def _row(self, index: Any) -> Any:
        """The row of a group at an index of all rows."""
        return self._analyzer.simplify(index - self.tile.first)

    def _less(self, node: Any, mutator: Any) -> Any:
        if not mentions(node.b, self.tile.last):
            return mutator.default_mutate(node)
        row = self._inside(node)
        if row is None:
            raise NotWalk("the row behind a group is compared with something else than a row")
        return tirx.LT(row, self._size)

    def _inside(self, condition: Any) -> Any | None:
        """The row of a group in a condition that it is in the group."""
        if isinstance(condition, tirx.LT) and condition.b.same_as(self.tile.last):
            return self._row(condition.a)
        return None

    def _under(self, condition: Any, node: Any, mutator: Any) -> Any:
        """A node that is executed under a condition."""
        known = [(self._inside(c), c) for c in conjuncts(condition)]
        self._conditions += known
        out = mutator.mutate(node)
        del self._conditions[len(self._conditions) - len(known) :]
        return out

    def _branch(self, node: Any, mutator: Any) -> Any:
        condition = mutator.mutate(node.condition)
        then = self._under(node.condition, node.then_case, mutator)
        other = None if node.else_case is None else mutator.mutate(node.else_case)
        return tirx.IfThenElse(condition, then, other)

    def _choice(self, node: Any, mutator: Any) -> Any:
        if op_name(node) not in CHOICES:
            return mutator.default_mutate(node)
        condition, then, other = node.args
        return tirx.if_then_else(mutator.mutate(condition), self._under(condition, then, mutator),
                                 mutator.mutate(other))  # fmt: skip

    def _loop(self, node: Any, mutator: Any) -> Any:
        self._analyzer.bind(node.loop_var, ir.Range.from_min_extent(node.min, node.extent))
        return mutator.default_mutate(node)

    def _block(self, node: Any, mutator: Any) -> Any:
        """A block without regions, which name what is replaced."""
        for var in items(node.iter_vars):
            self._analyzer.bind(var.var, var.dom)
        init = None if node.init is None else mutator.mutate(node.init)
        return SBlock(node.iter_vars, [], [], str(node.name_hint), mutator.mutate(node.body), init,
                      node.alloc_buffers, node.match_buffers, node.annotations)  # fmt: skip


def _accesses(body: Any) -> list[tuple[Any, list[Any], bool]]:
    """The tensors that are accessed, at which indices, and whether they are stored."""
    found: list[tuple[Any, list[Any], bool]] = []

    def load(node: Any) -> None:
        found.append((source_of(node), items(node.indices), False))

    def store(node: Any) -> None:
        found.append((node.buffer, items(node.indices), True))

    tvm_ffi.structural_walk(body, [(TensorLoad, load), (tirx.BufferStore, store)])
    return found
