"""Evaluate a definition in Relax operators: its type, and its value on TE tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, relax, te, tirx, topi

from ...lifting.tir.node import NodeDict, items
from ...support.tvm_compat import GenericConst, array_of
from .inline_stages import inlined
from .scatter_stage import scatter_nd

#: A function of Relax variables that returns a Relax expression.
Defined = Callable[..., Any]


def inferred(defined: Defined, types: Sequence[Any]) -> Any:
    """Return the type of a definition on operands of these types."""
    return _normalised(defined, [relax.Var(f"x{k}", t) for k, t in enumerate(types)])[1].ty


def evaluate(defined: Defined) -> Callable[..., Any]:
    """Return the definition as a function of TE tensors.

    Its operators are legalised one by one, each on the tensors that the ones before it return.

    Raises:
        ValueError: The legalisation of an operator is not one call of TE.
    """

    def kernel(*tensors: Any) -> Any:
        variables = [
            relax.Var(f"x{k}", relax.TensorType(items(t.shape), str(t.dtype)))
            for k, t in enumerate(tensors)
        ]
        bindings, result = _normalised(defined, variables)
        values = _Values()
        for variable, tensor in zip(variables, tensors, strict=True):
            values.known[variable] = tensor
        for binding in bindings:
            values.known[binding.var] = values.of(binding.value)
        return inlined(values.of(result))

    return kernel


def _normalised(defined: Defined, variables: Sequence[Any]) -> tuple[list[Any], Any]:
    """The bindings of a definition, in order, and its result over them."""
    builder = relax.BlockBuilder()
    builder._begin_binding_block()
    try:
        result = defined(*variables)
        if isinstance(result, (tuple, list)):
            result = relax.Tuple([builder.normalize(r) for r in result])
        result = builder.normalize(result)
    finally:  # a builder that is destroyed with an open block says so on standard error
        block = builder._end_block()
    return items(block.bindings), result


class _Values:
    """The TE tensors of Relax expressions; it is the builder that legalisations are called with."""

    def __init__(self) -> None:
        self.known = NodeDict[Any]()

    def of(self, expr: Any) -> Any:
        """Return the tensor of an expression, or the tuple of tensors."""
        if isinstance(expr, relax.Var):
            return self.known[expr]
        if isinstance(expr, relax.Tuple):
            return tuple(self.of(field) for field in items(expr.fields))
        if isinstance(expr, relax.TupleGetItem):
            return self.of(expr.tuple_value)[expr.index]
        if not isinstance(expr, ir.Call) or not isinstance(expr.op, ir.Op):
            raise ValueError(f"a composite's definition cannot have {type(expr).__name__} {expr}")
        name = str(expr.op.name)
        rule = _RULES.get(name) or expr.op.get_attr("FLegalize")
        result = None if rule is None else rule(self, expr)
        if not isinstance(result, (te.Tensor, list, tuple, tvm_ffi.Array)):
            raise ValueError(f"a composite's definition cannot have {name}: it is not one TE call")
        return result

    def call_te(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return the result of a TE function on the tensors of Relax expressions."""
        named = {k: v for k, v in kwargs.items() if not k.startswith("primfunc_")}
        out = function(
            *map(self._argument, args), **{k: self._argument(v) for k, v in named.items()}
        )
        return out if isinstance(out, te.Tensor) else tuple(out)

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, (list, tuple, tvm_ffi.Array)):
            return [self._argument(a) for a in arg]
        if isinstance(arg, relax.ShapeExpr):
            return items(arg.values)
        if isinstance(arg, relax.Tuple):
            return [self._argument(a) for a in items(arg.fields)]
        if isinstance(arg, GenericConst):
            return _scalar(arg)
        is_tensor = isinstance(arg, relax.Var) and arg in self.known  # a size is a variable too
        return self.known[arg] if is_tensor else arg


def _scalar(constant: Any) -> Any:
    value = array_of(constant).numpy()
    if value.ndim:
        raise ValueError("a composite's definition cannot have a constant tensor; use arange")
    return te.compute((), lambda: tirx.const(value.item(), str(constant.ty.dtype)), "constant")


def _arange(builder: _Values, call: Any) -> Any:
    """A range as a compute; TVM folds a literal one to a constant."""
    start, end, step = call.args
    return builder.call_te(topi.arange, start, end, step, str(call.attrs.dtype))


def _expand_dims(builder: _Values, call: Any) -> Any:
    """New axes; TVM's rule needs the builder of a module."""
    rank = len(call.ty.shape)
    new = {int(axis) % rank for axis in call.attrs.axis}

    def expanded(data: Any) -> Any:
        kept = [k for k in range(rank) if k not in new]
        return te.compute(call.ty.shape, lambda *i: data(*(i[k] for k in kept)))

    return builder.call_te(expanded, call.args[0])


def _scatter_nd(builder: _Values, call: Any) -> Any:
    """Stores at the coordinates themselves, not at one flat address."""

    def scattered(*tensors: Any) -> Any:
        data, indices, updates = inlined(tensors)
        return scatter_nd(data, indices, updates, str(call.attrs.reduction))

    return builder.call_te(scattered, *call.args)


def _matmul(builder: _Values, call: Any) -> Any:
    """A product of matrices or batches; TVM's rule needs the builder of a module."""
    shape, dtype = items(call.ty.shape.values), _dtype(call.attrs.out_dtype)
    vectors = [len(arg.ty.shape) == 1 for arg in call.args]

    def product(*tensors: Any) -> Any:
        depth = te.reduce_axis((0, tensors[0].shape[-1]), name="k")

        def element(*y: Any) -> Any:
            columns = () if vectors[1] else y[-1:]
            rest = y[: len(y) - len(columns)]
            rows = () if vectors[0] else rest[-1:]
            batch = rest[: len(rest) - len(rows)]
            places = ((*rows, depth), (depth, *columns))
            a, b = (
                tensor(*_batch(tensor.shape[: -len(place)], batch), *place)
                for tensor, place in zip(tensors, places, strict=True)
            )
            return te.sum(a.astype(dtype) * b.astype(dtype) if dtype else a * b, axis=depth)

        return te.compute(shape, element, name="matmul")

    return builder.call_te(product, *call.args)


def _dtype(value: Any) -> str:
    """The name of an optional dtype, which TVM has as None or void; empty for none."""
    name = "" if value is None else str(value)
    return "" if name == "void" else name


def _batch(extents: Any, indices: tuple[Any, ...]) -> list[Any]:
    """The indices of batch axes, aligned at the end; an axis of extent 1 is broadcast."""
    aligned = indices[len(indices) - len(extents) :]
    return [
        0 if isinstance(extent, tirx.IntImm) and extent.value == 1 else index
        for extent, index in zip(items(extents), aligned, strict=True)
    ]


#: Rules in place of TVM's.
_RULES = {
    "relax.arange": _arange,
    "relax.expand_dims": _expand_dims,
    "relax.matmul": _matmul,
    "relax.scatter_nd": _scatter_nd,
}
