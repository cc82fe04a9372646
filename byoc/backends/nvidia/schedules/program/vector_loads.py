"""Expressions over the lanes of a vector, with contiguous loads as vectors in registers.

for v: y[8 * j + v] = x[8 * j + v] * s[j]
Before: value(v) = x[8 * j + v] * s[j]
After:  for v in T.vectorized(8): x_reg[v] = x[8 * j + v];  value(v) = x_reg[v] * s[j]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ......analysis.blocks.strides import StridedAccess, strided_access
from ......analysis.blocks.tir import is_guard, loads, mentions, static, values
from ......analysis.lifting.tir.node import items, substitute
from .gpu_program import itemsize
from .thread_loops import load, local, number, store, unrolled, vectorized, when

#: Bytes of the widest load of a thread.
WIDEST = 16
#: Types of which CUDA code has vectors, and TVM emits them.
VECTORS = ("float16", "bfloat16", "float32", "float64", "int32", "int64", "int8", "uint8")


@dataclass(frozen=True)
class VectorLoad:
    """``register[offset, v] = load(v)`` for all lanes ``v``, where ``guard`` holds.

    Elsewhere it is ``otherwise``, if that is given.
    """

    register: Any
    place: tuple[Any, ...]
    access: Any
    guard: Any | None
    vector: bool = True
    otherwise: Any | None = None


class VectorLanes:
    """Rewrites expressions over one lane.

    Args:
        lane: The variable of the lane, in [0, width).
        width: The number of lanes.
        analyzer: It knows the ranges of all variables.
        cached: Returns the register that holds a load already, with its place, or None.
    """

    def __init__(
        self, lane: Any, width: int, analyzer: Any,
        cached: Callable[[Any], Any | None] = lambda expr: None,
    ) -> None:  # fmt: skip
        self.lane, self.width, self.analyzer, self.cached = lane, width, analyzer, cached
        self.loads: list[VectorLoad] = []
        self.copies: list[VectorLoad] = []  # into registers of the caller
        self.guard: Any | None = None
        self.scalar = 0  # depth of conditions on which lanes differ

    def __call__(self, expr: Any) -> Any:
        """Return the expression with contiguous loads replaced by registers."""
        rules = [(tvm.ir.TensorLoad, self.load), (tvm.ir.Call, self.call),
                 (tirx.Select, self.select)]  # fmt: skip
        return tvm_ffi.structural_mutate(expr, rules)

    def statements(self) -> list[Any]:
        """Return the statements that load the registers."""
        return [self.copy(v) for v in (*self.copies, *self.loads)]

    @property
    def registers(self) -> list[Any]:
        return [v.register for v in self.loads]

    def copy(self, vector: VectorLoad) -> Any:
        def one(v: Any) -> Any:
            value = substitute(vector.access, values((self.lane, v)))
            return store(vector.register, value, *vector.place, v)

        dtype = str(vector.register.ty.dtype)
        copy = self.lanes(dtype, one) if vector.vector else unrolled("v", self.width, one)
        if vector.otherwise is None:
            return when(vector.guard, copy)
        other = unrolled("v", self.width, lambda v: store(
            vector.register, vector.otherwise, *vector.place, v))  # fmt: skip
        return tirx.IfThenElse(vector.guard, copy, other)

    def lanes(self, dtype: str, body: Callable[[Any], Any]) -> Any:
        """Return the stores of all lanes, as vectors of at most 16 bytes if TVM can make them."""
        size = max(1, int(tvm.DataType(dtype).itemsize))
        together = dtype in VECTORS and self.consecutive(body(self.lane))
        each = widest(size, self.width) if together else 1
        return unrolled("h", self.width // each, lambda h: vectorized(
            "v", each, lambda v: body(_plus(h, each, v))))  # fmt: skip

    def consecutive(self, stmt: Any) -> bool:
        """Return whether the flat indices of stores are linear in the lane, as simplified.

        TVM computes with vectors of indices otherwise, and CUDA has none of eight integers.
        """
        stores: list[Any] = []
        tvm_ffi.structural_walk(stmt, (tirx.BufferStore, stores.append))
        accesses = (strided_access(s.buffer, items(s.indices), [self.lane], self.analyzer)
                    for s in stores)  # fmt: skip
        return all(access.step(self.lane) == 1 for access in accesses)

    # ------------------------------------------------------------------ rewriting

    def load(self, expr: Any, mutator: Any) -> Any:
        known = self.cached(expr)
        if known is not None:
            return known
        for vector in self.loads:
            if vector.otherwise is None and _same_load(vector, expr, self.guard):
                return load(vector.register, *vector.place, self.lane)
        if self.scalar or not self.contiguous(expr):
            return mutator.default_mutate(expr)
        return load(self.added(expr, self.guard, None), self.lane)

    def added(self, expr: Any, guard: Any | None, otherwise: Any | None) -> Any:
        """The register of a new vector."""
        register = local(f"{expr.source.name}_reg", [self.width], str(expr.source.ty.dtype))
        self.loads.append(VectorLoad(register, (), expr, guard, otherwise=otherwise))
        return register

    def padded(self, condition: Any, expr: Any, number: Any) -> Any | None:
        """A load that is a number where a condition of all lanes does not hold; None for others.

        TVM evaluates the condition of ``if_then_else`` in each lane.
        """
        literal = isinstance(number, (tirx.FloatImm, tirx.IntImm))
        if not literal or not isinstance(expr, tvm.ir.TensorLoad) or self.guard is not None:
            return None
        uniform = None if self.scalar else self.uniform(condition)
        if uniform is None or loads(uniform) or static(uniform) is not None:
            return None
        if self.cached(expr) is not None or not self.contiguous(expr):
            return None
        for vector in self.loads:
            if _same(vector.otherwise, number) and _same_load(vector, expr, uniform):
                return load(vector.register, self.lane)
        return load(self.added(expr, uniform, number), self.lane)

    def contiguous(self, expr: Any) -> bool:
        if self.width == 1 or str(expr.source.ty.dtype) not in VECTORS:
            return False
        return contiguous(expr.source, items(expr.indices), self.lane, self.width, self.analyzer)

    def call(self, expr: Any, mutator: Any) -> Any:
        if not is_guard(expr):
            return mutator.default_mutate(expr)
        condition, yes, no = items(expr.args)
        if (value := self.padded(condition, yes, no)) is not None:
            return value
        return tirx.if_then_else(*self.branches(condition, yes, no, mutator))

    def select(self, expr: Any, mutator: Any) -> Any:
        return tirx.Select(*self.branches(expr.condition, expr.true_value, expr.false_value,
                                          mutator))  # fmt: skip

    def branches(self, condition: Any, yes: Any, no: Any, mutator: Any) -> tuple[Any, Any, Any]:
        uniform = self.uniform(condition)
        if uniform is None:
            if is_simple(condition):  # its loads are always executed, and serve the branches
                condition = mutator.mutate(condition)
            else:
                condition = self.under(None, condition, mutator)
            return condition, self.under(None, yes, mutator), self.under(None, no, mutator)
        if loads(uniform):  # of data: both branches are guarded by scalar code
            return tuple(self.under(None, e, mutator) for e in (uniform, yes, no))
        negated = self.analyzer.simplify(tirx.Not(uniform))
        return uniform, self.under(uniform, yes, mutator), self.under(negated, no, mutator)

    def under(self, condition: Any | None, expr: Any, mutator: Any) -> Any:
        before, depth = self.guard, self.scalar
        if condition is None:
            self.scalar += 1
        else:
            self.guard = condition if before is None else tirx.And(before, condition)
        try:
            return mutator.mutate(expr)
        finally:
            self.guard, self.scalar = before, depth

    def uniform(self, condition: Any) -> Any | None:
        """Return a condition without the lane, if all lanes agree on it."""
        if self.lane not in mentions(condition):
            return condition
        first = substitute(condition, values((self.lane, number(0))))
        if loads(condition):
            return None
        same = self.analyzer.can_prove(tirx.EQ(condition, first))
        return self.analyzer.simplify(first) if same or self.equal(condition, first) else None

    def equal(self, condition: Any, first: Any) -> bool:
        """Return whether a bound that is a multiple of the width decides for all lanes."""
        both = tirx.And(tirx.Or(tirx.Not(condition), first), tirx.Or(tirx.Not(first), condition))
        return bool(self.analyzer.can_prove(both))


def is_simple(condition: Any) -> bool:
    """Return whether all loads of a condition are executed: no part of it guards another."""
    guards: list[Any] = []
    kinds = (tirx.And, tirx.Or, tirx.Select, tvm.ir.Call)
    tvm_ffi.structural_walk(condition, [(kind, guards.append) for kind in kinds])
    return not any(not isinstance(g, tvm.ir.Call) or is_guard(g) for g in guards)


def contiguous(buffer: Any, indices: Any, lane: Any, width: int, analyzer: Any) -> bool:
    """Return whether lanes access consecutive elements, the first at a multiple of the width."""
    access = strided_access(buffer, indices, [lane], analyzer)
    if access.step(lane) != 1:
        return False
    return aligned(access, lane, width, analyzer)


def aligned(access: StridedAccess, lane: Any, width: int, analyzer: Any) -> bool:
    """Whether the address of the first lane is a multiple of the width."""
    first = analyzer.simplify(substitute(access.flat, values((lane, number(0)))))
    if (value := static(first)) is not None:
        return value % width == 0
    modular_set = analyzer.modular_set(first)
    return int(modular_set.coeff) % width == 0 and int(modular_set.base) % width == 0


def widest(size: int, extent: int) -> int:
    """Return the lanes of a vector along an axis: a power of two that divides its extent."""
    lanes = max(1, WIDEST // size)
    while extent % lanes:
        lanes //= 2
    return lanes


def narrowest_item(buffers: Any) -> int:
    """Return the bytes of the smallest elements that can be loaded as vectors."""
    return min((itemsize(b) for b in buffers if str(b.ty.dtype) in VECTORS), default=4)


def _plus(h: Any, each: int, v: Any) -> Any:
    if static(h) is not None:
        return v if static(h) == 0 else number(static(h) * each) + v  # type: ignore[operator]
    return h * number(each) + v


def _same_load(vector: VectorLoad, expr: Any, guard: Any | None) -> bool:
    return bool(tvm_ffi.structural_equal(vector.access, expr)) and _same(vector.guard, guard)


def _same(a: Any, b: Any) -> bool:
    return (a is None and b is None) or (
        a is not None and b is not None and bool(tvm_ffi.structural_equal(a, b))
    )
