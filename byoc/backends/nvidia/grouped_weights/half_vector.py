"""What a thread adds for one vector of halves of each of its columns: acc[r, m] += x[m, k] * w."""

from __future__ import annotations

from typing import Any

from .....analysis.blocks.tir import seq
from .....analysis.lifting.tir.node import as_dtype
from ..schedules.program.thread_loops import load, local, number, store, unrolled, vectorized
from .grouped_product import GroupedProduct
from .packed_vector import PackedVector
from .storage import HALF_LANES


class HalfVector(PackedVector):
    """The registers of a thread for weights that are stored in full."""

    def __init__(self, what: GroupedProduct, columns: int) -> None:
        self.what, self.columns = what, columns
        self.lanes = self.values = HALF_LANES
        self.vectors = what.depth // HALF_LANES
        name = what.result.name
        dtypes = [str(t.ty.dtype) for t in (what.words, what.x)]
        self.words = local(f"{what.words.name}_reg", [columns, HALF_LANES], dtypes[0])
        self.x = local(f"{what.x.name}_reg", [what.rows, HALF_LANES], dtypes[1])
        self.acc = local(f"{name}_acc", [columns, what.rows], "float32")
        self.buffers = [self.words, self.x, self.acc]

    def add(self, column: Any, vector: Any) -> Any:
        """Add one vector of each column."""
        first = vector * number(self.values)

        def read(r: Any) -> Any:
            return vectorized("v", self.lanes, lambda v: store(
                self.words, load(self.what.words, *self.word(column + r, vector, v)), r, v),
            )  # fmt: skip

        return seq([
            unrolled("r", self.columns, read),
            unrolled("m", self.what.rows, lambda m: self.activations(m, first)),
            unrolled("r", self.columns, self.column),
        ])  # fmt: skip

    def column(self, column: Any) -> Any:
        """Add the vector of a column."""

        def add(m: Any) -> Any:
            total = load(self.acc, column, m)
            for e in range(self.values):
                weight = as_dtype(load(self.words, column, number(e)), "float32")
                total = total + self.activation(m, e) * weight
            return store(self.acc, total, column, m)

        return unrolled("m", self.what.rows, add)
