"""Where the keys and values of a sequence lie: rows of features in pages, or one after another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import tvm
from tvm import tirx

from ....analysis.blocks.tir import loop, seq
from ....analysis.lifting.tir.node import as_dtype, items
from ..loops.bfloat16_words import BITS, HALF
from .attention_operands import AttentionOperands
from .tile_shape import KEYS
from .vector_terms import INDEX, index, load

#: Bytes of a cache line.
LINE = 64


@dataclass(frozen=True)
class KeyRows:
    """Flat views of keys and values, and the first elements of the rows of a tile.

    Attributes:
        operands: The operands of the attention.
        keys: A flat view of what has the keys.
        values: The same of the values.
        key_starts: For each key of a tile, where its row begins.
        value_starts: The same of its value.
    """

    operands: AttentionOperands
    keys: Any
    values: Any
    key_starts: Any
    value_starts: Any

    @classmethod
    def of(cls, operands: AttentionOperands) -> KeyRows:
        """Return views for some operands, and memory for one tile."""
        named = [operands.pages] * 2 if operands.pages is not None else [
            operands["keys"], operands["values"]]  # fmt: skip
        first = flat(named[0])
        views = [first, first if named[1].same_as(named[0]) else flat(named[1])]
        starts = [tirx.decl_buffer([KEYS], INDEX, name=f"{n}_starts") for n in ("key", "value")]
        return cls(operands, *views, *starts)

    @cached_property
    def declared(self) -> list[Any]:
        """The declarations of the views, outside of the loops."""
        if self.operands.pages is not None:
            return [tirx.DeclBuffer(self.keys, data=self.operands.pages.data)]
        named = [(self.keys, self.operands["keys"]), (self.values, self.operands["values"])]
        return [tirx.DeclBuffer(view, data=buffer.data) for view, buffer in named]

    @property
    def allocated(self) -> list[Any]:
        """The allocations of the memory for one tile."""
        return [tirx.AllocBuffer(self.key_starts), tirx.AllocBuffer(self.value_starts)]

    def count(self, sequence: Any) -> Any:
        """Return the number of keys of a sequence."""
        names = ("key_indptr",) if self.operands.pages is None else ("page_indptr",)
        begin, end = (self.operands.at(names[0], sequence + index(k)) for k in range(2))
        if self.operands.pages is None:
            return end - begin
        count = (end - begin - index(1)) * index(self.operands.page) + self._length(sequence, 0)
        if self.operands.slides:
            count = count - self._length(sequence, 1) + self._length(sequence, 2)
        return tirx.if_then_else(begin < end, count, index(0))

    def located(self, sequence: Any, group: Any, base: Any, count: Any) -> Any:
        """Return a statement that finds the keys of a tile; behind the last one, it is repeated.

        Args:
            sequence: The sequence.
            group: The head of keys.
            base: The first key of the tile.
            count: The number of keys, which is positive.
        """
        start = self._ragged if self.operands.pages is None else self._paged

        def place(j: Any) -> Any:
            key, first = (tirx.Var(name, INDEX) for name in ("key", "first"))
            last = count - index(1)
            return seq([
                tirx.Bind(key, tirx.Min(base + j, last)),
                tirx.Bind(first, start(sequence, group, key)),
                tirx.BufferStore(self.key_starts, first, [j]),
            ])  # fmt: skip

        return loop("j", KEYS, index(0), place)

    def position(self, sequence: Any, key: Any, count: Any) -> Any:
        """Return the position of a key; that of one behind the last key means nothing.

        Args:
            sequence: The sequence.
            key: The key.
            count: The number of keys.
        """
        operands = self.operands
        if "key_offsets" in operands.roles:
            return operands.at("key_offsets", sequence) + key
        if "positions" not in operands.roles:
            return key
        row = operands.at("key_indptr", sequence) + tirx.Min(key, count - index(1))
        return operands.at("positions", row)

    def found_values(self) -> Any:
        """Return a statement that finds the values of the keys of a tile."""
        operands = self.operands
        apart = 0 if operands.pages is None else (
            operands.groups * operands.page * operands.features)  # fmt: skip

        def place(j: Any) -> Any:
            first = tirx.Var("first", INDEX)
            return seq([
                tirx.Bind(first, load(self.key_starts, j) + index(apart)),
                tirx.BufferStore(self.value_starts, first, [j]),
            ])  # fmt: skip

        return loop("j", KEYS, index(0), place)

    def _ragged(self, sequence: Any, group: Any, key: Any) -> Any:
        """Where the row of a key begins."""
        operands = self.operands
        row = (operands.at("key_indptr", sequence) + key) * index(operands.groups) + group
        return row * index(operands.features)

    def _paged(self, sequence: Any, group: Any, key: Any) -> Any:
        operands, size = self.operands, index(self.operands.page)
        if operands.slides:
            shown, sink = (self._length(sequence, k) for k in (1, 2))
            key = tirx.if_then_else(key < sink, key, key - sink + shown)
        entry = operands.at("page_indptr", sequence) + tirx.FloorDiv(key, size)
        head = operands.at("page_table", entry) * index(2 * operands.groups) + group
        return (head * size + tirx.FloorMod(key, size)) * index(operands.features)

    def _length(self, sequence: Any, row: int) -> Any:
        buffer = self.operands["lengths"]
        place = [index(row), sequence] if self.operands.slides else [sequence]
        return as_dtype(tirx.BufferLoad(buffer, place), INDEX)


def flat(buffer: Any) -> Any:
    """Return a flat view of a parameter, which is to be declared: of words if it is bfloat16."""
    shape = [as_dtype(extent, INDEX) for extent in items(buffer.ty.shape)]
    dtype = str(buffer.ty.dtype)
    return tirx.decl_buffer([prod(shape[1:], start=shape[0])], BITS if dtype == HALF else dtype,
                            name="flat", elem_offset=buffer.elem_offset)  # fmt: skip


def requested(buffer: Any, first: Any, elements: int) -> list[Any]:
    """Return statements that ask for the cache lines of some elements, which are read soon."""
    step = max(1, LINE // (tvm.DataType(str(buffer.ty.dtype)).bits // 8))
    numbers = [tirx.IntImm("int32", k) for k in (0, 3, 1)]  # to read, to all caches, data
    places = (tirx.address_of(load(buffer, first + index(k))) for k in range(0, elements, step))
    return [tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", place, *numbers))
            for place in places]  # fmt: skip
