"""The PrimFunc of an operator whose legalisation is one ``call_te`` over known shapes.

Nearly every ``FLegalize`` rule is ``return builder.call_te(function, *args)``. Three steps of
``BlockBuilder.call_te`` make the PrimFunc: placeholders for the tensors, the function on them, and
``create_prim_func``. The rest, more than half of the time, handles symbolic sizes, which do not
occur here, and calls the PrimFunc in a module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, te, tirx
from tvm.relax.expr import te_tensor

from ..lifting.tir.node import items


class _Unusual(Exception):
    """The rule or an argument is of a form that is left to TVM."""


class _RecordingBuilder:
    """A builder that records calls of ``call_te`` and supports nothing else."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def call_te(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> _RecordingBuilder:
        self.calls.append((function, args, kwargs))
        return self


def legalise_expression(rule: Any, call: Any) -> tuple[Any, tuple[Any, ...]] | None:
    """Return the PrimFunc and its tensor arguments; None if the rule is of another form.

    An error that the rule or its function raises for invalid arguments is passed on.
    """
    builder = _RecordingBuilder()
    try:
        result = rule(builder, call)
        is_one_call = result is builder and len(builder.calls) == 1
        return _created(*builder.calls[0]) if is_one_call else None
    except (_Unusual, AttributeError, TypeError):
        return None  # the rule may need more of a builder; it may be of this form for other calls


def _created(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...]]:
    kwargs.pop("primfunc_name_hint", None)
    attrs = kwargs.pop("primfunc_attrs", None)
    arguments = _Arguments()
    args, kwargs = arguments.converted(args), arguments.converted(kwargs)
    out = function(*args, **kwargs)
    outs = [out] if isinstance(out, te.Tensor) else list(out)
    if not all(isinstance(t, te.Tensor) and _is_literal(t.shape) for t in outs):
        raise _Unusual
    func = te.create_prim_func([*arguments.placeholders, *outs], "int64")
    func = func.with_attrs(attrs) if attrs else func
    return func.without_attr("global_symbol"), tuple(arguments.tensors)


def _is_literal(shape: Any) -> bool:
    return all(type(e) is tirx.IntImm for e in items(shape))


class _Arguments:
    """The tensors among the arguments of ``call_te``, and their placeholders, in order."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.placeholders: list[Any] = []

    def converted(self, arg: Any) -> Any:
        """Return an argument with placeholders for tensors."""
        kind = type(arg)
        if arg is None or kind in _PLAIN:
            return arg
        if kind is relax.Var:
            return self.placeholder(arg)
        if kind is tuple:
            return tuple([self.converted(x) for x in arg])
        if kind is dict:
            return {k: self.converted(x) for k, x in arg.items()}
        if kind is list:
            return [self.converted(x) for x in arg]
        if kind is tvm_ffi.Array:
            return [self.converted(x) for x in items(arg)]
        if kind is relax.ShapeExpr:
            return [self.converted(x) for x in items(arg.values)]
        if isinstance(arg, str | tvm.ir.Type | tvm.ir.Attrs):
            return arg
        raise _Unusual

    def placeholder(self, var: Any) -> Any:
        """Return the placeholder of a tensor; its shape must be known."""
        ty = var.ty
        if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
            raise _Unusual
        if not _is_literal(ty.shape.values):
            raise _Unusual
        tensor = te_tensor(var, {}, var.name)
        self.tensors.append(var)
        self.placeholders.append(tensor)
        return tensor


#: Types of arguments that are passed on unchanged.
_PLAIN = frozenset({int, float, bool, str, tirx.IntImm, tirx.FloatImm})
