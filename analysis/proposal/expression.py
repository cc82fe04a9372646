"""The PrimFunc of an operator whose legalisation is one tensor expression over known shapes.

Nearly every ``FLegalize`` rule is ``return builder.call_te(function, *args)``. What makes the
PrimFunc in ``BlockBuilder.call_te`` are three steps: placeholders for the tensors, the function on
them, ``create_prim_func``. The rest of it, more than half of the time, is for symbolic sizes, of
which there are none here, and for the call of the PrimFunc in a module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, te, tirx
from tvm.relax.expr import te_tensor

from ..lifting.tir.node import NodeDict, items


class _Unusual(Exception):
    """An argument that is left to TVM."""


class _Asked:
    """A builder that notes the expressions it is asked for, and knows nothing else."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def call_te(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> _Asked:
        self.calls.append((function, args, kwargs))
        return self


#: Rules that were found to need more of a builder: they are not asked again.
_needy = NodeDict[str]()


def expressed(rule: Any, call: Any) -> tuple[Any, tuple[Any, ...]] | None:
    """The PrimFunc and the tensors it is to be called with; None if the rule is of another form.

    Raises what the rule and its function raise where they reject their arguments.
    """
    if rule in _needy:
        return None
    asked = _Asked()
    try:
        told = rule(asked, call)
        return _made(*asked.calls[0]) if told is asked and len(asked.calls) == 1 else None
    except _Unusual:
        return None
    except (AttributeError, TypeError) as e:
        _needy[rule] = str(e)
        return None


def _made(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...]]:
    kwargs.pop("primfunc_name_hint", None)
    attrs = kwargs.pop("primfunc_attrs", None)
    given = _Arguments()
    args, kwargs = given.converted(args), given.converted(kwargs)
    out = function(*args, **kwargs)
    outs = [out] if isinstance(out, te.Tensor) else list(out)
    if not all(isinstance(t, te.Tensor) and _known(t.shape) for t in outs):
        raise _Unusual
    func = te.create_prim_func([*given.placeholders, *outs], "int64")
    func = func.with_attrs(attrs) if attrs else func
    return func.without_attr("global_symbol"), tuple(given.tensors)


def _known(shape: Any) -> bool:
    return all(type(e) is tirx.IntImm for e in items(shape))


class _Arguments:
    """The tensors among the arguments of an expression, and their placeholders, in order."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.placeholders: list[Any] = []

    def converted(self, arg: Any) -> Any:
        """An argument as the function of an expression takes it."""
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

    def placeholder(self, x: Any) -> Any:
        """A tensor of which the shape is known."""
        ty = x.ty
        if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
            raise _Unusual
        if not _known(ty.shape.values):
            raise _Unusual
        made = te_tensor(x, {}, x.name)
        self.tensors.append(x)
        self.placeholders.append(made)
        return made


#: Types of arguments that stay as they are.
_PLAIN = frozenset({int, float, bool, str, tirx.IntImm, tirx.FloatImm})
