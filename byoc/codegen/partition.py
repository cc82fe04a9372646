"""A module in which matched regions are calls of a backend's functions.

Before: lv = R.call_tir(cls.conv2d, (x, w), …); lv1 = R.call_tir(cls.relu, (lv,), …)
After:  lv1 = R.call_dps_packed("onednn_0", (x,), out_ty=…)
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from ...analysis.support.origin import span_of, with_span
from ...layout.graph.relax_graph import Graph, Op, Value
from ...layout.graph.unused import without_unused
from ..backend.backend import Code
from ..backend.region import Placed
from ..patterns.dependences import Dependences, branches_of, item_of, together

#: Bytes from which a constant is not copied.
LARGE = 1 << 12


@dataclass(frozen=True)
class PartitionedFunction:
    """A function whose ``regions`` become calls; ``flows`` are its dataflow blocks."""

    graph: Graph
    flows: tuple[Dependences, ...]
    regions: tuple[Placed, ...]


def partitioned(
    mod: Any, functions: Mapping[Any, PartitionedFunction], codes: Sequence[Code]
) -> Any:
    """The module with regions replaced by calls, and their code; the input is not changed."""
    writer = _RegionPartitioner(mod)
    for gvar, to in functions.items():
        writer.function(gvar, _gathered(mod[gvar], to), to)
    return attached(without_unused(writer.builder_.get(), mod), codes)


def attached(mod: Any, codes: Sequence[Code]) -> Any:
    """The module with code attached; the input is not changed."""
    attrs = mod.attrs or {}
    mods = list(attrs.get("external_mods", []))
    constants = dict(attrs.get("const_name_to_constant", {}))
    for code in codes:
        names = []
        for name, array in code.constants:
            names.append(_free(name, code, constants))
            constants[names[-1]] = _tensor(array)
        mods.append(_module(code, names))
    return mod.with_attr("external_mods", mods).with_attr("const_name_to_constant", constants)


def _tensor(array: Any) -> Any:
    """A tensor of an array, which nobody changes: without a copy if it is large and allows that."""
    if isinstance(array, np.ndarray) and array.nbytes >= LARGE and array.flags.c_contiguous:
        with contextlib.suppress(BufferError, TypeError, ValueError, RuntimeError):
            return tvm_ffi.from_dlpack(array)  # numpy refuses what is read-only
    return tvm.runtime.tensor(array)


def _free(name: str, code: Code, names: Collection[str]) -> str:
    """An unused name for a constant: the code of two backends may use the same name."""
    while name in names:
        name = f"{code.symbols[0]}_{name}"
    return name


def _module(code: Code, names: Sequence[str]) -> Any:
    make = tvm_ffi.get_global_func("runtime.CSourceModuleCreate")
    return make(code.source, "cc", list(code.symbols), list(names))


def _gathered(func: Any, to: PartitionedFunction) -> Any:
    """The function with the ops of each region next to each other.

    It is unchanged if each region's results are those of its last op. Otherwise, a reader of an
    earlier result might stand between the ops of the region.
    """
    if all(p.results == p.ops[-1].outputs for p in to.regions):
        return func
    groups = [[f.set(p.ops) for p in to.regions if all(op in f.places for op in p.ops)]
              for f in to.flows]  # fmt: skip
    ordered = iter([
        relax.DataflowBlock(list(dependences.lines(together(dependences, sets))))
        for dependences, sets in zip(to.flows, groups, strict=True)
    ])  # fmt: skip
    body = _with_blocks(func.body, ordered)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs, func.span)


def _type(value: Value) -> Any:
    """The type of a result of an op."""
    assert value.producer is not None
    ty = value.producer.call.ty
    many = len(value.producer.outputs) > 1
    return ty.fields[value.producer.outputs.index(value)] if many else ty


def _with_blocks(body: Any, ordered: Iterator[Any]) -> Any:
    """A sequence with other dataflow blocks, also inside branches."""
    blocks = []
    for block in body.blocks:
        if isinstance(block, relax.DataflowBlock):
            blocks.append(next(ordered))
        else:
            bindings = [_with_branches(b, ordered) for b in block.bindings]
            blocks.append(relax.BindingBlock(bindings))
    return relax.SeqExpr(blocks, body.body)


def _with_branches(binding: Any, ordered: Iterator[Any]) -> Any:
    branches = [_with_blocks(branch, ordered) for branch in branches_of(binding)]
    if not branches:
        return binding
    return relax.VarBinding(binding.var, relax.If(binding.value.cond, *branches), binding.span)


@relax.expr_functor.mutator
class _RegionPartitioner(relax.PyExprMutator):  # type: ignore[misc]
    def function(self, gvar: Any, func: Any, to: PartitionedFunction) -> None:
        self.graph, self.regions = to.graph, {p.ops[-1]: p for p in to.regions}
        self.merged = {op for p in to.regions for op in p.ops[:-1]}
        self.vars: dict[Op, Any] = {}
        #: Of regions: the expressions of results, and bindings that take one before the call.
        self.results: dict[Value, Any] = {}
        self.waiting: list[Any] = []
        self.builder_.update_func(gvar, self.visit_expr(func))

    def visit_var_binding_(self, binding: Any) -> None:
        op = self.graph.by_var.get(binding.var)
        if op is not None and len(op.outputs) > 1:
            self.vars[op] = binding.var
        if op in self.merged or self.taken(binding):
            return
        if op is None or op not in self.regions:
            super().visit_var_binding_(binding)
            if op is not None:
                self.vars[op] = binding.var
            return
        self.called(self.regions[op], span_of(binding))

    def called(self, placed: Placed, span: Any) -> None:
        arguments = relax.Tuple([self.value(v) for v in placed.inputs])
        types = [_type(v) for v in placed.results]
        out = types if len(types) > 1 else types[0]
        call = with_span(relax.call_dps_packed(placed.region.symbol, arguments, out_ty=out), span)
        if len(types) == 1:
            self.store(placed.results[0], call)
        else:
            results = self.builder_.emit(call)
            for k, value in enumerate(placed.results):
                self.store(value, relax.TupleGetItem(results, k))
        self.finish(placed)

    def store(self, value: Value, result: Any) -> None:
        """Emit a result of a region."""
        if value.expr is None:
            self.results[value] = self.builder_.emit(result)
        else:
            self.bind(value.expr, result)

    def taken(self, binding: Any) -> bool:
        """Take a binding of one of several results of an op that is in a region."""
        whole = item_of(binding)
        op = None if whole is None else self.graph.by_var.get(whole)
        if op is None or (op not in self.merged and op not in self.regions):
            return False
        self.waiting.append(binding)
        if op.outputs[binding.value.index] in self.results:
            self.items()
        return True

    def items(self) -> None:
        """Bind what waits for results that are there now; the rest is used inside of regions."""
        waiting, self.waiting = self.waiting, []
        for binding in waiting:
            op = self.graph.by_var[binding.value.tuple_value]
            value = op.outputs[binding.value.index]
            if value in self.results:
                self.bind(binding.var, self.results[value])
            else:
                self.waiting.append(binding)

    def finish(self, placed: Placed) -> None:
        """Bind single results, and tuples of which all results are used."""
        self.items()
        for op in placed.ops:
            if len(op.outputs) > 1 and all(v in self.results for v in op.outputs):
                self.bind(self.vars[op], relax.Tuple([self.results[v] for v in op.outputs]))

    def bind(self, var: Any, value: Any) -> None:
        """Bind a value in place of a variable of the program."""
        local = isinstance(var, relax.DataflowVar) or not self.builder_.current_block_is_dataflow()
        emit = self.builder_.emit if local else self.builder_.emit_output
        self.set_var_remap(var, emit(value, var.name))

    def value(self, value: Value) -> Any:
        """The expression of a value, which may be one of several results of a call."""
        if value in self.results:
            return self.results[value]
        if value.expr is not None:
            return self.visit_expr(value.expr)
        assert value.producer is not None
        results = self.visit_expr(self.vars[value.producer])
        return self.builder_.emit(relax.TupleGetItem(results, value.producer.outputs.index(value)))
