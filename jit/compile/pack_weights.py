"""Pack constant weights into panels as wide as a tile, which kernels then read contiguously.

    Before: mm[i, j] += x[i, k] * w[k, j]                       w: (512, 1024)
    After:  mm[i, j] += x[i, k] * w[j // 64, k, j % 64]         w: (16, 512, 64)

A tile reads 64 columns of every row of ``w``. Rows that lie a power of two apart share sets of the
caches, and the prefetcher does not follow jumps beyond a page. `schedule` splits the axis at 64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from ...analysis.blocks.tir import dtype_of, integer, loads, mentions, static
from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.support.ir.call_ops import is_call_tir
from ...analysis.support.tvm_compat import GenericConst, SBlock, array_of
from ...byoc.codegen.vector_units import VectorUnits, machine

#: Vectors of a panel: as many as a tile has, and at least two, because a tile of a single vector
#: loads more than it multiplies.
MOST, FEWEST = 4, 2
#: The indices of the packed parameters of each function, with the widths of their panels.
Panels = Mapping[str, Mapping[int, int]]


def pack_weights(mod: Any, target: Any) -> Any:
    """Return the module with packed weights where a product reads them; ``mod`` is not changed.

    Args:
        mod: A module after ``FuseTIR``.
        target: TVM's target; its vectors determine the width of a panel.
    """
    cpu = machine(target)
    if cpu is None:
        return mod
    arguments = _arguments(mod)
    panels: dict[str, dict[int, int]] = {}
    for gvar, func in mod.functions.items():
        calls = arguments.get(gvar.name_hint, [])
        if isinstance(func, tirx.PrimFunc) and calls:
            constant = [k for k in range(min(map(len, calls)))
                        if all(isinstance(args[k], GenericConst) for args in calls)]  # fmt: skip
            if widths := _widths(func, constant, cpu):
                panels[gvar.name_hint] = widths
    return _Packer(mod, panels).written() if panels else mod


def _arguments(mod: Any) -> dict[str, list[list[Any]]]:
    """Return the arguments of all calls of each PrimFunc."""
    calls: dict[str, list[list[Any]]] = {}

    def visit(node: Any) -> None:
        if is_call_tir(node):
            calls.setdefault(node.args[0].name_hint, []).append(items(node.args[1].fields))

    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return calls


def _widths(func: Any, params: list[int], cpu: VectorUnits) -> dict[int, int]:
    """Return the width of the panels of each parameter that is worth packing."""
    widths: dict[int, int] = {}
    for k in params:
        param = func.params[k]
        shape = [static(n) for n in items(param.ty.shape)] if tirx.is_buffer_var(param) else []
        if len(shape) < 2 or None in shape or not _columns(func, param):
            continue
        lanes = cpu.lanes(str(param.ty.dtype))
        sizes = (lanes * n for n in range(MOST, FEWEST - 1, -1))
        width = next((n for n in sizes if (shape[-1] or 0) % n == 0), 0)
        if width and width != shape[-1] and not _used(_packed(func, {k: width}), param):
            widths[k] = width
    return widths


def _columns(func: Any, param: Any) -> bool:
    """Return whether reductions read a parameter, its columns by an axis of the result."""
    readers = 0
    for block in (b for b in _blocks(func.body) if not _blocks(b.body)):
        reduced: NodeDict[bool] = NodeDict()
        for axis in items(block.iter_vars):
            reduced[axis.var] = int(axis.iter_type) == 2
        for load in (e for e in loads(block.body) if e.source.same_as(param)):
            *outer, last = items(load.indices)
            used = [v for i in outer for v, _ in mentions(i).items()]
            if not isinstance(last, tirx.Var) or reduced.get(last) is not False:
                return False
            if any(v.same_as(last) for v in used) or not any(map(reduced.get, used)):
                return False
            readers += 1
    return readers > 0


def _blocks(node: Any) -> list[Any]:
    blocks: list[Any] = []
    tvm_ffi.structural_walk(node, (SBlock, blocks.append))
    return blocks


def _used(func: Any, param: Any) -> bool:
    """Return whether a function's body has a parameter."""
    uses: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tvm.ir.Var, uses.append))
    return any(v.same_as(param) for v in uses)


