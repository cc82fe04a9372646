"""Products of rows with matrices of their experts: how both are stored and written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from opinfo.analysis.composites.grouped import group_dequantize

op = relax.op
BACKENDS = ["experts", "tvm"]
EXPERTS, DEPTH, COLUMNS = 4, 288, 48
M = tvm.tirx.Var("m", "int64")
#: The experts of some rows: few and many, sorted or not, some experts without a row.
NUMBERS: tuple[list[int], ...] = ([2], [3, 0], [1] * 20, [3, 0, 3, 2, 3] * 9, [0, 1, 2, 3] * 60, [])
Emit = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """A module of a product: how the matrices are stored, and how the product is written."""

    name: str
    build: Callable[[Emit, Any, Any, Any], Any]
    transposed: bool = False  # whether the matrices are (columns, depth)
    bits: int = 0
    early: bool = False  # whether words are gathered, not numbers
    bound: bool = True  # whether the matrices are constants, not parameters
    dtype: str = "float32"
    stored: str = ""  # the dtype of float matrices or of scales
    ids: str = "int64"
    zeros: bool = False
    columns: int = COLUMNS

    def matrices(self) -> list[Any]:
        """The constant operands."""
        rng = np.random.default_rng(3)
        shape = (EXPERTS, *((self.columns, DEPTH) if self.transposed else (DEPTH, self.columns)))
        axis = 2 if self.transposed else 1
        if not self.bits:
            return [rng.standard_normal(shape).astype(self.stored or self.dtype)]
        words, groups = list(shape), list(shape)
        words[axis] //= 32 // self.bits
        groups[axis] //= 32
        out = [rng.integers(0, 2**32, words, "uint32"),
               (0.01 + rng.random(groups) / 10).astype(self.stored or self.dtype)]  # fmt: skip
        return [*out, rng.integers(0, 16, groups, "uint32")] if self.zeros else out

    def values(self) -> Any:
        """The matrices in float64, (experts, depth, columns)."""
        values, *rest = (a if a.dtype == np.uint32 else a.astype(float) for a in self.matrices())
        axis = 2 if self.transposed else 1
        if self.bits:
            parts = [values >> np.uint32(self.bits * k) & np.uint32(2**self.bits - 1)
                     for k in range(32 // self.bits)]  # fmt: skip
            shape = [e * (len(parts) if k == axis else 1) for k, e in enumerate(values.shape)]
            values = np.stack(parts, axis + 1).reshape(shape).astype(float)
            zeros = rest[1].astype(float).repeat(32, axis) if self.zeros else 7.0
            values = (values - zeros) * rest[0].repeat(32, axis)
        return values.transpose(0, 2, 1) if self.transposed else values

    def module(self, rows: Any = M) -> Any:
        bb = relax.BlockBuilder()
        x = relax.Var("x", relax.TensorType((rows, DEPTH), self.dtype))
        ids = relax.Var("ids", relax.TensorType((rows,), self.ids))
        constants = [relax.const(a) for a in self.matrices()]
        free = [] if self.bound else [relax.Var(f"w{k}", c.ty) for k, c in enumerate(constants)]
        attrs = {"bits": self.bits, "group_size": 32, "axis": 2 if self.transposed else 1,
                 "offset": 0.0 if self.zeros else 7.0}  # fmt: skip
        with bb.function("main", [x, ids, *free]):
            with bb.dataflow():
                parts = free or constants
                if self.bits and not self.early:
                    parts = [bb.emit(group_dequantize(*parts, **attrs))]
                chosen = [bb.emit(op.take(p, ids, 0, mode="fast")) for p in parts]
                if self.bits and self.early:
                    chosen = [bb.emit(group_dequantize(*chosen, **attrs))]
                out = bb.emit_output(self.build(bb.emit, x, chosen[0], rows))
            bb.emit_func_output(out)
        return bb.get()

    def inputs(self, ids: list[int]) -> tuple[Any, Any]:
        x = np.random.default_rng(len(ids)).standard_normal((len(ids), DEPTH))
        return x.astype(self.dtype), np.array(ids, self.ids)


def by_rows(emit: Emit, x: Any, w: Any, rows: Any) -> Any:
    return op.squeeze(emit(op.matmul(emit(op.expand_dims(x, 1)), w)), 1)


def swapped(emit: Emit, x: Any, w: Any, rows: Any) -> Any:
    return by_rows(emit, x, emit(op.permute_dims(w, (0, 2, 1))), rows)


def widened(emit: Emit, x: Any, w: Any, rows: Any) -> Any:
    return by_rows(emit, x, emit(op.astype(w, "float32")), rows)


def by_columns(emit: Emit, x: Any, w: Any, rows: Any) -> Any:
    return op.squeeze(emit(op.matmul(w, emit(op.expand_dims(x, 2)))), 2)


def summed(emit: Emit, x: Any, w: Any, rows: Any) -> Any:
    return op.einsum((x, w), "rk,rnk->rn")


CASES = [
    Case("rows", by_rows),
    Case("rows_f16", by_rows, dtype="float16", ids="int32"),
    Case("permuted", swapped, transposed=True, columns=40),
    Case("widened", widened, stored="float16"),
    Case("columns", by_columns, transposed=True, columns=33),
    Case("einsum", summed, transposed=True),
    Case("four_bits", swapped, transposed=True, bits=4),
    Case("four_bits_f16", summed, transposed=True, bits=4, dtype="float16", ids="int32"),
    Case("four_bits_gathered", by_columns, transposed=True, bits=4, early=True),
    Case("four_bits_by_rows", by_rows, bits=4, early=True, zeros=True),
    Case("eight_bits", by_rows, bits=8, stored="float32"),
    Case("free_rows", by_rows, columns=40, bound=False),
    Case("free_f16", widened, stored="float16", bound=False),
    Case("free_columns", by_columns, transposed=True, columns=33, bound=False),
    Case("free_einsum_f16", summed, transposed=True, dtype="float16", bound=False),
    Case("free_four_bits", swapped, transposed=True, bits=4, bound=False, columns=40),
    Case("free_four_bits_f16", by_columns, transposed=True, bits=4, early=True, dtype="float16",
         ids="int32", bound=False, columns=33),
    Case("free_four_bits_by_rows", by_rows, bits=4, early=True, bound=False),
    Case("free_eight_bits", by_rows, bits=8, stored="float32", bound=False, columns=33),
]  # fmt: skip


def product(build: Callable[..., Any], rows: int = 3, experts: int = EXPERTS) -> Any:
    """A module of ``build(emit, x, matrices, ids)``, with x of (rows, 1, DEPTH)."""
    bb = relax.BlockBuilder()
    rng = np.random.default_rng(3)
    x = relax.Var("x", relax.TensorType((rows, 1, DEPTH), "float32"))
    ids = relax.Var("ids", relax.TensorType((rows,), "int64"))
    matrices = relax.const(rng.standard_normal((experts, DEPTH, COLUMNS)).astype("float32"))
    with bb.function("main", [x, ids]):
        with bb.dataflow():
            out = bb.emit_output(build(bb.emit, x, matrices, ids))
        bb.emit_func_output(out)
    return bb.get()
