"""Evaluate terms with numpy, over arrays of points.

``evaluate(term, {var: values})`` is the term at every point; all values broadcast against each
other. The operations are in the table `OPS`. Index integers are computed in ``int64``: `magnitude`
says whether they fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .term import FOREVER, CallTerm, Const, Fold, Int, Load, Reduce, TensorVar, Term, Var
from .term.work_budget import spend

Array = npt.NDArray[Any]
#: The number of points at which a term is evaluated in one step.
POINTS = 4096
#: Iterations after which a ``while`` loop is assumed not to end.
ENDLESS = 10_000
Read = Callable[[TensorVar, tuple[Array, ...]], Array]


class Unevaluable(Exception):
    """The term has an operation without a numpy equivalent, or an unbound variable."""


def evaluate(term: Term, env: Mapping[Var, Any], read: Read | None = None) -> Array:
    """Return the values of ``term`` at the points of ``env``.

    Args:
        term: The term.
        env: The values of each variable.
        read: Returns the elements of a tensor at arrays of indices.

    Raises:
        Unevaluable: An operation is unknown, a variable unbound, or there is a load without `read`.
    """
    with np.errstate(all="ignore"):
        return _TermEvaluator({v: np.asarray(x) for v, x in env.items()}, read)(term)


class _TermEvaluator:
    def __init__(self, env: dict[Var, Array], read: Read | None) -> None:
        self.env, self.read = env, read
        self.memo: dict[Term, Array] = {}

    def __call__(self, term: Term) -> Array:
        values = self.memo.get(term)
        if values is None:
            values = self.memo[term] = _NODES[type(term)](self, term)
            spend(1 + values.size // POINTS)
        return values


def _int(ev: _TermEvaluator, poly: Int) -> Array:
    out: Any = 0
    for mono, coef in poly.terms:
        part: Any = coef
        for atom in mono:
            value = ev(atom)
            part = part * (value.astype(np.int64) if value.dtype != np.int64 else value)
        out = out + part
    return np.asarray(out, dtype=np.int64)


def _var(ev: _TermEvaluator, var: Var) -> Array:
    if var not in ev.env:
        raise Unevaluable(f"variable {var!r} has no value")
    return ev.env[var]


def _const(ev: _TermEvaluator, const: Const) -> Array:
    return np.asarray(const.value, dtype=numpy_dtype(const.dtype))


def _load(ev: _TermEvaluator, load: Load) -> Array:
    if ev.read is None:
        raise Unevaluable(f"load of {load.tensor.name}, but no tensors were passed")
    return ev.read(load.tensor, tuple(ev(i) for i in load.indices))


def _call(ev: _TermEvaluator, call: CallTerm) -> Array:
    if call.op == "cast":
        return ev(call.args[0]).astype(numpy_dtype(call.dtype))
    fn = OPS.get(call.op)
    if fn is None:
        raise Unevaluable(f"cannot evaluate operation {call.op} with numpy")
    out = np.asarray(fn(*(ev(a) for a in call.args)))
    return out.astype(numpy_dtype(call.dtype)) if call.op == "shl" else out  # drops the high bits


def _reduce(ev: _TermEvaluator, reduction: Reduce) -> Array:
    fn = REDUCERS.get(reduction.op)
    if fn is None:
        raise Unevaluable(f"cannot evaluate reduction {reduction.op} with numpy")
    depth, shape = len(reduction.axes), []
    env = {v: x.reshape(*x.shape, *[1] * depth) for v, x in ev.env.items()}
    for k, axis in enumerate(reduction.axes):
        assert axis.extent is not None
        extent = np.unique(ev(axis.extent))
        if extent.size != 1:
            raise Unevaluable(f"the extent of {axis!r} differs between points")
        shape.append(int(extent[0]))
        env[axis] = np.arange(shape[-1]).reshape(-1, *[1] * (depth - 1 - k))
    body = _TermEvaluator(env, ev.read)(reduction.body)
    outer = body.shape[: max(body.ndim - depth, 0)]
    folded = fn.reduce(
        np.broadcast_to(body, (*outer, *shape)), axis=tuple(range(-depth, 0)), dtype=body.dtype
    )
    return np.asarray(fn(ev(reduction.init), folded))


def _steps(ev: _TermEvaluator, fold: Fold) -> Array:
    """The loop, one iteration after the other, at all points at once."""
    assert fold.axis.extent is not None
    extent = (
        np.asarray([ENDLESS]) if fold.axis.extent is FOREVER else np.unique(ev(fold.axis.extent))
    )
    if extent.size != 1:
        raise Unevaluable(f"the extent of {fold.axis!r} differs between points")
    values: dict[Term, Array] = dict(zip(fold.states, map(ev, fold.inits), strict=True))
    for k in range(int(extent[0])):
        before = values
        step = _TermEvaluator({**ev.env, fold.axis: np.asarray(k)}, ev.read)
        step.memo.update(values)
        values = dict(zip(fold.states, [step(u) for u in fold.updates], strict=True))
        if fold.axis.extent is FOREVER and all(_same(values[s], before[s]) for s in values):
            break
    else:
        if fold.axis.extent is FOREVER:
            raise Unevaluable("a while loop does not terminate")
    return values[fold.states[0]]


def _same(a: Array, b: Array) -> bool:
    return bool(np.all((a == b) | ((a != a) & (b != b))))


_NODES: dict[type[Term], Callable[[_TermEvaluator, Any], Array]] = {
    Int: _int,
    Var: _var,
    Const: _const,
    Load: _load,
    CallTerm: _call,
    Reduce: _reduce,
    Fold: _steps,
}


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Return the numpy type for a TVM type name."""
    if dtype in ("int", "bool", "str"):
        return np.dtype({"int": np.int64, "bool": np.bool_, "str": np.str_}[dtype])
    if dtype.startswith(("bfloat", "float8", "float4")):
        import ml_dtypes

        dtype_of_numpy: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype))
        return dtype_of_numpy
    return np.dtype(dtype)


