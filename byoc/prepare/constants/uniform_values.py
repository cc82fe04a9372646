"""Drop choices and terms that are decided for tensors of any size, as a mask that hides nothing.

Before: m = R.greater_equal(R.arange(0, n), R.const(0))            as torch exports it
        y = R.add(x, R.where(m, R.const(0.0), R.const(-inf)))
After:  y = x

Constants of a known size are folded; here the sizes are symbols. Adding 0.0 turns -0.0 into 0.0,
and is dropped, as the two are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax

from ....analysis.lifting.tir.node import NodeDict
from ....analysis.support.ir.call_ops import op_name
from ....analysis.support.tvm_compat import GenericConst, array_of
from ..mutation.bindings import final_value
from ..mutation.mutate import mutated, named

#: Numbers that no element is below or above.
Bounds = tuple[float, float]
_TRUE, _FALSE = (1.0, 1.0), (0.0, 0.0)
#: Operators in a row that are followed.
_DEPTH = 24
#: Operators that are read here for operands of type bool alone.
_OF_TRUTH = ("logical_not", "bitwise_not", "logical_and", "bitwise_and", "logical_or", "bitwise_or")
_SUMS = ("add", "subtract")
_MOVES = ("reshape", "permute_dims", "expand_dims", "squeeze", "broadcast_to", "strided_slice")


def fold_uniform_values(mod: Any) -> Any:
    """The module without choices and terms that are decided; the input is not changed.

    A module that updates tensors in place is returned: a result must not become another tensor.
    """
    functions = [f for f in mod.functions.values() if isinstance(f, relax.Function)]
    if not any(map(_is_symbolic, functions)) or any(map(_is_in_place, functions)):
        return mod
    return relax.transform.DeadCodeElimination()(mutated(mod, _Uniform(mod)))


def _is_in_place(func: Any) -> bool:
    calls: list[Any] = []
    tvm_ffi.structural_walk(func, (relax.Call, calls.append))
    return any("inplace" in op_name(call) for call in calls)


def _is_symbolic(func: Any) -> bool:
    return bool(relax.analysis.defined_symbolic_vars(func))


@relax.expr_functor.mutator
class _Uniform(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces choices and terms that the bounds of their operands decide."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.known: NodeDict[Bounds | None] = NodeDict()

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if named(call, "relax.where"):
            chosen = self.bounds(call.args[0])
            if chosen not in (_TRUE, _FALSE):
                return call
            return self.spread(call.args[1 if chosen == _TRUE else 2], call)
        if named(call, "relax.add"):
            for operand, term in (call.args, list(call.args)[::-1]):
                computed = isinstance(
                    final_value(self, operand), relax.Call
                )  # the result is not a parameter
                if computed and _same_type(operand, call) and self.bounds(term) == _FALSE:
                    return operand
        return call

    def spread(self, value: Any, call: Any) -> Any:
        """The value in the shape of the call."""
        if call.ty.shape is None:
            return call
        if _same_type(value, call) and isinstance(final_value(self, value), relax.Call):
            return value
        return relax.op.broadcast_to(value, call.ty.shape)

    def bounds(self, expr: Any, depth: int = _DEPTH) -> Bounds | None:
        """Bounds of the elements of a tensor without NaN; None if none are known."""
        if not isinstance(expr, relax.Var):
            return self.read(expr, depth)
        if expr not in self.known:
            self.known[expr] = self.read(expr, depth)
        return self.known[expr]

    def read(self, expr: Any, depth: int) -> Bounds | None:
        """Bounds of an expression that was not asked for before."""
        value = final_value(self, expr)
        if isinstance(value, GenericConst):
            return _of_array(np.asarray(array_of(value).numpy()))
        name = str(getattr(getattr(value, "op", None), "name", "")).removeprefix("relax.")
        if not name or depth == 0:
            return None
        if name in _MOVES:
            return self.bounds(value.args[0], depth - 1)
        if name == "arange":
            return _of_range(value)
        if name in ("full", "full_like"):
            filled = self.bounds(value.args[1], depth - 1)
            return filled if filled and _fits(filled, str(value.ty.dtype)) else None
        if name in ("zeros", "zeros_like", "ones", "ones_like"):
            return _TRUE if name.startswith("ones") else _FALSE
        return self.computed(name, value, depth)

    def computed(self, name: str, call: Any, depth: int) -> Bounds | None:
        """Bounds of the result of an elementwise operator."""
        if name not in _ELEMENTWISE and name not in ("astype", "where"):
            return None
        bounds = [self.bounds(arg, depth - 1) for arg in call.args]
        if name == "where":
            return _chosen(*bounds)
        known = [b for b in bounds if b is not None]
        if len(known) < len(bounds):
            return None
        dtype = str(call.ty.dtype)
        if name == "astype":
            return known[0] if _fits(known[0], dtype) else None
        if name in _OF_TRUTH and any(str(a.ty.dtype) != "bool" for a in call.args):
            return None
        result = _ELEMENTWISE[name](*known)
        if result is None or name not in _SUMS:
            return result
        return result if dtype == "int64" and _is_size(result) else None


def _chosen(condition: Bounds | None, first: Bounds | None, second: Bounds | None) -> Bounds | None:
    if condition in (_TRUE, _FALSE):
        return first if condition == _TRUE else second
    if first is None or second is None:
        return None
    return min(first[0], second[0]), max(first[1], second[1])


def _same_type(value: Any, call: Any) -> bool:
    known = value.ty.shape is not None and call.ty.shape is not None
    return known and bool(tvm_ffi.structural_equal(value.ty, call.ty))


def _of_array(array: Any) -> Bounds | None:
    numbers = array.astype("float64")
    if not numbers.size or np.isnan(numbers).any():
        return None
    within = float(numbers.min()), float(numbers.max())
    return within if array.dtype.kind == "f" or _is_size(within) else None


def _of_range(call: Any) -> Bounds | None:
    """The numbers of a range of integers that ascends; its end may be a symbol."""
    start, end, step = (_number(a) for a in call.args)
    whole = all(n is None or float(n).is_integer() for n in (start, end, step))
    if str(call.ty.dtype) != "int64" or not whole:
        return None  # other integers wrap, other numbers are rounded
    if start is None or step is None or step <= 0:
        return None
    return start, math.inf if end is None else max(start, end)


def _number(expr: Any) -> float | None:
    value = getattr(expr, "value", None)
    return float(value) if isinstance(value, (int, float)) else None


def _is_size(within: Bounds) -> bool:
    """Whether bounds are such of positions in tensors and differences of them, in 64 bits."""
    return not any(map(math.isnan, within)) and all(
        math.isinf(b) or abs(b) < 2.0**53 for b in within
    )


def _fits(within: Bounds, dtype: str) -> bool:
    """Whether a cast to a dtype keeps the bounds: small integers, or infinities of floats."""
    if dtype == "bool":
        return within in (_TRUE, _FALSE)
    if "int" in dtype and "float" not in dtype:
        info = np.iinfo(dtype)
        return all(float(b).is_integer() for b in within) and (
            info.min <= within[0] and within[1] <= info.max
        )
    return dtype in ("float16", "float32", "float64", "bfloat16") and all(
        math.isinf(b) or (float(b).is_integer() and abs(b) <= 256) for b in within
    )


def _compared(test: Callable[[float, float], bool], negated: Callable[[float, float], bool]) -> Any:
    """Whether a comparison holds for all elements, or for none."""

    def decide(a: Bounds, b: Bounds) -> Bounds:
        if test(a[0], b[1]):
            return _TRUE
        return _FALSE if negated(a[1], b[0]) else (0.0, 1.0)

    return decide


def _swapped(decide: Any) -> Any:
    return lambda a, b: decide(b, a)


def _least(a: Bounds, b: Bounds) -> Bounds:
    return min(a[0], b[0]), min(a[1], b[1])


def _greatest(a: Bounds, b: Bounds) -> Bounds:
    return max(a[0], b[0]), max(a[1], b[1])


_GREATER_EQUAL = _compared(lambda low, high: low >= high, lambda high, low: high < low)
_GREATER = _compared(lambda low, high: low > high, lambda high, low: high <= low)
_ELEMENTWISE: dict[str, Callable[..., Bounds | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "greater_equal": _GREATER_EQUAL,
    "greater": _GREATER,
    "less_equal": _swapped(_GREATER_EQUAL),
    "less": _swapped(_GREATER),
    "logical_not": lambda a: (1 - a[1], 1 - a[0]),
    "bitwise_not": lambda a: (1 - a[1], 1 - a[0]),
    "logical_and": _least,
    "bitwise_and": _least,
    "logical_or": _greatest,
    "bitwise_or": _greatest,
    "minimum": _least,
    "maximum": _greatest,
}
