"""Divide reductions of much to little among the blocks of a GPU.

Before: y = R.call_tir(cls.norm, (x,), out_ty=…)
After:  p = R.call_tir(cls.norm_0, (x,), out_ty=…)      parts of sums
        s = R.call_tir(cls.norm_1, (p,), out_ty=…)      sums
        y = R.call_tir(cls.norm_2, (x, s), out_ty=…)

The parts are tensors of the program, so that TVM plans their memory, also for CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, tirx

from .....analysis.lifting.tir.node import NodeDict, items
from ....prepare.mutation.mutate import with_attrs
from ..splits.split_kernels import PartKernel, split_kernels


def split_reductions(mod: Any) -> Any:
    """Return the module with calls of several PrimFuncs where blocks should share reductions."""
    divided: NodeDict[tuple[PartKernel, ...]] = NodeDict()
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and not _is_scheduled(func):
            kernels = split_kernels(func)
            if isinstance(kernels, tuple):
                divided[gvar] = kernels
    return _Writer(mod, divided).module() if len(divided.items()) else mod


def _is_scheduled(func: Any) -> bool:
    return bool((func.attrs or {}).get("tirx.is_scheduled", False))


@relax.expr_functor.mutator
class _Writer(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: Any, divided: NodeDict[tuple[PartKernel, ...]]) -> None:
        super().__init__(mod)
        self.mod, self.divided = mod, divided
        self.fresh: NodeDict[list[Any]] = NodeDict()

    def module(self) -> Any:
        for gvar, kernels in self.divided.items():
            names = (f"{gvar.name_hint}_{k}" for k in range(len(kernels)))
            self.fresh[gvar] = [self.builder_.add_func(kernel.func, name)
                                for kernel, name in zip(kernels, names, strict=True)]  # fmt: skip
        for gvar, func in self.mod.functions_items():
            if isinstance(func, relax.Function):
                self.builder_.update_func(gvar, self.visit_expr(func))
        return relax.transform.DeadCodeElimination()(with_attrs(self.builder_.get(), self.mod))

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if getattr(call.op, "name", "") != "relax.call_tir" or call.args[0] not in self.divided:
            return call
        if len(call.args) > 2 or not isinstance(call.args[1], relax.Tuple):
            return call
        gvar = call.args[0]
        params, given = items(self.mod[gvar].params), items(call.args[1].fields)
        values: NodeDict[Any] = NodeDict()
        for param, value in zip(params, given, strict=False):
            values[param] = value
        for fresh, kernel in zip(self.fresh[gvar], self.divided[gvar], strict=True):
            self.call(fresh, kernel, values)
        results = [values[p] for p in params[len(given) :]]
        return results[0] if len(results) == 1 else relax.Tuple(results)

    def call(self, gvar: Any, kernel: PartKernel, values: NodeDict[Any]) -> None:
        """Emit the call of a part; ``values`` gets what it computes."""
        types = [_type(b) for b in kernel.writes]
        out = types[0] if len(types) == 1 else types
        made = self.builder_.emit(relax.call_tir(gvar, [values[b] for b in kernel.reads], out))
        for k, buffer in enumerate(kernel.writes):
            values[buffer] = made if len(types) == 1 else self.builder_.emit(
                relax.TupleGetItem(made, k))  # fmt: skip


def _type(buffer: Any) -> Any:
    return relax.TensorType(_shape(buffer), str(buffer.ty.dtype))


def _shape(buffer: Any) -> Sequence[Any]:
    return items(buffer.ty.shape)
