"""PrimFuncs that copy their first operand, and assert something about their operands beside that.

for i in range(n):
    assert low <= index[i] and index[i] <= high, "take at an element that is outside …"
for i in range(n):
    out[i] = index[i]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.tirx.buffer import is_buffer_var

from ...analysis.lifting.tir.annotations import NEUTRAL
from ...analysis.lifting.tir.node import items
from ...analysis.support.tvm_compat import SBlockRealize, TensorLoad, source_of

#: A statement and the loops around it.
_Leaf = tuple[Any, tuple[Any, ...]]


@dataclass(frozen=True)
class AssertedCopy:
    """What a PrimFunc that copies its first operand asserts.

    Attributes:
        within: The least and the greatest element of a copy that passes; None if unknown.
    """

    within: tuple[float, float] | None = None


def asserted_copy(func: Any) -> AssertedCopy | None:
    """Return what a PrimFunc asserts that does nothing else than to copy its first operand."""
    params = items(func.params)
    if len(params) < 2 or not all(map(is_buffer_var, params)):
        return None
    leaves = list(_leaves(func.body, ()))
    stores = [leaf for leaf in leaves if isinstance(leaf[0], tirx.BufferStore)]
    asserts = [leaf for leaf in leaves if isinstance(leaf[0], tirx.AssertStmt)]
    if len(stores) != 1 or not asserts or len(leaves) > len(asserts) + 1:
        return None
    if any(_calls(stmt.condition) for stmt, _ in asserts):
        return None
    (store, loops), source, out = stores[0], params[0], params[-1]
    same = tvm_ffi.structural_equal(source.shape, out.shape) and source.dtype == out.dtype
    if not same or not store.buffer.same_as(out) or not _is_whole(store.indices, loops, out.shape):
        return None
    if not _is_element(store.value, source, loops):
        return None
    return AssertedCopy(_within(asserts, source))


def _leaves(stmt: Any, loops: tuple[Any, ...]) -> Iterator[_Leaf]:
    """Statements with the loops around them; what may run others conditionally is one statement."""
    if isinstance(stmt, tirx.Evaluate) and isinstance(stmt.value, tirx.IntImm):
        return
    if isinstance(stmt, tirx.SeqStmt):
        for part in items(stmt.seq):
            yield from _leaves(part, loops)
    elif isinstance(stmt, tirx.For) and _is_plain_loop(stmt):
        yield from _leaves(stmt.body, (*loops, stmt))
    elif isinstance(stmt, tirx.AttrStmt) and str(stmt.attr_key) in NEUTRAL["AttrStmt"]:
        yield from _leaves(stmt.body, loops)
    elif isinstance(stmt, SBlockRealize) and _is_plain(stmt):
        yield from _leaves(stmt.block.body, loops)
    else:
        yield stmt, loops


def _is_plain_loop(loop: Any) -> bool:
    """Whether a loop executes its body once for each value of its variable."""
    return loop.thread_binding is None and loop.step is None and _is_neutral(loop)


def _is_plain(realize: Any) -> bool:
    """Whether a block is its body."""
    block = realize.block
    variables = (*items(block.iter_vars), *items(block.alloc_buffers), *items(block.match_buffers))
    plain = not variables and block.init is None and _is(realize.predicate, 1)
    return plain and _is_neutral(block)


def _is_neutral(stmt: Any) -> bool:
    """Whether no annotation may change a statement: TVM drops those to be skipped."""
    return set(map(str, stmt.annotations or ())) <= NEUTRAL[type(stmt).__name__]


def _is(expr: Any, number: int) -> bool:
    return isinstance(expr, tirx.IntImm) and int(expr.value) == number


def _calls(expr: Any) -> bool:
    """Whether an expression calls something, which might have an effect."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expr, (ir.Call, found.append))
    return bool(found)


def _is_whole(indices: Any, loops: Sequence[Any], shape: Any) -> bool:
    """Whether an access in loops is one at each element of a shape, and nothing else loops."""
    of_axis = {loop.loop_var: loop for loop in loops}
    at, extents = items(indices), items(shape)
    if not len(at) == len(extents) == len(loops) == len(of_axis):
        return False
    if {i for i in at if isinstance(i, tirx.Var)} != set(of_axis):
        return False
    return all(
        _is(of_axis[i].min, 0) and tvm_ffi.structural_equal(of_axis[i].extent, extent)
        for i, extent in zip(at, extents, strict=True)
    )


def _is_element(expr: Any, source: Any, loops: Sequence[Any]) -> bool:
    """Whether an expression is each element of a tensor, in the order of the loops."""
    if not isinstance(expr, TensorLoad) or not source_of(expr).same_as(source):
        return False
    return _is_whole(expr.indices, loops, source.shape) and all(
        i.same_as(loop.loop_var) for i, loop in zip(items(expr.indices), loops, strict=True)
    )


def _within(asserts: Sequence[_Leaf], source: Any) -> tuple[float, float] | None:
    """The range that all elements of a tensor are asserted to be in; None if an end is unknown."""
    lows: list[float] = []
    highs: list[float] = []
    for stmt, loops in asserts:
        for part in _conjuncts(stmt.condition):
            ends = {tirx.GE: lows, tirx.LE: highs}.get(type(part))
            if ends is None or not isinstance(part.b, tirx.IntImm):
                continue
            element = part.a.value if _widens(part.a) else part.a
            if _is_element(element, source, loops):
                ends.append(float(part.b.value))
    if not lows or not highs or max(lows) > min(highs):
        return None
    return max(lows), min(highs)


def _widens(expr: Any) -> bool:
    """Whether an expression is a cast that keeps all numbers."""
    return (isinstance(expr, tirx.Cast) and str(expr.ty.dtype) == "int64"
            and str(expr.value.ty.dtype) in _INTEGERS)  # fmt: skip


_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


def _conjuncts(expr: Any) -> list[Any]:
    return [*_conjuncts(expr.a), *_conjuncts(expr.b)] if isinstance(expr, tirx.And) else [expr]
