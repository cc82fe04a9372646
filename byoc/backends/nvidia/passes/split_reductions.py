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
from ..splits.split_kernels import PartKernel, split_kernels
from .replace_calls import Replacement, replace_calls


def split_reductions(mod: Any) -> Any:
    """Return the module with calls of several PrimFuncs where blocks should share reductions."""
    divided: NodeDict[tuple[PartKernel, ...]] = NodeDict()
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and not _is_scheduled(func):
            kernels = split_kernels(func)
            if isinstance(kernels, tuple):
                divided[gvar] = kernels
    if not divided.items():
        return mod

    def added(builder: Any) -> NodeDict[Replacement]:
        out: NodeDict[Replacement] = NodeDict()
        for gvar, kernels in divided.items():
            out[gvar] = _added(builder, gvar, mod[gvar], kernels)
        return out

    return replace_calls(mod, added)


def _is_scheduled(func: Any) -> bool:
    return bool((func.attrs or {}).get("tirx.is_scheduled", False))


def _added(builder: Any, gvar: Any, func: Any, kernels: Sequence[PartKernel]) -> Replacement:
    """Add the parts of ``func``, which ``gvar`` calls, to the module."""
    fresh = [builder.add_func(kernel.func, f"{gvar.name_hint}_{k}")
             for k, kernel in enumerate(kernels)]  # fmt: skip

    def replacement(builder: Any, call: Any) -> Any:
        if len(call.args) > 2 or not isinstance(call.args[1], relax.Tuple):
            return call
        params, arguments = items(func.params), items(call.args[1].fields)
        values: NodeDict[Any] = NodeDict()
        for param, value in zip(params, arguments, strict=False):
            values[param] = value
        for part, kernel in zip(fresh, kernels, strict=True):
            _call(builder, part, kernel, values)
        results = [values[p] for p in params[len(arguments) :]]
        return results[0] if len(results) == 1 else relax.Tuple(results)

    return replacement


def _call(builder: Any, gvar: Any, kernel: PartKernel, values: NodeDict[Any]) -> None:
    """Emit the call of a part; ``values`` gets what it computes."""
    types = [_type(b) for b in kernel.writes]
    out = types[0] if len(types) == 1 else types
    result = builder.emit(relax.call_tir(gvar, [values[b] for b in kernel.reads], out))
    for k, buffer in enumerate(kernel.writes):
        values[buffer] = result if len(types) == 1 else builder.emit(relax.TupleGetItem(result, k))


def _type(buffer: Any) -> Any:
    return relax.TensorType(_shape(buffer), str(buffer.ty.dtype))


def _shape(buffer: Any) -> Sequence[Any]:
    return items(buffer.ty.shape)
