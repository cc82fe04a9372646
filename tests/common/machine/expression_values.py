"""Values of expressions, of all threads at once: numbers, or arrays over the threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from opinfo.analysis.support.tvm_compat import TENSOR_LOAD, source_of

Array = npt.NDArray[Any]

_BINARY: dict[str, Any] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "FloorDiv": np.floor_divide,
    "FloorMod": np.mod, "LT": np.less, "LE": np.less_equal, "GT": np.greater,
    "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal, "Min": np.minimum,
    "Max": np.maximum, "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or,
    "LShift": np.left_shift, "RShift": np.right_shift,
}  # fmt: skip
_CALLS: dict[str, Any] = {
    "exp": np.exp, "sqrt": np.sqrt, "tanh": np.tanh, "fabs": np.abs, "floor": np.floor,
    "ceil": np.ceil, "log": np.log, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x), "pow": np.power, "round": np.round,
    "erf": np.vectorize(math.erf, otypes=[float]), "nearbyint": np.rint, "trunc": np.trunc,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "shift_left": np.left_shift, "shift_right": np.right_shift,
}  # fmt: skip


_EXTERN: dict[str, Any] = {
    "opinfo_exp": lambda x: np.where(np.exp(x / 2) < 2.0**-126, 0.0, np.exp(x / 2)) ** 2,
    "opinfo_rcp": lambda x: np.divide(1.0, np.where(np.abs(x) < 2.0**-126, 0.0 * x, x)),
}  # fmt: skip


class ExpressionValues:
    """Evaluates expressions for the threads in a mask; a subclass loads elements.

    Attributes:
        env: The values of variables.
        count: The number of threads.
        lane: Which lane of a vector is computed; None outside of vectors.
    """

    env: dict[Any, Any]
    count: int
    lane: int | None

    def load(self, b: Any, index: list[Any], mask: Array) -> Any:
        raise NotImplementedError

    def value(self, e: Any, mask: Array) -> Any:
        kind = type(e).__name__
        if kind in ("IntImm", "FloatImm"):
            return e.value if kind == "FloatImm" else int(e.value)
        if kind == "Var":
            return self.env[e]
        if kind == TENSOR_LOAD:
            return self.load(source_of(e), [self.value(i, mask) for i in e.indices], mask)
        if kind in _BINARY:
            return _BINARY[kind](self.value(e.a, mask), self.value(e.b, mask))
        rule = getattr(self, f"value_{kind}", None)
        assert rule is not None, f"the machine has no {kind}"
        return rule(e, mask)

    def value_And(self, e: Any, mask: Array) -> Any:
        a = np.broadcast_to(np.asarray(self.value(e.a, mask), bool), (self.count,))
        return a & np.asarray(self.value(e.b, mask & a), bool) if (mask & a).any() else a & False

    def value_Or(self, e: Any, mask: Array) -> Any:
        a = np.broadcast_to(np.asarray(self.value(e.a, mask), bool), (self.count,))
        return a | np.asarray(self.value(e.b, mask & ~a), bool) if (mask & ~a).any() else a | False

    def value_Not(self, e: Any, mask: Array) -> Any:
        return np.logical_not(self.value(e.a, mask))

    def value_Div(self, e: Any, mask: Array) -> Any:
        a, b = self.value(e.a, mask), self.value(e.b, mask)
        if "int" in str(e.ty.dtype):
            return np.trunc(np.asarray(a) / b).astype(np.int64)
        safe = np.where(mask, np.broadcast_to(np.asarray(b, float), (self.count,)), 1.0)
        return np.asarray(a) / safe

    def value_Cast(self, e: Any, mask: Array) -> Any:
        dtype = str(e.ty.dtype).split("x")[0]
        value = np.asarray(self.value(e.value, mask))
        return value.astype(np.float64 if "float" in dtype else np.dtype(dtype))

    def value_Ramp(self, e: Any, mask: Array) -> Any:
        assert self.lane is not None
        return self.value(e.base, mask) + self.lane * self.value(e.stride, mask)

    def value_Broadcast(self, e: Any, mask: Array) -> Any:
        return self.value(e.value, mask)

    def value_Let(self, e: Any, mask: Array) -> Any:
        self.env[e.var] = self.value(e.value, mask)
        return self.value(e.body, mask)

    def value_Select(self, e: Any, mask: Array) -> Any:
        return self.choice(e.condition, e.true_value, e.false_value, mask)

    def value_Call(self, e: Any, mask: Array) -> Any:
        name = str(e.op.name).split(".")[-1]
        if name == "call_pure_extern":
            return _EXTERN[e.args[0].value](*(self.value(a, mask) for a in e.args[1:]))
        if name == "func_call":  # the last argument is its source
            return _EXTERN[e.args[0].value](*(self.value(a, mask) for a in e.args[1:-1]))
        if name == "if_then_else":
            return self.choice(e.args[0], e.args[1], e.args[2], mask)
        if name == "likely":
            return self.value(e.args[0], mask)
        if name == "reinterpret":
            bits = np.asarray(self.value(e.args[0], mask), str(e.args[0].ty.dtype))
            return bits.view(np.dtype(str(e.ty.dtype))).astype(np.float64)
        if name not in _CALLS:
            raise KeyError(name)
        return _CALLS[name](*(self.value(a, mask) for a in e.args))

    def choice(self, condition: Any, yes: Any, no: Any, mask: Array) -> Any:
        c = np.broadcast_to(np.asarray(self.value(condition, mask), bool), (self.count,))
        if not (mask & ~c).any():
            return self.value(yes, mask)
        if not (mask & c).any():
            return self.value(no, mask)
        return np.where(c, self.value(yes, mask & c), self.value(no, mask & ~c))
