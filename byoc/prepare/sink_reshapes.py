"""Sink reshapes below elementwise operators, which then stand next to their producers.

Before: y = R.reshape(x, (1, 128, 3072)); z = R.erf(y); w = R.add(z, R.const(1.0))
After:  z = R.erf(x); w0 = R.add(z, R.const(1.0)); w = R.reshape(w0, (1, 128, 3072))

The elements are bit-equal. Consecutive reshapes become one.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import relax
from tvm.ir import Op as IrOp

from ...analysis.support.tvm_compat import GenericConst
from .mutation.mutate import mutated

_NAMES = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "erf", "tanh",
          "sigmoid", "exp", "log", "sqrt", "square", "abs", "negative", "clip", "nn.relu",
          "nn.gelu", "nn.gelu_tanh", "nn.silu", "nn.leakyrelu")  # fmt: skip
POINTWISE = frozenset(f"relax.{n}" for n in _NAMES)


def sink_reshapes(mod: Any) -> Any:
    """The module with reshapes sunk; the input is not changed."""
    return relax.transform.DeadCodeElimination()(mutated(mod, _Sink(mod)))


@relax.expr_functor.mutator
class _Sink(relax.PyExprMutator):  # type: ignore[misc]
    """Moves reshapes below elementwise operators."""

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if _name(call) == "relax.reshape":
            return self.merged(call)
        return self.sunk(call) if _name(call) in POINTWISE else call

    def merged(self, call: Any) -> Any:
        """Two consecutive reshapes as one, or as none if the shape is the original one."""
        first = self.reshape(call.args[0])
        source = call.args[0] if first is None else first.args[0]
        if tvm_ffi.structural_equal(source.ty.shape, call.args[1]):
            return source
        return call if first is None else relax.op.reshape(source, call.args[1])

    def sunk(self, call: Any) -> Any:
        """The reshape of an operator on operands before their reshapes."""
        reshapes = [self.reshape(a) for a in call.args]
        first = next((r for r in reshapes if r is not None), None)
        if first is None:
            return call
        old, new = first.args[0].ty.shape, first.args[1]
        args = [self.operand(a, r, old, new) for a, r in zip(call.args, reshapes, strict=True)]
        if any(a is None for a in args) or not tvm_ffi.structural_equal(call.ty.shape, new):
            return call
        result = self.builder_.emit(relax.Call(call.op, args, call.attrs, call.ty_args))
        return relax.op.reshape(result, new)

    def operand(self, arg: Any, reshape: Any, old: Any, new: Any) -> Any:
        """An operand in the shape before the reshape; None if it has no such form."""
        if reshape is not None:
            same = tvm_ffi.structural_equal(reshape.args[0].ty.shape, old)
            same = same and tvm_ffi.structural_equal(reshape.args[1], new)
            return reshape.args[0] if same else None
        if not isinstance(arg.ty, relax.TensorType):
            return arg
        if not isinstance(arg, GenericConst) or arg.ty.ndim > 1:
            return None
        along = arg.ty.ndim == 0 or _last(old) == _last(new) == _last(arg.ty.shape)
        return arg if along else None

    def reshape(self, expr: Any) -> Any:
        """The reshape that a variable is bound to, if the operand of that is in scope here too."""
        call = self.lookup_binding(expr) if isinstance(expr, relax.Var) else None
        if call is None or _name(call) != "relax.reshape":
            return None
        local = isinstance(call.args[0], relax.DataflowVar)
        has_shape = getattr(call.args[0].ty, "shape", None) is not None
        return (
            call if has_shape and not (local and not isinstance(expr, relax.DataflowVar)) else None
        )


def _last(shape: Any) -> int | None:
    """The last extent if it is a number."""
    extent = shape.values[-1] if len(shape.values) else None
    return int(extent) if extent is not None and hasattr(extent, "value") else None


def _name(expr: Any) -> str:
    op = getattr(expr, "op", None)
    return str(op.name) if isinstance(op, IrOp) else ""