def _fold(fn: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def folded(*args: Any) -> Any:
        out = args[0]
        for arg in args[1:]:
            out = fn(out, arg)
        return out

    return folded


def _truncdiv(a: Array, b: Array) -> Array:
    quotient = np.floor_divide(np.abs(a), np.abs(b))
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def _sigmoid(array: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-array)), dtype=array.dtype)


_erf = np.vectorize(math.erf, otypes=[np.float64])

OPS: dict[str, Callable[..., Any]] = {
    "ge0": lambda x: x >= 0,
    "eq0": lambda x: x == 0,
    "and": _fold(np.logical_and),
    "or": _fold(np.logical_or),
    "not": np.logical_not,
    "ite": np.where,
    "floordiv": np.floor_divide,
    "floordiv_any": np.floor_divide,
    "floordiv_elem": np.floor_divide,
    "floormod_any": np.mod,
    "floormod_elem": np.mod,
    "truncdiv": _truncdiv,
    "truncmod": np.fmod,
    "bitand": _fold(np.bitwise_and),
    "bitor": _fold(np.bitwise_or),
    "bitxor": _fold(np.bitwise_xor),
    "bitnot": np.invert,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "recip": lambda x: np.asarray(1 / x, dtype=x.dtype),
    "min": _fold(np.minimum),
    "max": _fold(np.maximum),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "abs": np.abs,
    "neg": np.negative,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.asarray(1 / np.sqrt(x), dtype=x.dtype),
    "pow": np.power,
    "fmod": np.fmod,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "sigmoid": _sigmoid,
    "erf": lambda x: _erf(x).astype(x.dtype),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.round,
    "nearbyint": np.rint,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}

REDUCERS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.logical_and,
    "or": np.logical_or,
}
