"""Merge the copies of a dequantize that no pattern takes."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import relax

from ...analysis.lifting.tir.node import NodeDict, items
from ...layout.graph.relax_graph import Op
from ..matching.lowered import Lowered
from .dequantize_uses import is_named


@relax.expr_functor.mutator
class MergeDequantize(relax.PyExprMutator):  # type: ignore[misc]
    """Merge the copies of a dequantize that no pattern takes."""

    def __init__(self, mod: Any, graphs: Lowered, same: Lowered, matched: set[Op]) -> None:
        super().__init__(mod)
        self.free: NodeDict[bool] = NodeDict()
        self.seen: NodeDict[list[tuple[Any, Any]]] = NodeDict()
        for gvar, graph in graphs.functions.items():
            pairs = dict(zip(graph.ops, same.functions[gvar].ops, strict=True))
            for op, twin in pairs.items():
                if (
                    is_named(same, twin)
                    and twin not in matched
                    and op.outputs
                    and op.outputs[0].expr is not None
                ):
                    self.free[op.outputs[0].expr] = True

    def visit_dataflow_block_(self, block: Any) -> Any:
        self.seen = NodeDict()
        return super().visit_dataflow_block_(block)

    def visit_var_binding_(self, binding: Any) -> None:
        if binding.var not in self.free or not isinstance(binding.var, relax.DataflowVar):
            super().visit_var_binding_(binding)
            return
        fields = items(binding.value.args[1].fields)
        first = next((e for e in fields if isinstance(e, relax.Var)), None)
        before = self.seen[first] if first in self.seen else []
        for call, var in before:
            if tvm_ffi.structural_equal(call, binding.value, map_free_vars=False):
                self.set_var_remap(binding.var, self.visit_expr(var))
                return
        super().visit_var_binding_(binding)
        if first is not None:
            self.seen[first] = [*before, (binding.value, binding.var)]
