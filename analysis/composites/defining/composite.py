"""Register an operator by its definition in Relax operators."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx
from tvm.ir import Op, register_op_attr

from ...lifting.tir.node import items
from ...support.ir.constructors import register_constructor
from .definition import evaluate, inferred

Definition = Callable[..., Any]


def composite(name: str) -> Callable[[Definition], Definition]:
    """Register an operator that Relax operators define.

    It returns a decorator of the definition, which returns the constructor of the operator:

        @composite("relax.nn.scaled_tanh")
        def scaled_tanh(data, *, scale=1.0):
            \"\"\"Return ``tanh(scale * data)``.\"\"\"
            factor = relax.const(scale, str(data.ty.dtype))
            return relax.op.tanh(relax.op.multiply(data, factor))

    The definition's positional parameters are the tensor operands; those with the default None may
    be left out at the end. Its keyword-only parameters are the attributes: numbers, booleans,
    text, and lists of these. It returns a Relax expression over the operands, whose types it may
    read, or a tuple of such expressions for several results. It raises ValueError for an operand or
    attribute that the operator does not accept. Its docstring is the operator's.

    Type inference evaluates the definition. Legalisation evaluates it on TE tensors, which gives
    one PrimFunc, and inlines its stages. Operators whose legalisation is not one call of TE, and
    constant tensors, cannot be in a definition; for a range use ``relax.op.arange``.

    Args:
        name: The operator's name in TVM's registry, ``relax.nn.<constructor>``. Registering a name
            again replaces its definition.

    Returns:
        The decorator.
    """

    def register(definition: Definition) -> Definition:
        operator = _Composite(name, definition, _Signature.of(definition))

        @wraps(definition)
        def constructor(*args: Any, **kwargs: Any) -> Any:
            return operator.call(*args, **kwargs)

        register_constructor(name, constructor)
        _times[name] = level = _times.get(name, LEVEL) + 1
        register_op_attr(name, "FInferType", operator.infer, level)
        register_op_attr(name, "FLegalize", operator.legalise, level)
        register_op_attr(name, "FPurity", True, level)
        return constructor

    return register


#: TVM replaces an attribute of an operator only by one of a higher level.
LEVEL = 10
_times: dict[str, int] = {}


@dataclass(frozen=True)
class _Signature:
    """The tensor operands of a definition, how many of them are required, and its attributes."""

    signature: inspect.Signature
    operands: tuple[str, ...]
    required: int
    attrs: tuple[str, ...]

    @classmethod
    def of(cls, definition: Definition) -> _Signature:
        signature = inspect.signature(definition)
        parameters = signature.parameters.values()
        operands = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        attrs = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        if len(operands) + len(attrs) != len(parameters):
            raise TypeError(f"composite {definition.__qualname__}: it has *args or **kwargs")
        required = sum(p.default is p.empty for p in operands)
        return cls(signature, tuple(p.name for p in operands), required, tuple(attrs))


@dataclass(frozen=True)
class _Composite:
    """An operator that is registered: TVM calls its methods to infer types and to legalise."""

    name: str
    definition: Definition
    signature: _Signature

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Return a call of the operator."""
        bound = self.signature.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        operands = [bound.arguments[k] for k in self.signature.operands]
        while len(operands) > self.signature.required and operands[-1] is None:
            operands.pop()
        for key, operand in zip(self.signature.operands, operands, strict=False):
            if not isinstance(operand, ir.Expr):
                raise TypeError(f"{self.name}: {key}: expected a Relax expression, got {operand!r}")
        attrs = {k: self._checked(k, bound.arguments[k]) for k in self.signature.attrs}
        return relax.Call(Op.get(self.name), operands, ir.make_node("ir.DictAttrs", **attrs))

    def _checked(self, key: str, value: Any) -> Any:
        plain = plain_value(value)
        flat = plain if isinstance(plain, list) else [plain]
        if not all(v is None or isinstance(v, (bool, int, float, str)) for v in flat):
            raise TypeError(f"{self.name}: {key}: expected a plain value, got {value!r}")
        return plain

    def infer(self, call: Any, builder: Any) -> Any:
        """Return the type of a call."""
        count = len(call.args)
        if not self.signature.required <= count <= len(self.signature.operands):
            raise ValueError(f"{self.name}: got {count} operands")
        return inferred(self._defined(call), [a.ty for a in call.args])

    def legalise(self, builder: Any, call: Any) -> Any:
        """Return the call of a PrimFunc that computes the definition."""
        kernel = evaluate(self._defined(call))
        short = self.name.rpartition(".")[2]
        return builder.call_te(kernel, *call.args, primfunc_name_hint=short)

    def _defined(self, call: Any) -> Callable[..., Any]:
        attrs = attributes(call)
        return lambda *operands: self.definition(*operands, **attrs)


def attributes(call: Any) -> Mapping[str, Any]:
    """Return the attributes of a call of a composite as plain values."""
    return {str(k): plain_value(v) for k, v in call.attrs.items()}


def plain_value(value: Any) -> Any:
    """Return a value of TVM as a Python value; any other one is returned unchanged."""
    if isinstance(value, tvm_ffi.Array):
        return [plain_value(v) for v in items(value)]
    if isinstance(value, (list, tuple)):
        return [plain_value(v) for v in value]
    if isinstance(value, (tirx.IntImm, tirx.FloatImm)):
        return value.value
    return str(value) if isinstance(value, str) else value
