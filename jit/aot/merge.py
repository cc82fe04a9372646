"""Merge kernels for some shapes and the generic kernel into one PrimFunc that selects by shape.

Before: f(x: (n, 64), y: (n, 64))                                          and  f8(x: (8, 64), …)
After:  f(x: (n, 64), y: (n, 64)): if n == 8: x8 = x as (8, 64); …; f8's body else: f's body
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ...analysis.support.ir.deep_copy import copied
from ...byoc.dims.span import Span
from ...byoc.dims.symbolic_dims import Symbol, name, rooted, symbols
from ..kernels.workspace import with_lazy_workspaces
from .bucket import padded_body
from .decision_tree import branches, decision
from .kernel_variants import Bucket, Exact, Ranged, Variant


def merge(func: Any, variants: Sequence[Variant]) -> Any:
    """Return a PrimFunc with the parameters of ``func`` that runs the first variant for a shape.

    Shapes without a variant run the body of ``func``. The inputs are not modified.

    Raises:
        ValueError: The parameters of a variant differ from those of ``func`` at its shapes.
    """
    outer = copied(func)
    outer_symbols = symbols(outer)
    if not variants:
        return outer
    if not outer_symbols:
        raise ValueError(f"merge: {name(func)} has no symbolic dimension to choose by")
    bodies = [_inlined(v, outer, outer_symbols, f"variant {k} of {name(func)}")
              for k, v in enumerate(variants)]  # fmt: skip
    used = {n for v in variants for n in v.spans}
    dims = {s.name: s.var for s in outer_symbols if s.name in used}
    choice = tirx.Var("variant", "int32")
    chosen = tirx.Bind(choice, decision([v.spans for v in variants], dims))
    branch_bodies = [_own_workspaces(b, outer) for b in (*bodies, outer.body)]
    body = tirx.SeqStmt([chosen, branches(choice, branch_bodies)])
    return _with_attributes(outer, body, [v.func for v in variants])


def _own_workspaces(body: Any, outer: Any) -> Any:
    """Return the statements with their workspaces allocated only when they run."""
    func = tirx.PrimFunc(outer.params, body, outer.ret_type).with_attr("s_tir", True)
    lowered = with_lazy_workspaces(func)
    assert all(p.same_as(q) for p, q in zip(lowered.params, outer.params, strict=True))
    return lowered.body


def _with_attributes(outer: Any, body: Any, inside: Sequence[Any]) -> Any:
    blocks = any((f.attrs or {}).get("s_tir") for f in (outer, *inside))
    merged = tirx.PrimFunc(outer.params, body, outer.ret_type, outer.attrs)
    return (rooted(merged) if blocks else merged).with_attr("tirx.noalias", True)


# ------------------------------------------------------------------------ one variant


def _inlined(variant: Variant, outer: Any, outer_symbols: tuple[Symbol, ...], where: str) -> Any:
    """Return the body of a variant over the parameters of the merged function."""
    _check_names(variant, outer_symbols, where)
    func = copied(variant.func)
    if len(func.params) != len(outer.params):
        raise ValueError(f"merge: {where} has {len(func.params)} parameters, expected "
                         f"{len(outer.params)}")  # fmt: skip
    inner_symbols = symbols(func)
    if inner_symbols and not isinstance(variant, Ranged):
        raise ValueError(
            f"merge: {where} has the symbolic dimension {inner_symbols[0].name}, expected a "
            "static function"
        )
    values = {} if isinstance(variant, Ranged) else dict(variant.values)
    bindings = _bound(inner_symbols, outer_symbols, where)
    _check_params(func, outer, bindings, _numbers(outer_symbols, values), where)
    if isinstance(variant, Bucket):
        return padded_body(func, outer, variant, where)
    views = [_view(p, q) for p, q in zip(func.params, outer.params, strict=True)
             if not any(p.same_as(a) for a, _ in bindings)]  # fmt: skip
    return tirx.SeqStmt([*(tirx.Bind(a, b) for a, b in bindings), *views, func.body])


def _view(inner: Any, outer: Any) -> Any:
    if not tirx.is_buffer_var(inner):
        return tirx.Bind(inner, outer)
    return tirx.DeclBuffer(inner, data=outer.data)


def _check_names(variant: Variant, outer_symbols: tuple[Symbol, ...], where: str) -> None:
    names = {s.name for s in outer_symbols}
    strange = set(variant.spans) - names
    if strange:
        raise ValueError(f"merge: {where} names the dimensions {sorted(strange)}, expected "
                         f"some of {sorted(names)}")  # fmt: skip
    if not isinstance(variant, Ranged) and set(variant.values) != names:
        raise ValueError(f"merge: {where} has values for {sorted(variant.values)}, expected "
                         f"values for {sorted(names)}")  # fmt: skip
    if isinstance(variant, Bucket):
        strange = {p.name for p in variant.padded} - names
        if strange:
            raise ValueError(f"merge: {where} pads {sorted(strange)}, expected some of "
                             f"{sorted(names)}")  # fmt: skip


def _bound(
    inner_symbols: tuple[Symbol, ...], outer_symbols: tuple[Symbol, ...], where: str
) -> list[tuple[Any, Any]]:
    """Bind the dimensions of a symbolic variant to those of the merged function."""
    outer_dims = {(s.param, s.axis): s.var for s in outer_symbols}
    out = []
    for symbol in inner_symbols:
        if (symbol.param, symbol.axis) not in outer_dims:
            raise ValueError(
                f"merge: {where} has the dimension {symbol.name} at axis {symbol.axis} of "
                f"parameter {symbol.param}, expected one of {sorted(outer_dims, key=str)}"
            )
        out.append((symbol.var, outer_dims[symbol.param, symbol.axis]))
    return out


def _numbers(outer_symbols: tuple[Symbol, ...], values: Mapping[str, int]) -> list[tuple[Any, Any]]:
    return [
        (symbol.var, tirx.IntImm(symbol.var.ty.dtype, values[symbol.name]))
        for symbol in outer_symbols
        if symbol.name in values
    ]


def _check_params(func: Any, outer: Any, bindings: list[tuple[Any, Any]],
                  values: list[tuple[Any, Any]], where: str) -> None:  # fmt: skip
    """Check that each parameter has the merged function's type at the variant's shapes."""
    for k, (param, outer_param) in enumerate(zip(func.params, outer.params, strict=True)):
        got_type, expected_type = _type(param, bindings), _type(outer_param, values)
        if not _equal(got_type, expected_type):
            raise ValueError(
                f"merge: parameter {k} ({outer_param.name}) of {where} is {_text(got_type)}, "
                f"expected {_text(expected_type)}"
            )


#: Extents (None for a number), dtype, and a description of unusual strides and scope.
_Type = tuple[list[Any] | None, str, str]


def _type(param: Any, values: list[tuple[Any, Any]]) -> _Type:
    """Return a parameter's type after substituting `values`."""
    if not tirx.is_buffer_var(param):
        return None, str(param.ty.dtype), ""
    scope = param.ty.storage_scope if param.ty.storage_scope not in ("", "global") else ""
    odd = [f" with strides {list(param.ty.strides)}"] if len(param.ty.strides) else []
    odd += [f" in {scope}"] if scope else []
    return [replaced(e, values) for e in param.ty.shape], str(param.ty.dtype), "".join(odd)


