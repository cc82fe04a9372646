"""Find what all threads of a GPU's block agree on.

A value is agreed if it is the same in all threads at the same point of the program: it needs no
number of a thread, and no memory of a thread that may differ. Memory that threads share has one
value for all, or the kernel has a race.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.tirx.buffer import is_buffer_var

from ....analysis.blocks.tir import loads
from ....analysis.lifting.tir.node import NodeDict, items
from ....analysis.support.tvm_compat import TensorLoad

LOCAL = "local"
REDUCTION = "reduce_scope"


@dataclass(frozen=True)
class Reduction:
    """A reduction over threads: ``tvm_thread_allreduce`` under its combiner.

    Attributes:
        combiner: The `CommReducer`.
        values: What each thread adds.
        condition: Whether a thread takes part.
        results: The loads of where each thread stores the result.
        threads: The variables of the threads that are reduced.
    """

    combiner: Any
    values: list[Any]
    condition: Any
    results: list[Any]
    threads: list[Any]

    @staticmethod
    def of(stmt: Any) -> Reduction:
        """Read the statement with the attribute ``reduce_scope``."""
        count, *rest = items(stmt.body.value.args)
        n = int(count)
        return Reduction(stmt.node, rest[:n], rest[n], rest[n + 1 : 2 * n + 1], rest[2 * n + 1 :])

    def over(self, var: Any) -> bool:
        """Whether threads with different values of ``var`` are reduced to one result."""
        return any(var.same_as(t) for t in self.threads)


class AgreedValues:
    """What differs among threads: variables, and buffers that each thread has of its own."""

    def __init__(self, body: Any, threads: Sequence[Any]) -> None:
        self._threads = threads
        self._varying: NodeDict[bool] = NodeDict()
        for var in threads:
            self._varying[var] = True
        self._grown, self._divergent = True, False
        rules = [(tirx.Bind, self._bind), ((tirx.For, tirx.While), self._loop),
                 (tirx.IfThenElse, self._branch), (tirx.BufferStore, self._store),
                 (tirx.AttrStmt, self._attribute),
                 (ir.Expr, lambda node, visitor: None)]  # fmt: skip
        while self._grown:
            self._grown = False
            tvm_ffi.structural_visit(body, rules)

    def varies(self, node: Any) -> bool:
        """Whether a variable or buffer, or anything in a statement or expression, may differ."""
        found: list[bool] = []

        def check(node: Any) -> None:
            found.append(node in self._varying)

        tvm_ffi.structural_walk(node, [(TensorLoad, lambda n: check(n.source)), (ir.Var, check),
                                       (tirx.BufferStore, lambda n: check(n.buffer))])  # fmt: skip
        return any(found)

    def _vary(self, node: Any) -> None:
        self._grown = self._grown or node not in self._varying
        self._varying[node] = True

    def _bind(self, node: Any, visitor: Any) -> None:
        if self._divergent or self.varies(node.value):
            self._vary(node.var)

    def _loop(self, node: Any, visitor: Any) -> None:
        bounds = (node.min, node.extent) if isinstance(node, tirx.For) else (node.condition,)
        varying = any(map(self.varies, bounds)) or (self._divergent and any(map(loads, bounds)))
        if varying and isinstance(node, tirx.For):
            self._vary(node.loop_var)
        self._within(varying, lambda: visitor.visit(node.body))

    def _branch(self, node: Any, visitor: Any) -> None:
        parts = [p for p in (node.then_case, node.else_case) if p is not None]
        self._within(self.varies(node.condition), lambda: [visitor.visit(p) for p in parts])

    def _within(self, varying: bool, visit: Any) -> None:
        outer, self._divergent = self._divergent, self._divergent or varying
        visit()
        self._divergent = outer

    def _store(self, node: Any, visitor: Any) -> None:
        if self._divergent or any(map(self.varies, (node.value, *node.indices))):
            self._vary_own(node.buffer)

    def _attribute(self, node: Any, visitor: Any) -> None:
        if str(node.attr_key) != REDUCTION:
            visitor.visit(node.body)
            return
        reduction = Reduction.of(node)
        whole = all(map(reduction.over, self._threads))
        for result in reduction.results:
            if self._divergent or not whole or any(map(self.varies, result.indices)):
                self._vary_own(result.source)

    def _vary_own(self, buffer: Any) -> None:
        if is_buffer_var(buffer) and str(buffer.scope()) == LOCAL:
            self._vary(buffer)
