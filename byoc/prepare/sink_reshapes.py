"""Reshapes after what is element by element, so that it stands next to what made the elements.

Before: y = R.reshape(x, (1, 128, 3072)); z = R.erf(y); w = R.add(z, R.const(1.0))
After:  z = R.erf(x); w0 = R.add(z, R.const(1.0)); w = R.reshape(w0, (1, 128, 3072))

The elements are the same, bit for bit, and one reshape after another is one of them.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import relax
from tvm.ir import Op as IrOp

from ...analysis.support.tvm_compat import GenericConst
from .qdq import with_attrs

_NAMES = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "erf", "tanh",
          "sigmoid", "exp", "log", "sqrt", "square", "abs", "negative", "clip", "nn.relu",
          "nn.gelu", "nn.gelu_tanh", "nn.silu", "nn.leakyrelu")  # fmt: skip
POINTWISE = frozenset(f"relax.{n}" for n in _NAMES)


def sink_reshapes(mod: Any) -> Any:
    """The module with reshapes moved; the input is not changed."""
    writer = _Sink(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function):
            writer.builder_.update_func(gvar, writer.visit_expr(func))
    return relax.transform.DeadCodeElimination()(with_attrs(writer.builder_.get(), mod))


@relax.expr_functor.mutator
class _Sink(relax.PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if _name(call) == "relax.reshape":
            return self.once(call)
        return self.before(call) if _name(call) in POINTWISE else call

    def once(self, call: Any) -> Any:
        """Of two reshapes the last one; none where the shape is that before."""
        made = self.reshape(call.args[0])
        source = call.args[0] if made is None else made.args[0]
        if tvm_ffi.structural_equal(source.ty.shape, call.args[1]):
            return source
        return call if made is None else relax.op.reshape(source, call.args[1])

    def before(self, call: Any) -> Any:
        """The operator on what its operands are reshapes of."""
        given = [self.reshape(a) for a in call.args]
        found = next((g for g in given if g is not None), None)
        if found is None:
            return call
        old, new = found.args[0].ty.shape, found.args[1]
        args = [self.operand(a, g, old, new) for a, g in zip(call.args, given, strict=True)]
        if any(a is None for a in args) or not tvm_ffi.structural_equal(call.ty.shape, new):
            return call
        made = self.builder_.emit(relax.Call(call.op, args, call.attrs, call.ty_args))
        return relax.op.reshape(made, new)

    def operand(self, arg: Any, made: Any, old: Any, new: Any) -> Any:
        """What stands for an operand before the reshape; None if nothing does."""
        if made is not None:
            same = tvm_ffi.structural_equal(made.args[0].ty.shape, old)
            return made.args[0] if same and tvm_ffi.structural_equal(made.args[1], new) else None
        if not isinstance(arg.ty, relax.TensorType):
            return arg
        if not isinstance(arg, GenericConst) or arg.ty.ndim > 1:
            return None
        along = arg.ty.ndim == 0 or _last(old) == _last(new) == _last(arg.ty.shape)
        return arg if along else None

    def reshape(self, e: Any) -> Any:
        """The reshape that a variable is bound to, if what it reads can be read here too."""
        found = self.lookup_binding(e) if isinstance(e, relax.Var) else None
        if found is None or _name(found) != "relax.reshape":
            return None
        local = isinstance(found.args[0], relax.DataflowVar)
        known = getattr(found.args[0].ty, "shape", None) is not None
        return found if known and not (local and not isinstance(e, relax.DataflowVar)) else None


def _last(shape: Any) -> int | None:
    """A last extent that is a number."""
    extent = shape.values[-1] if len(shape.values) else None
    return int(extent) if extent is not None and hasattr(extent, "value") else None


def _name(e: Any) -> str:
    op = getattr(e, "op", None)
    return str(op.name) if isinstance(op, IrOp) else ""