def _equal(a: _Type, b: _Type) -> bool:
    if a[1:] != b[1:] or (a[0] is None) != (b[0] is None):
        return False
    x, y = a[0] or [], b[0] or []
    prove = tvm.sym.Analyzer().can_prove
    return len(x) == len(y) and all(
        prove(tirx.EQ(_wide(first), _wide(second))) for first, second in zip(x, y, strict=True)
    )


def _wide(expr: Any) -> Any:
    return expr.astype("int64")


def _text(param_type: _Type) -> str:
    extents, dtype, unusual = param_type
    if extents is None:
        return dtype
    return f"{dtype}[{', '.join(str(getattr(e, 'value', e)) for e in extents)}]{unusual}"


def replaced(expr: Any, values: list[tuple[Any, Any]]) -> Any:
    """Substitute variables in an extent and simplify it."""

    def value(var: Any, _: Any) -> Any:
        return next((b for a, b in values if a.same_as(var)), var)

    expr = expr if isinstance(expr, tvm.ir.Expr) else tirx.IntImm("int64", int(expr))
    return tvm.sym.Analyzer().simplify(tvm_ffi.structural_mutate(expr, [(tvm.ir.Var, value)]))


__all__ = ["Bucket", "Exact", "Ranged", "Span", "Variant", "merge"]
