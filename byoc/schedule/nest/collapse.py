"""Fuse adjacent axes that are contiguous in every access.

    for i, j: out[i, j] = x[i, j] + c      for f: out[f // m, f % m] = x[f // m, f % m] + c

TVM simplifies the flat index of ``x[f // m, f % m]`` to ``f``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.strides import StridedAccess, strided_access
from ....analysis.blocks.tir import dtype_of, integer, local, static, values
from ....analysis.lifting.tir.node import NodeDict, as_dtype, items
from .kernel import Kernel, KernelOutput
from .strided_access import same


def collapsed(kernel: Kernel, views: Views) -> Kernel:
    """Fuse as many axes as possible; add the flat views that they need to ``views``."""
    if kernel.copy:
        kernel = _copied(kernel, views)
    kernel = _units(kernel)
    for reduced in (False, True):
        k = len(kernel.reduced if reduced else kernel.axes) - 2
        while k >= 0:
            axes = kernel.reduced if reduced else kernel.axes
            if _together(kernel, axes[k], axes[k + 1], views):
                kernel = _joined(kernel, k, reduced, views)
            k -= 1
    return kernel


def _copied(kernel: Kernel, views: Views) -> Kernel:
    """Turn a copy in memory order into one over a single flat axis."""
    (result,) = kernel.results
    source = result.value.source
    if result.buffer not in views or source not in views:
        return kernel
    shape = items(result.buffer.ty.shape)
    if not shape or not items(source.ty.shape):
        return kernel
    var = tirx.Var("f", dtype_of(shape[0]))
    axis = Axis(var, prod(shape[1:], start=shape[0]))
    new = KernelOutput(views.of(result.buffer), (var,), tirx.BufferLoad(views.of(source), [var]))
    return replace(kernel, axes=(axis,), results=(new,), copy=False)


def _units(kernel: Kernel) -> Kernel:
    """Remove axes of extent 1."""
    units = [a for a in kernel.all_axes if a.static == 1]
    if not units:
        return kernel
    at = values(*((a.var, integer(0, a.var)) for a in units))
    axes, reduced = (
        tuple(a for a in group if a.static != 1) for group in (kernel.axes, kernel.reduced)
    )
    if kernel.reduced and not reduced:  # a sum of one element is still a sum
        reduced = kernel.reduced[:1]
        at = values(*((a.var, integer(0, a.var)) for a in units if a is not reduced[0]))
    return kernel.at(at, axes, reduced)


def _together(kernel: Kernel, a: Axis, b: Axis, views: Views) -> bool:
    if a.var in kernel.value_vars or b.var in kernel.value_vars:
        return False
    accesses = (*kernel.reads, *kernel.late, *kernel.writes)
    if not all(follows(x, a, b, kernel.analyzer) for x in accesses):
        return False
    return b.static is not None or all(x.step(b.var) == 0 or x.buffer in views for x in accesses)


def follows(access: StridedAccess, a: Axis, b: Axis, analyzer: Any) -> bool:
    """Return whether a step along ``a`` equals the whole extent of ``b``."""
    outer, inner = access.steps.get(a.var), access.steps.get(b.var)
    if outer is None or inner is None:
        return False
    return same(outer, inner * as_dtype(_extent(b), dtype_of(inner)), analyzer)


def _extent(axis: Axis) -> Any:
    return integer(axis.extent, axis.var) if isinstance(axis.extent, int) else axis.extent


def _joined(kernel: Kernel, k: int, reduced: bool, views: Views) -> Kernel:
    """Fuse axes k and k + 1."""
    axes = list(kernel.reduced if reduced else kernel.axes)
    a, b = axes[k], axes[k + 1]
    dtype = dtype_of(b.var)
    width = as_dtype(_extent(b), dtype)
    extent = _extent(a) * width
    var = tirx.Var("f", dtype)
    size = static(extent)
    new = Axis(var, extent if size is None else integer(size, var), a.reduced)
    axes[k : k + 2] = [new]
    if b.static is None:
        kernel = _flat(kernel, b.var, views)
        at = values((a.var, integer(0, a.var)), (b.var, var))
    else:
        at = values((a.var, as_dtype(tirx.FloorDiv(var, width), dtype_of(a.var))),
                    (b.var, tirx.FloorMod(var, width)))  # fmt: skip
    if reduced:
        return kernel.at(at, kernel.axes, tuple(axes))
    return kernel.at(at, tuple(axes), kernel.reduced)


class Views:
    """Flat views of parameters, created on demand.

    They are needed because TVM does not simplify ``f // m * m + f % m`` for a symbolic ``m``.
    """

    def __init__(self, params: Sequence[Any]) -> None:
        self.params: NodeDict[None] = NodeDict()
        for param in params:
            if is_buffer_var(param):
                self.params[param] = None
        self.flat: NodeDict[Any] = NodeDict()

    def __contains__(self, buffer: Any) -> bool:
        return buffer in self.params

    def of(self, buffer: Any) -> Any:
        """Return the flat view of a parameter, or the parameter if it has one dimension."""
        if len(buffer.ty.shape) == 1:
            return buffer
        if buffer not in self.flat:
            size = prod(items(buffer.ty.shape)[1:], start=buffer.ty.shape[0])
            view = self.flat[buffer] = local("flat", [size], str(buffer.ty.dtype))
            self.params[view] = None
        return self.flat[buffer]

    def declared(self) -> list[Any]:
        return [tirx.DeclBuffer(v, data=b.data) for b, v in self.flat.items()]


def _flat(kernel: Kernel, axis: Any, views: Views) -> Kernel:
    """Rewrite the accesses that depend on an axis to flat indices."""
    axes = [a.var for a in kernel.all_axes]

    def load(expr: Any, mutator: Any) -> Any:
        access = strided_access(expr.source, items(expr.indices), axes, kernel.analyzer)
        if access.step(axis) == 0:
            return mutator.default_mutate(expr)
        return tirx.BufferLoad(views.of(expr.source), [access.flat])

    def put(expr: Any) -> Any:
        return tvm_ffi.structural_mutate(expr, [(tvm.ir.TensorLoad, load)])

    def stored(output: KernelOutput) -> KernelOutput:
        access = strided_access(output.buffer, output.indices, axes, kernel.analyzer)
        same_place = access.step(axis) == 0
        return KernelOutput(output.buffer if same_place else views.of(output.buffer),
                            output.indices if same_place else (access.flat,),
                            put(output.value))  # fmt: skip

    return replace(
        kernel.with_reads(put),
        after=tuple((v, put(e)) for v, e in kernel.after),
        results=tuple(map(stored, kernel.results)),
    )
