"""The values of a few places of memory after statements in order, in terms of the values before."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from ..lifting.tir.node import NodeDict, items
from ..support.ir.call_ops import op_name
from ..support.tvm_compat import TensorLoad, source_of, sym

INVARIANT, SYNC = "tirx.tvm_thread_invariant", "tirx.tvm_storage_sync"
#: A place: a buffer, by its address, and an index.
Place = tuple[int, int]


@tvm_ffi.register_error
class NotWalk(ValueError):
    """Why a kernel does not walk over tiles of groups."""


class StraightLine:
    """The values of places and of bound variables, which statements in order change."""

    def __init__(self, values: dict[Place, Any] | None = None, analyzer: Any = None) -> None:
        self._analyzer = analyzer or sym.Analyzer()
        self.values: dict[Place, Any] = dict(values or {})
        self.bound: NodeDict[Any] = NodeDict()
        self._own = {buffer for buffer, _ in self.values}

    def run(self, statements: list[Any]) -> None:
        """Execute bindings, and stores at constant indices."""
        for stmt in statements:
            if isinstance(stmt, tirx.Bind):
                self.bound[stmt.var] = self._analyzer.simplify(self.of(stmt.value))
            elif isinstance(stmt, tirx.BufferStore) and str(stmt.buffer.scope()) == "local":
                value = self._analyzer.simplify(self.of(stmt.value))
                self.values[place(stmt.buffer, items(stmt.indices))] = value
                self._own.add(stmt.buffer.__chandle__())
            else:
                raise NotWalk(f"a statement {type(stmt).__name__} where the walk has numbers")

    def of(self, node: Any) -> Any:
        """Return an expression or a statement over the values before the statements."""

        def load(node: Any) -> Any:
            buffer = source_of(node)
            if buffer.__chandle__() not in self._own:
                return node
            value = self.values.get(place(buffer, items(node.indices)))
            if value is None:
                raise NotWalk(f"an element of {buffer.name} is loaded before it is stored")
            return value

        def var(node: Any) -> Any:
            value = self.bound.get(node)
            return node if value is None else value

        return tvm_ffi.structural_map(node, [(TensorLoad, load), (ir.Var, var)])


def place(buffer: Any, indices: list[Any]) -> Place:
    """Return the place of an element at a constant index."""
    if len(indices) != 1 or not isinstance(indices[0], tirx.IntImm):
        raise NotWalk(f"an index of {buffer.name} is not a number")
    return buffer.__chandle__(), int(indices[0])


def flat(stmt: Any) -> list[Any]:
    """Return the statements of a sequence, without allocations and barriers."""
    if isinstance(stmt, tirx.SeqStmt):
        return [s for part in items(stmt.seq) for s in flat(part)]
    barrier = isinstance(stmt, tirx.Evaluate) and op_name(stmt.value) == SYNC
    return [] if barrier or isinstance(stmt, tirx.AllocBuffer) else [stmt]


def bare(condition: Any) -> Any:
    """Return a condition without the mark that threads agree on it."""
    return condition.args[0] if op_name(condition) == INVARIANT else condition


def conjuncts(condition: Any) -> list[Any]:
    """Return the conditions of a conjunction."""
    condition = bare(condition)
    if isinstance(condition, tirx.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]


def same(a: Any, b: Any) -> bool:
    """Whether integers are equal for all values of variables."""
    return bool(sym.Analyzer().can_prove_equal(a, b))


def mentions(node: Any, var: Any) -> bool:
    """Whether a variable is in a node."""
    found: list[bool] = []
    tvm_ffi.structural_walk(node, (ir.Var, lambda v: found.append(v.same_as(var))))
    return any(found)
