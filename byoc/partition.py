"""A module in which matched regions are calls of a backend's functions.

Before: lv = R.call_tir(cls.conv2d, (x, w), …); lv1 = R.call_tir(cls.relu, (lv,), …)
After:  lv1 = R.call_dps_packed("onednn_0", (x,), out_ty=…)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ..layout.graph import Graph, Op, Value
from ..layout.unused import without_unused
from .backend import Code

Regions = Mapping[Op, tuple[str, tuple[Op, ...], tuple[Value, ...]]]
"""By last op of a region: its symbol, its ops, its inputs."""


def partitioned(
    mod: Any, graphs: Mapping[Any, tuple[Graph, Regions]], codes: Sequence[Code]
) -> Any:
    """The module with the regions called and the code attached; the input is not changed."""
    writer = _Writer(mod)
    for gvar, (graph, regions) in graphs.items():
        writer.function(gvar, mod[gvar], graph, regions)
    out = without_unused(writer.builder_.get(), mod)
    constants = {name: tvm.runtime.tensor(a) for c in codes for name, a in c.constants}
    attrs = out.attrs or {}
    mods = list(attrs.get("external_mods", [])) + [_module(c) for c in codes]
    both = {**dict(attrs.get("const_name_to_constant", {})), **constants}
    return out.with_attr("external_mods", mods).with_attr("const_name_to_constant", both)


def _module(code: Code) -> Any:
    make = tvm_ffi.get_global_func("runtime.CSourceModuleCreate")
    return make(code.source, "cc", list(code.symbols), [name for name, _ in code.constants])


@relax.expr_functor.mutator
class _Writer(relax.PyExprMutator):  # type: ignore[misc]
    def function(self, gvar: Any, func: Any, graph: Graph, regions: Regions) -> None:
        self.graph, self.regions = graph, regions
        self.gone = {op for _, ops, _ in regions.values() for op in ops[:-1]}
        self.vars: dict[Op, Any] = {}
        self.builder_.update_func(gvar, self.visit_expr(func))

    def visit_var_binding_(self, b: Any) -> None:
        op = self.graph.by_var.get(b.var)
        if op in self.gone:
            return
        if op is None or op not in self.regions:
            super().visit_var_binding_(b)
            if op is not None:
                self.vars[op] = b.var
            return
        symbol, _, inputs = self.regions[op]
        arguments = relax.Tuple([self.value(v) for v in inputs])
        call = relax.call_dps_packed(symbol, arguments, out_ty=op.call.ty)
        local = (
            isinstance(b.var, relax.DataflowVar) or not self.builder_.current_block_is_dataflow()
        )
        emit = self.builder_.emit if local else self.builder_.emit_output
        self.set_var_remap(b.var, emit(call, b.var.name))

    def value(self, v: Value) -> Any:
        """The expression of a value, one of several results of a call included."""
        if v.expr is not None:
            return self.visit_expr(v.expr)
        assert v.producer is not None
        results = self.visit_expr(self.vars[v.producer])
        return self.builder_.emit(relax.TupleGetItem(results, v.producer.outputs.index(v)))
