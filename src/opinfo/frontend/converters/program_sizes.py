"""Sizes of torch programs as expressions of TVM, and variables for derived dimensions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm import relax, tirx

from ..onnx_graph.scalars import Rational, SizeArithmetic, Unknown, rational
from ..onnx_graph.scalars import size as plain

_NARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "Mul": operator.mul, "Max": tirx.max, "Min": tirx.min,
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "Mod": operator.mod,
    "PythonMod": operator.mod,
    "CeilDiv": lambda a, b: tirx.floordiv(a + b - 1, b),
}  # fmt: skip


#: Functions of a real number, by way of which programs compute sizes.
_REAL: dict[str, Callable[..., Any]] = {
    "ToFloat": lambda arithmetic, a: rational(a),
    "FloorToInt": lambda arithmetic, a: arithmetic.floor(a).top,
    "CeilToInt": lambda arithmetic, a: arithmetic.ceil(a).top,
    "TruncToInt": lambda arithmetic, a: arithmetic.truncate(a),
    "IntTrueDiv": lambda arithmetic, a, b: arithmetic.divide(rational(a), rational(b)),
    "FloatTrueDiv": lambda arithmetic, a, b: arithmetic.divide(rational(a), rational(b)),
    "Add": lambda arithmetic, *parts: functools.reduce(arithmetic.add, parts),
    "Mul": lambda arithmetic, *parts: functools.reduce(arithmetic.multiply, parts),
}


def expression(size: Any, variables: Mapping[str, Any]) -> Any:
    """Return a size of sympy as an expression of int64.

    Raises:
        NotImplementedError: It has a function that TVM has not, or depends on the data.
    """
    value = _value(size, variables)
    if isinstance(value, Rational):
        raise NotImplementedError(f"{size} is a real number, expected an integer")
    return value if isinstance(value, tvm.ir.Expr) else tirx.IntImm("int64", int(value))


def real(number: Any, variables: Mapping[str, Any]) -> Rational:
    """Return a real number that a program computes from sizes.

    Raises:
        NotImplementedError: It is not a fraction with a small denominator.
    """
    return rational(_value(number, variables))


def _value(size: Any, variables: Mapping[str, Any]) -> Any:
    """Return an integer as an expression of int64, a real number as a `Rational`."""
    if size.is_Integer:
        return tirx.IntImm("int64", int(size))
    if size.is_Symbol:
        if str(size) not in variables:
            raise NotImplementedError(f"the size {size} depends on the data, expected on shapes")
        return variables[str(size)]
    try:
        if size.is_Float:
            return rational(float(size))
        return _computed(size, [_value(part, variables) for part in size.args])
    except Unknown:
        raise NotImplementedError(
            f"{size} is a real number, expected a fraction with a small denominator such as 1.5"
        ) from None


def _computed(size: Any, parts: list[Any]) -> Any:
    kind = type(size).__name__
    if kind in _REAL and (kind not in _NARY or any(isinstance(x, Rational) for x in parts)):
        return _REAL[kind](SizeArithmetic(), *map(plain, parts))
    if kind in _NARY:
        return functools.reduce(_NARY[kind], parts)
    if kind in _BINARY and len(parts) == 2:
        return tvm.sym.Analyzer().simplify(_BINARY[kind](*parts))
    if kind == "Pow" and size.args[1].is_Integer and 0 < size.args[1] < 9:
        return functools.reduce(operator.mul, [parts[0]] * int(size.args[1]))
    raise NotImplementedError(f"the size {size} has {kind}, expected sums, products and quotients")


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
            out.update_func(gvar, func.bind_symbolic_vars(sizes))
    return out


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
