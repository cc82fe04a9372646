"""Give an update in place, or a new size, a block of its own, across which TVM moves nothing.

Before: dataflow: e = exp(s); n = call_tir_inplace(f, s); y = e + n
After:  dataflow: e = exp(s)     n = call_tir_inplace(f, s)     dataflow: y = e + n

TVM's FuseOps counts the update as pure. It fused ``e`` and ``y`` at the place of the latter, where
``s`` is another tensor, and RewriteDataflowReshape makes a view of what is updated later.

Before: dataflow: h = f(x); s = match_cast(tensor_to_shape(t), Shape([n])); y = arange(n) + h
After:  dataflow: h = f(x)     s = match_cast(…)     dataflow: y = arange(n) + h

No edge of the graph leads from the size to what has it. FuseOps fused ``h`` and ``y`` before the
cast, where ``n`` has no value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import tvm
from tvm import relax

from ....analysis.lifting.tir.node import NodeDict, substitute
from ....layout.graph.side_effects import IN_PLACE, SideEffects
from .bindings import variables_read
from .mutate import named


def update_blocks(mod: Any) -> Any:
    """The module with its dataflow blocks split at updates of values that are read elsewhere too,
    and where sizes that are data get symbols.

    The input is not changed. Functions without those stay.
    """
    functions = {g: _function(f) for g, f in mod.functions_items()
                 if isinstance(f, relax.Function) and (SideEffects.overwrites(f) or _sizes(f))
                 }  # fmt: skip
    if not functions:
        return mod
    out = mod.clone()
    for gvar, func in functions.items():
        out.update_func(gvar, func)
    return out


def _sizes(func: Any) -> NodeDict[Any]:
    """The casts that define symbols, by variable."""
    known, out = NodeDict[bool](), NodeDict[Any]()
    for var in (var for param in func.params for var in _symbols(param.ty)):
        known[var] = True
    casts = (binding for block in func.body.blocks for binding in block.bindings
             if isinstance(binding, relax.MatchCast))  # fmt: skip
    for binding in casts:
        for var in _symbols(binding.ty):
            if var not in known:
                known[var], out[binding.var] = True, binding
    return out


def _symbols(ty: Any) -> list[Any]:
    """The symbols that a type defines: extents that are nothing else."""
    shape = getattr(ty, "shape", None)
    values = getattr(ty if shape is None else shape, "values", None) or []
    return [value for value in values if isinstance(value, tvm.ir.Var)]


def _function(func: Any) -> Any:
    sizes = _sizes(func)
    blocks = [part for block in func.body.blocks for part in _parts(block, sizes)]
    body = relax.SeqExpr(blocks, func.body.body)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs, func.span)


def _parts(block: Any, sizes: NodeDict[Any]) -> Iterator[Any]:
    """The blocks before, at and behind each update and each new size of a block."""

    def is_alone(binding: Any) -> bool:
        return _updates(binding) or binding.var in sizes

    if not isinstance(block, relax.DataflowBlock) or not any(map(is_alone, block.bindings)):
        yield block
        return
    groups = [(alone, list(group)) for alone, group in groupby(block.bindings, is_alone)]
    names = _names(groups)
    for alone, group in groups:
        bindings = [_renamed(binding, names) for binding in group]
        yield (relax.BindingBlock if alone else relax.DataflowBlock)(bindings)


def _updates(binding: Any) -> bool:
    return any(named(getattr(binding, "value", None), name) for name in IN_PLACE)


def _names(groups: Sequence[tuple[bool, list[Any]]]) -> NodeDict[Any]:
    """New variables for those of a dataflow block that are alone, or that other groups read."""
    home, names = NodeDict[int](), NodeDict[Any]()
    for k, (alone, group) in enumerate(groups):
        for binding in group:
            for var in variables_read(binding.value):
                if isinstance(var, relax.DataflowVar) and home.get(var) != k and var not in names:
                    names[var] = relax.Var(var.name, var.ty, var.span)
            home[binding.var] = k
            if alone and isinstance(binding.var, relax.DataflowVar):
                names[binding.var] = relax.Var(binding.var.name, binding.var.ty, binding.var.span)
    return names


def _renamed(binding: Any, names: NodeDict[Any]) -> Any:
    """A binding with other variables."""
    var = names[binding.var] if binding.var in names else binding.var
    value = substitute(binding.value, names)
    if isinstance(binding, relax.MatchCast):
        return relax.MatchCast(var, value, binding.ty)
    return relax.VarBinding(var, value)
