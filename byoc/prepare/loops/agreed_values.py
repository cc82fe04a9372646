"""Find what all threads of a GPU's block agree on.

A value is uniform if it is the same in all threads at the same point of the program: it needs no
number of a thread, and no memory of a thread that may differ. Memory that threads share has one
value for all, or the kernel has a race.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.tirx.buffer import is_buffer_var

from ....analysis.lifting.tir.node import NodeDict
from ....analysis.support.tvm_compat import TensorLoad

LOCAL = "local"


class AgreedValues:
    """What differs among threads: variables, and buffers that each thread has of its own."""

    def __init__(self, body: Any, threads: list[Any]) -> None:
        self._varying: NodeDict[bool] = NodeDict()
        for var in threads:
            self._varying[var] = True
        self._grown, self._divergent = True, False
        rules = [(tirx.Bind, self._bind), ((tirx.For, tirx.While), self._loop),
                 (tirx.IfThenElse, self._branch), (tirx.BufferStore, self._store),
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
        if self.varies(node.value):
            self._vary(node.var)

    def _loop(self, node: Any, visitor: Any) -> None:
        is_for = isinstance(node, tirx.For)
        varying = any(map(self.varies, (node.min, node.extent) if is_for else (node.condition,)))
        if varying and is_for:
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
        own = is_buffer_var(node.buffer) and str(node.buffer.scope()) == LOCAL
        if own and (self._divergent or any(map(self.varies, (node.value, *node.indices)))):
            self._vary(node.buffer)
