"""The elements of tensors that depend on constants only, such as a causal mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import Op as IrOp

from ....analysis.lifting.tir.node import NodeDict
from ....analysis.proposal.legalise import legalise_module
from ....analysis.support.tvm_compat import GenericConst, array_of
from ..mutation.bindings import resolved
from .constant_calls import LARGEST
from .fold_constants import fold_constants

Array = npt.NDArray[Any]
#: Operators that a tensor may be computed by at most: masks have a dozen.
MOST = 64
_NUMBERS = (tvm.tirx.IntImm, tvm.tirx.FloatImm)


class ConstantValues:
    """Elements of expressions, computed once for expressions that are alike.

    Args:
        bound: What a variable is bound to; None if that is not known.
    """

    def __init__(self, bound: Callable[[Any], Any]) -> None:
        self._bound = bound
        self._known: list[tuple[Any, Array | None]] = []

    def __call__(self, expr: Any) -> Array | None:
        """The elements; None if they depend on a parameter, or may not be computed here."""
        value = self._value(expr)
        if isinstance(value, GenericConst):
            return _elements(value)
        calls: NodeDict[Any] = NodeDict()
        if not self._collect(expr, calls):
            return None
        mod = _module(expr, calls)
        for other, array in self._known:
            if tvm_ffi.structural_equal(mod, other):
                return array
        self._known.append((mod, _computed(mod)))
        return self._known[-1][1]

    def _value(self, expr: Any) -> Any:
        while isinstance(expr, relax.Var) and (value := self._bound(expr)) is not None:
            expr = value
        return expr

    def _collect(self, expr: Any, calls: NodeDict[Any]) -> bool:
        """Collect the calls behind a variable, operands first; False if one is unknown."""
        if not isinstance(expr, relax.Var):
            shape = isinstance(expr, relax.ShapeExpr) and all(hasattr(e, "value") for e in expr)
            return shape or isinstance(expr, (GenericConst, *_NUMBERS))
        if expr in calls:
            return True
        value = self._value(expr)
        if isinstance(value, GenericConst):
            calls[expr] = value
            return True
        if not _is_small(value) or len(list(calls.items())) >= MOST:
            return False
        if not all(self._collect(a, calls) for a in value.args):
            return False
        calls[expr] = value
        return True


def _is_small(value: Any) -> bool:
    """Whether this is a call of an operator with a tensor of known, moderate size."""
    op, ty = getattr(value, "op", None), getattr(value, "ty", None)
    if not isinstance(op, IrOp) or op.name.startswith("relax.call") or "random" in op.name:
        return False
    extents = getattr(getattr(ty, "shape", None), "values", None)
    if extents is None or not all(hasattr(e, "value") for e in extents):
        return False
    return int(np.prod([int(e.value) for e in extents], dtype="float64")) * 8 <= LARGEST


def _module(expr: Any, calls: NodeDict[Any]) -> Any:
    """A function without parameters that returns a tensor."""
    builder = relax.BlockBuilder()
    new: NodeDict[Any] = NodeDict()
    with builder.function("main", []):
        with builder.dataflow():
            for var, value in calls.items():
                if not isinstance(value, GenericConst):
                    args = [new[a] if isinstance(a, relax.Var) else a for a in value.args]
                    value = relax.Call(value.op, args, value.attrs, value.ty_args)
                new[var] = builder.emit(value)
            result = builder.emit_output(new[expr])
        builder.emit_func_output(result)
    return builder.get()


def _computed(mod: Any) -> Array | None:
    """The result of a function without parameters; None if folding leaves operators."""
    folded = fold_constants(legalise_module(mod))["main"]
    bound: NodeDict[Any] = NodeDict()
    tvm_ffi.structural_walk(folded, (relax.VarBinding, lambda b: bound.__setitem__(b.var, b.value)))
    value = resolved(folded.body.body, bound)
    return _elements(value) if isinstance(value, GenericConst) else None


def _elements(constant: Any) -> Array:
    return np.asarray(array_of(constant).numpy())
