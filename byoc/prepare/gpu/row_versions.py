"""A version for one row of functions that multiply a symbolic number of rows with packed weights.

    Before: def f(x: R.Tensor((n, 64)), …): …
    After:  def f(x, …): f_n1(x, …) if n == 1 else f_any(x, …)

One row is multiplied by a kernel that reads packed weights once; for several rows they are
dequantised for a library, with tensor cores. Which is faster is known when the function is called.
Both versions read the same weights as they are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm_ffi
from tvm import relax, tirx
from tvm.ir import is_prim_var

from ....analysis.composites.grouped import DEQUANTIZE
from ....analysis.composites.products import TRANSPOSED_MATMUL
from ....analysis.support.tvm_compat import GenericConst
from ..mutation.mutate import named

MOVES = ("relax.permute_dims", "relax.reshape")
PRODUCTS = ("relax.matmul", TRANSPOSED_MATMUL)
#: The attributes that the function which chooses keeps.
KEPT = ("global_symbol", "num_input")


def row_versions(mod: Any) -> Any:
    """Return the module with such functions; the module itself if it has none."""
    found = [
        (gvar, func, symbol)
        for gvar, func in mod.functions_items()
        if isinstance(func, relax.Function) and (func.attrs or {}).get("global_symbol")
        and (symbol := _rows(func)) is not None
    ]  # fmt: skip
    if not found:
        return mod
    builder = relax.BlockBuilder(mod.clone())
    chosen = {}
    for gvar, func, symbol in found:
        single = func.bind_symbolic_vars({symbol: 1})
        names = (f"{gvar.name_hint}_{symbol.name}1", f"{gvar.name_hint}_any")
        versions = [
            builder.add_func(relax.utils.copy_with_new_vars(f).without_attr("global_symbol"), name)
            for f, name in zip((single, func), names, strict=True)
        ]
        chosen[gvar] = _choice(func, symbol, single, versions)
    out = builder.get()
    for gvar, func in chosen.items():
        out.update_func(out.get_global_var(gvar.name_hint), func)
    return relax.transform.Normalize()(out)


def _rows(func: Any) -> Any:
    """The dimension of the parameters that is the number of rows of a product with packed weights.

    It is None if the function has none of these products, or if its rows are something else.
    """
    types = [t for p in func.params for t in _tensors(p.ty)]
    extents = [e for t in types for e in t.shape.values if is_prim_var(e)]
    bindings = [b for block in func.body.blocks for b in block.bindings]
    values: dict[Any, Any] = {b.var: getattr(b, "value", None) for b in bindings}
    for call in values.values():
        if not any(named(call, p) for p in PRODUCTS) or not _packed(call.args[1], values):
            continue
        rows = [e for e in call.args[0].ty.shape.values[:-1] if not _is_one(e)]
        if len(rows) == 1 and any(rows[0].same_as(e) for e in extents):
            return rows[0]
    return None


def _tensors(ty: Any) -> Iterator[Any]:
    """The tensors of known shapes in a type."""
    if isinstance(ty, relax.TupleType):
        for field in ty.fields:
            yield from _tensors(field)
    elif isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr):
        yield ty


def _is_one(extent: Any) -> bool:
    return isinstance(extent, tirx.IntImm) and int(extent) == 1


def _packed(weights: Any, values: dict[Any, Any]) -> bool:
    """Whether an operand is dequantised from words that are not constant, perhaps moved."""
    call: Any = values.get(weights)
    while any(named(call, m) for m in MOVES):
        call = values.get(call.args[0])
    return named(call, DEQUANTIZE) and not isinstance(call.args[0], GenericConst)


def _choice(func: Any, symbol: Any, single: Any, versions: list[Any]) -> Any:
    """The function that calls the version for one row, or the other one."""
    params = [relax.Var(p.name, p.ty) for p in func.params]
    narrow: list[Any] = []
    casts = []
    for param, bound in zip(params, single.params, strict=True):
        if tvm_ffi.structural_equal(param.ty, bound.ty):
            narrow.append(param)
            continue
        narrow.append(relax.Var(f"{param.name}_1", bound.ty))
        casts.append(relax.MatchCast(narrow[-1], param, bound.ty))
    branches = []
    for version, arguments, ty, before in (
        (versions[0], narrow, single.ret_ty, casts), (versions[1], params, func.ret_ty, []),
    ):  # fmt: skip
        var = relax.Var("result", ty)
        call = relax.VarBinding(var, relax.Call(version, arguments))
        branches.append(relax.SeqExpr([relax.BindingBlock([*before, call])], var))
    condition = tirx.EQ(symbol, tirx.IntImm("int64", 1))
    either, result = relax.Var("either", _unshaped(func.ret_ty)), relax.Var("result", func.ret_ty)
    block = relax.BindingBlock([
        relax.VarBinding(either, relax.If(condition, *branches)),
        relax.MatchCast(result, either, func.ret_ty),
    ])  # fmt: skip
    attrs = {k: v for k, v in func.attrs.items() if k in KEPT}
    return relax.Function(params, relax.SeqExpr([block], result), func.ret_ty).with_attrs(attrs)


def _unshaped(ty: Any) -> Any:
    """The type of both branches: tensors of a rank."""
    if isinstance(ty, relax.TupleType):
        return relax.TupleType([_unshaped(f) for f in ty.fields])
    if isinstance(ty, relax.TensorType):
        return relax.TensorType(None, ty.dtype, ndim=ty.ndim)
    return ty
