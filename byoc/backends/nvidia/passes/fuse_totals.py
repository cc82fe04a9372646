"""Fuse reductions of rows with what scales the same rows by the totals.

Before: s = R.call_tir(cls.sum_of_squares, (x,));  y = R.call_tir(cls.divide, (s, x))
After:  y = R.call_tir(cls.sum_of_squares_divide, (x,))        a norm written in operators

TVM's FuseOps ends a kernel at a reduction. A kernel of rows has the row in registers when it has
its total. A slice or a transpose that only the two read joins them, if neighbouring threads then
still read and write neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, tirx

from .....analysis.blocks.strides import strided_access
from .....analysis.blocks.tir import loads, mentions, static
from .....analysis.lifting.tir.node import NodeDict, items, substitute
from .....layout.rewrite.rewrite import TVM_RAISES
from ....fusion.fused_group import FusedGroup, fused
from ....prepare.mutation.mutate import mutated
from ..schedules.program.gpu_program import (
    GpuProgram,
    NoGpuSchedule,
    itemsize,
    product,
    read_program,
)
from ..schedules.program.merged_axes import bound
from ..schedules.program.row_space import RowSpace, row_space
from ..schedules.rows.column_kernel import columns_kernel
from ..schedules.rows.row_accesses import parts_of
from ..schedules.rows.row_kernel import rows_kernel
from .fuse_rows import REDUCTION, callee, row_kind

#: Rows that occupy a GPU: with fewer, a kernel for each of the two steps has more threads.
ENOUGH = 128
#: Bytes of a result that may be stored apart: it is in the cache, and a kernel costs more.
SMALL = 1 << 18


def fuse_totals(mod: Any) -> Any:
    """Return the module with such calls fused; the module itself if it has none."""
    totals = NodeDict[None]()
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and row_kind(func) == REDUCTION:
            totals[gvar] = None
    if not totals.items():
        return mod
    writer = _Writer(mod, totals)
    out = mutated(mod, writer)
    return relax.transform.DeadCodeElimination()(out) if writer.count else mod


@relax.expr_functor.mutator
class _Writer(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces what reads totals by calls of fused PrimFuncs."""

    def __init__(self, mod: Any, totals: NodeDict[None]) -> None:
        super().__init__(mod)
        self.mod, self.totals, self.count = mod, totals, 0
        self.calls: NodeDict[Any] = NodeDict()  # by variable of a dataflow block
        self.readers: NodeDict[list[Any]] = NodeDict()  # the variables of bindings that read one
        self.known: dict[tuple[Any, ...], Any | None] = {}
        for _, func in mod.functions_items():
            if isinstance(func, relax.Function):
                relax.analysis.post_order_visit(func, self.note)

    def note(self, expr: Any) -> None:
        if not isinstance(expr, relax.SeqExpr):
            return
        for binding in (b for block in expr.blocks for b in block.bindings):
            value = getattr(binding, "value", None)
            if callee(value) is not None and isinstance(binding.var, relax.DataflowVar):
                self.calls[binding.var] = binding
            for var in relax.analysis.free_vars(value) if value is not None else ():
                self.readers[var] = [*(self.readers.get(var) or []), binding.var]

    def visit_var_binding_(self, binding: Any) -> None:
        new = self.joined(binding) if callee(binding.value) is not None else None
        if new is None:
            super().visit_var_binding_(binding)
            return
        self.count += 1
        super().visit_var_binding_(relax.VarBinding(binding.var, new))

    def joined(self, binding: Any) -> Any | None:
        """The call of a PrimFunc that also computes the totals that a binding reads, or None."""
        if len(items(binding.value.args)) != 2 or callee(binding.value) in self.totals:
            return None
        for arg in items(binding.value.args[1].fields):
            total = self.calls.get(arg)
            if total is None or callee(total.value) not in self.totals:
                continue
            if len(items(total.value.args)) != 2 or not self.only(arg, (binding.var,)):
                continue
            for group in (*self.with_moves(total, binding), (total, binding)):
                gvar = self.function(group)
                if gvar is not None:
                    inputs = relax.Tuple(FusedGroup(group).inputs)
                    return relax.call_tir(gvar, inputs, out_ty=binding.value.ty)
        return None

    def with_moves(self, total: Any, binding: Any) -> list[tuple[Any, ...]]:
        """The groups that begin with a call whose result only the two read."""
        both, out = (total.var, binding.var), []
        for arg in items(total.value.args[1].fields):
            before = self.calls.get(arg)
            if before is not None and len(items(before.value.args)) == 2 and self.only(arg, both):
                out.append((before, total, binding))
        return out

    def only(self, var: Any, readers: Sequence[Any]) -> bool:
        found = self.readers.get(var) or []
        return all(any(f.same_as(r) for r in readers) for f in found)

    def function(self, group: tuple[Any, ...]) -> Any | None:
        """The GlobalVar of the PrimFunc of a group; None if it has no kernel."""
        args = [a for b in group for a in items(b.value.args[1].fields)]
        same = tuple(next(k for k, a in enumerate(args) if a.same_as(b)) for b in args)
        names = [callee(b.value).name_hint for b in group]
        key = (*names, *same)
        if key not in self.known:
            func = fused(self.mod, FusedGroup(group))
            fits = func is not None and is_row_kernel(func)
            self.known[key] = self.builder_.add_func(
                func.without_attr("global_symbol"), "_".join(names)) if fits else None  # fmt: skip
        return self.known[key]


def is_row_kernel(func: Any) -> bool:
    """Whether a PrimFunc of static shape has a kernel of rows that reads them once.

    Threads side by side read and write elements side by side, of each tensor that has an element
    for each of them; results of few bytes may be stored in another order.
    """
    try:
        program = read_program(func, True)
        space, _ = row_space(program)
        if space.count < ENOUGH:
            return False
        for lane, rule in ((None, rows_kernel), (space.rows[-1].var, columns_kernel)):
            if _side_by_side(program, space, lane):
                rule(program)
                return True
    except (NoGpuSchedule, *TVM_RAISES):
        return False
    return False


def _side_by_side(program: GpuProgram, space: RowSpace, lane: Any | None) -> bool:
    """Whether accesses are contiguous along a row axis, or if it is None along the last column."""
    for row in space.steps:
        if not row.columns:
            continue
        along, written = row.columns[-1].var if lane is None else lane, NodeDict[None]()
        analyzer = bound([*space.rows, *row.columns])
        accesses = [(e.source, items(e.indices)) for part in parts_of(program, row)
                    for e in loads(substitute(part, row.at))]  # fmt: skip
        if not row.step.reduced:
            for update in row.step.updates:
                written[update.buffer] = None
            accesses += [(u.buffer, [substitute(i, row.at) for i in u.indices])
                         for u in row.step.updates]  # fmt: skip
        for buffer, indices in accesses:
            if buffer not in program.params or not any(along in mentions(i) for i in indices):
                continue
            if lane is None and buffer in written and _bytes(buffer) <= SMALL:
                continue
            if strided_access(buffer, indices, [along], analyzer).step(along) != 1:
                return False
    return True


def _bytes(buffer: Any) -> int:
    return product([static(e) or 0 for e in items(buffer.ty.shape)]) * itemsize(buffer)