def _packed(func: Any, widths: Mapping[int, int]) -> Any:
    """Return a PrimFunc that reads packed parameters."""
    new: NodeDict[tuple[Any, int]] = NodeDict()
    params = list(items(func.params))
    for k, width in widths.items():
        old = params[k]
        *outer, last = items(old.ty.shape)
        shape = [integer(int(last) // width, last), *outer, integer(width, last)]
        params[k] = tirx.decl_buffer(shape, dtype_of(old), old.name)
        new[old] = params[k], width

    def load(expr: Any, mutator: Any) -> Any:
        expr = mutator.default_mutate(expr)
        entry = new.get(expr.source)
        if entry is None:
            return expr
        buffer, width = entry
        *outer, last = items(expr.indices)
        size = integer(width, last)
        index = [tirx.FloorDiv(last, size), *outer, tirx.FloorMod(last, size)]
        return tirx.BufferLoad(buffer, index)

    def region(expr: Any, mutator: Any) -> Any:
        entry = new.get(expr.source)
        if entry is None:
            return expr
        whole = [tvm.ir.Range(integer(0, n), n) for n in items(entry[0].ty.shape)]
        return tirx.BufferRegion(entry[0], whole)

    body = tvm_ffi.structural_mutate(
        func.body, [(tvm.ir.TensorLoad, load), (tvm.ir.TensorRegion, region)]
    )
    return tirx.PrimFunc(params, body, func.ret_type, func.attrs)


def _global_var(name: str, func: Any) -> Any:
    """Return a global variable with the type of a function, against which its calls are checked."""
    gvar = tvm.ir.GlobalVar(name)
    builder = relax.BlockBuilder()
    relax.expr._update_type(gvar, builder.add_func(func, name).ty)
    return gvar


@relax.expr_functor.mutator
class _Packer(relax.PyExprMutator):  # type: ignore[misc]
    """Rewrites the PrimFuncs with packed parameters, and the constants in their calls."""

    def __init__(self, mod: Any, panels: Panels) -> None:
        super().__init__(mod)
        self.mod, self.panels = mod, panels
        self.functions = {name: _packed(mod[name], widths) for name, widths in panels.items()}
        self.packed = {name: _global_var(name, func) for name, func in self.functions.items()}
        self.constants: list[tuple[Any, int, Any]] = []

    def written(self) -> Any:
        functions = {}
        for gvar, func in self.mod.functions.items():
            if isinstance(func, relax.Function):
                functions[gvar] = self.visit_expr(func)
            elif gvar.name_hint in self.packed:
                functions[self.packed[gvar.name_hint]] = self.functions[gvar.name_hint]
            else:
                functions[gvar] = func
        return tvm.IRModule(functions, attrs=self.mod.attrs, global_infos=self.mod.global_infos)

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        widths = self.panels.get(call.args[0].name_hint) if is_call_tir(call) else None
        if not widths:
            return call
        fields = [self._constant(arg, widths[k]) if k in widths else arg
                  for k, arg in enumerate(items(call.args[1].fields))]  # fmt: skip
        args = [self.packed[call.args[0].name_hint], relax.Tuple(fields), *call.args[2:]]
        return relax.Call(call.op, args, call.attrs, call.ty_args)

    def _constant(self, constant: Any, width: int) -> Any:
        """Return a packed constant; calls that share a constant share the packed one."""
        for old, size, new in self.constants:
            if size == width and array_of(old).same_as(array_of(constant)):
                return new
        array = array_of(constant).numpy()
        panels = array.reshape(*array.shape[:-1], array.shape[-1] // width, width)
        new = relax.const(np.ascontiguousarray(np.moveaxis(panels, -2, 0)))
        self.constants.append((constant, width, new))
        return new
