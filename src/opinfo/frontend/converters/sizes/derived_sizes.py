"""Variables for derived dimensions, such as `2 * n` where no dimension is `n`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax, tirx

from ...checks.input_shapes import LOWER, SPECIALISED, UPPER


def with_variables(
    params: Mapping[str, relax.Var],
) -> tuple[dict[str, relax.Var], dict[str, relax.TensorType]]:
    """Return parameters with a variable for each derived dimension, and their types before.

    A function takes a variable from a dimension that consists of it alone, so `2 * n` cannot be a
    dimension of a parameter unless `n` is one too.
    """
    plain = {d.name for dims in map(_dims, params.values()) for d in dims if _is_variable(d)}
    fresh: dict[Any, tirx.Var] = {}
    out, types = dict(params), {}
    for name, param in params.items():
        derived = [bool(_variables(dim).keys() - plain) for dim in _dims(param)]
        shape = [
            fresh.setdefault(str(dim), tirx.Var(f"{name}_{axis}", "int64")) if new else dim
            for axis, (dim, new) in enumerate(zip(_dims(param), derived, strict=True))
        ]
        if any(derived):
            out[name] = relax.Var(name, relax.TensorType(shape, param.ty.dtype))
            types[name] = param.ty
    return out, types


def bind_derived(
    builder: relax.BlockBuilder, params: dict[str, relax.Var], types: Mapping[str, relax.TensorType]
) -> dict[str, relax.Var]:
    """Bind the variables of derived dimensions; return the parameters in the types before.

    Before: `x: Tensor((2 * n,))`; after: `x: Tensor((m,))`, and in the body
    `match_cast(shape([m // 2]), Shape([n]))`, `match_cast(x, Tensor((2 * n,)))`, which fails at run
    time for an odd m.

    Raises:
        NotImplementedError: A dimension is not `a * n + b` in one unknown n.
    """
    known = {d.name for param in params.values() for d in _dims(param) if _is_variable(d)}
    pending = [(dim, actual) for name, ty in types.items()
               for dim, actual in zip(ty.shape, params[name].ty.shape, strict=True)
               if _variables(dim).keys() - known]  # fmt: skip
    while pending:
        ready = [pair for pair in pending if len(_variables(pair[0]).keys() - known) <= 1]
        if not ready:
            raise NotImplementedError(
                f"the dimension {pending[0][0]} has several unknown sizes, expected one; make the "
                "others dimensions of their own"
            )
        for dim, actual in ready:
            for name in _variables(dim).keys() - known:
                variable = _variables(dim)[name]
                value = _solved(dim, variable, actual)
                builder.match_cast(relax.ShapeExpr([value]), relax.ShapeType([variable]))
                known.add(name)
        pending = [pair for pair in pending if _variables(pair[0]).keys() - known]
    casts = {name: builder.match_cast(params[name], ty) for name, ty in types.items()}
    return {**params, **casts}


def in_parameters(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose sizes are expressions over those of its parameters.

    TVM's CanonicalizeBindings replaces a variable that `bind_derived` binds in some places only.
    Then sizes such as `m // 4 - 1` and `n - 1` meet, which are not provably equal.
    """
    out = tvm.IRModule(mod.functions, attrs=mod.attrs)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function) and (sizes := _bound_sizes(func)):
            bounds = _parameter_bounds(func)
            out.update_func(gvar, func.bind_symbolic_vars(sizes).with_attrs(bounds))
    return out


def _parameter_bounds(func: relax.Function) -> dict[str, dict[str, int]]:
    """Return the bounds of sizes, with those of the parameters' dimensions.

    If `n` is at most 32, the variable in place of `2 * n` is at most 64.
    """
    casts = [b for block in func.body.blocks for b in block.bindings
             if isinstance(b, relax.MatchCast) and isinstance(b.value, relax.Var)]  # fmt: skip
    out: dict[str, dict[str, int]] = {}
    for attr in (LOWER, UPPER):
        known = {str(k): int(v) for k, v in ((func.attrs or {}).get(attr) or {}).items()
                 if attr == UPPER or int(v) > SPECIALISED}  # fmt: skip
        for cast in casts:
            for own, dim in zip(_dims(cast.value), _dims(cast), strict=True):
                value = _at(dim, known)
                if _is_variable(own) and value is not None:
                    known[own.name] = value
        if known:
            out[attr] = known
    return out


def _at(dim: Any, known: Mapping[str, int]) -> int | None:
    """Return a dimension, linear with a positive slope, where its variable is at a bound."""
    variables = _variables(dim)
    if len(variables) != 1 or not variables.keys() <= known.keys():
        return None
    ((name, variable),) = variables.items()
    slope, offset = tvm.sym.detect_linear_equation(dim, [variable]) or (None, None)
    if not (isinstance(slope, tirx.IntImm) and isinstance(offset, tirx.IntImm)):
        return None
    return slope.value * known[name] + offset.value if slope.value > 0 else None


def _bound_sizes(func: relax.Function) -> dict[Any, Any]:
    """Return the variables that casts of shapes define, with their values."""
    sizes: dict[Any, Any] = {}
    for binding in (b for block in func.body.blocks for b in block.bindings):
        if isinstance(binding, relax.MatchCast) and isinstance(binding.value, relax.ShapeExpr):
            pairs = zip(binding.ty.values, binding.value.values, strict=True)
            sizes |= {variable: value for variable, value in pairs if _is_variable(variable)}
    return sizes


def _solved(dim: Any, variable: tirx.Var, actual: tirx.Var) -> Any:
    """Return the variable as an expression of the actual extent, for `a * variable + b`."""
    slope, offset = tvm.sym.detect_linear_equation(dim, [variable]) or (None, None)
    if not (isinstance(slope, tirx.IntImm) and slope.value > 0):
        raise NotImplementedError(
            f"the dimension {dim} is not linear in {variable}, expected a multiple plus a constant"
        )
    return tvm.sym.Analyzer().simplify(tirx.floordiv(actual - offset, slope))


def _dims(param: relax.Var) -> list[Any]:
    shape = getattr(param.ty, "shape", None)
    return list(shape) if shape is not None else []


def _is_variable(dim: Any) -> bool:
    return bool(tvm.ir.is_prim_var(dim))


def _variables(dim: Any) -> dict[str, Any]:
    """Return the variables of an extent by name; `==` of variables is an expression."""
    found = [] if isinstance(dim, int) else tirx.analysis.undefined_vars(dim)
    return {variable.name: variable for variable in found}
