"""Which keys the nodes of trees of tokens see: those before the tree, and their ancestors.

    key j of n is node j - (n - nodes) of its tree if that is not negative
    row m sees key j if it is before the tree, or first[j] <= first[m] < after[j]

with the numbers of nodes in depth-first order, and the first ones after their descendants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from ....analysis.blocks.tir import loop, seq
from ....analysis.lifting.tir.node import as_dtype
from .attention_operands import AttentionOperands
from .row_tiles import RowTile
from .tile_shape import KEYS
from .vector_terms import INDEX, index, load, spread

_NUMBER = "int32"


@dataclass(frozen=True)
class TreeNodes:
    """The numbers of the nodes of a task.

    Attributes:
        operands: The operands of the attention.
        order: (vectors,): the number of the node of each query.
        first: (keys,): the number of each key's node; the least integer for keys before the tree.
        after: (keys,): the first number after its descendants; the largest integer for these.
    """

    operands: AttentionOperands
    order: Any
    first: Any
    after: Any

    @classmethod
    def of(cls, operands: AttentionOperands, vectors: int) -> TreeNodes | None:
        """Return memory for the nodes of a task; None if rows are not nodes of trees."""
        if not operands.is_tree:
            return None
        sizes = {"order": vectors, "first": KEYS, "after": KEYS}
        return cls(operands, *(tirx.decl_buffer([n], _NUMBER, name=f"node_{name}")
                               for name, n in sizes.items()))  # fmt: skip

    @property
    def allocated(self) -> list[Any]:
        """The allocations, inside of the task."""
        return [tirx.AllocBuffer(b) for b in (self.order, self.first, self.after)]

    def noted(self, rows: RowTile, local: Any, i: Any) -> Any:
        """Return the statement that notes the node of a query.

        Args:
            rows: The rows of the task.
            local: The row, counted in its sequence.
            i: The query, counted in the task.
        """
        begin, nodes = self._tree(rows.sequence)
        number = self._node(begin + local + nodes - rows.length, 0)
        return tirx.BufferStore(self.order, number, [i])

    def located(self, sequence: Any, base: Any, count: Any) -> Any:
        """Return the statement that finds the nodes of a tile of keys.

        Args:
            sequence: The sequence.
            base: The first key of the tile.
            count: The number of keys.
        """
        begin, nodes = self._tree(sequence)

        def place(j: Any) -> Any:
            node = tirx.Var("node", INDEX)
            least, largest = tirx.min_value(_NUMBER), tirx.max_value(_NUMBER)
            first, after = (
                tirx.if_then_else(node < index(0), limit, self._node(begin + node, k))
                for k, limit in enumerate((least, largest))
            )
            return seq([
                tirx.Bind(node, base + j - (count - nodes)),
                tirx.BufferStore(self.first, first, [j]), tirx.BufferStore(self.after, after, [j]),
            ])  # fmt: skip

        return loop("j", KEYS, index(0), place)

    def seen(self, i: Any, k: int, lanes: int) -> Any:
        """Return whether a query sees some keys of a tile, from key k on."""
        order = spread(load(self.order, i), lanes)
        first, after = (load(b, index(k), lanes) for b in (self.first, self.after))
        return tirx.And(order >= first, order < after)

    def _tree(self, sequence: Any) -> tuple[Any, Any]:
        """The first node of a tree, and the number of its nodes."""
        begin = self.operands.at("tree_indptr", sequence)
        return begin, self.operands.at("tree_indptr", sequence + index(1)) - begin

    def _node(self, node: Any, column: int) -> Any:
        """A number of a node; surplus rows and keys have the numbers of the last one."""
        tree = self.operands["tree"]
        last = as_dtype(tree.ty.shape[0], INDEX) - index(1)
        place = tirx.Max(tirx.Min(node, last), index(0))
        return as_dtype(tirx.BufferLoad(tree, [place, index(column)]), _NUMBER)
