"""Cast in each kernel that reads the result, from what has fewer bytes.

Before: a = R.call_tir(cls.cast, x);  y = R.call_tir(cls.norm, a);  z = R.call_tir(cls.add, (a, r))
After:  a0 = R.call_tir(cls.cast, x); y = R.call_tir(cls.norm, a0)
        a1 = R.call_tir(cls.cast, x); z = R.call_tir(cls.add, (a1, r))

TVM fuses an operator into its reader if it has one, and stores its result otherwise: halves that
two kernels read as float32 would be stored once more, in twice the memory.
"""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx

from .....analysis.blocks.tir import loads
from .....analysis.lifting.tir.node import NodeDict, items
from .....analysis.support.ir.rewrite_functions import with_attrs
from .....layout.graph.side_effects import SideEffects
from ....prepare.mutation.mutate import may_reorder
from ..schedules.program.gpu_program import (
    NoGpuSchedule,
    has_symbols,
    itemsize,
    read_program,
    value_parts,
)
from .fuse_rows import REDUCTION, callee, is_elementwise, row_kind

#: The largest of TVM's pattern kinds whose kernels TVM fuses with what they read.
FUSABLE = 3


def casts_by_reader(mod: Any) -> Any:
    """Return the module with casts that widen repeated for each PrimFunc that reads them."""
    mod = relax.transform.AnnotateTIROpPattern()(mod)
    writer, effects = _Repeats(mod), SideEffects(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function) and may_reorder(effects, func):
            writer.builder_.update_func(gvar, writer.function(func))
    return relax.transform.DeadCodeElimination()(with_attrs(writer.builder_.get(), mod))


@relax.expr_functor.mutator
class _Repeats(relax.PyExprMutator):  # type: ignore[misc]
    """Repeats casts in front of the calls that read them."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        prim_funcs = [(g, f) for g, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
        self.casts = {g for g, f in prim_funcs if _widens(f)}
        self.readers = {g for g, f in prim_funcs if _is_fused(f)}
        self.calls: NodeDict[Any] = NodeDict()
        self.counts: NodeDict[int] = NodeDict()

    def function(self, func: Any) -> Any:
        self.calls, self.counts = NodeDict(), NodeDict()
        for block in func.body.blocks:
            for binding in block.bindings:
                value = getattr(binding, "value", None)
                if callee(value) in self.casts:
                    self.calls[binding.var] = value
                for var in relax.analysis.free_vars(value) if value is not None else ():
                    self.counts[var] = (self.counts.get(var) or 0) + 1
        return self.visit_expr(func)

    def visit_dataflow_block_(self, block: Any) -> Any:
        block = super().visit_dataflow_block_(block)
        before, self.calls = self.calls, NodeDict()
        for var, call in before.items():  # what only this block has is not read behind it
            if not any(isinstance(v, relax.DataflowVar) for v in relax.analysis.free_vars(call)):
                self.calls[var] = call
        return block

    def visit_call_(self, call: Any) -> Any:
        if callee(call) not in self.readers:
            return super().visit_call_(call)
        repeated: NodeDict[Any] = NodeDict()
        for var in items(call.args[1].fields):
            if var in self.calls and (self.counts.get(var) or 0) > 1 and var not in repeated:
                repeated[var] = self.builder_.emit(super().visit_call_(self.calls[var]))
        fields = [repeated[f] if f in repeated else self.visit_expr(f)
                  for f in items(call.args[1].fields)]  # fmt: skip
        args = [call.args[0], relax.Tuple(fields), *items(call.args)[2:]]
        return relax.Call(call.op, args, call.attrs, call.ty_args)


def _is_fused(func: Any) -> bool:
    """Whether a kernel casts what it reads: one of TVM's fusion, or of `fuse_rows`."""
    pattern = (func.attrs or {}).get("op_pattern")
    fusable = pattern is not None and int(pattern) <= FUSABLE
    return fusable or row_kind(func) == REDUCTION


def _widens(func: Any) -> bool:
    """Whether a PrimFunc casts each element of its operand to a type of as many bytes, or more."""
    if len(func.params) != 2:
        return False
    try:
        program = read_program(func, False, symbolic=has_symbols(func))
        if not is_elementwise(program):
            return False
    except NoGpuSchedule:
        return False
    (update,) = program.steps[0].updates
    parts = value_parts(update, program.definitions)
    read = [e for part in parts for e in loads(part)]
    if len(parts) != 1 or len(read) != 1 or not isinstance(parts[0], tirx.Cast):
        return False
    return parts[0].value.same_as(read[0]) and itemsize(read[0].source) <= itemsize(update.buffer)
