"""Lower attention where TVM's rule fails, or computes another function.

TVM's rule compares the sizes of its products with variables only, and fails on a number of keys
such as the length of a cache plus one, ``p + 1``. It reads keys and values as if they had the heads
of the queries: with fewer, each must be repeated first, as Relax's attention shares heads.

    Before:  R.nn.attention(q, k, v)      of 8 heads, and 2 of keys and values
    After:   R.nn.attention(q, f(k), f(v))  with f(k)[b, s, h, d] = k[b, s, h // 4, d]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, te, tirx
from tvm.ir import register_op_attr

from ...support.tvm_compat import sym

_OPERATORS = ("relax.nn.attention", "relax.nn.attention_bias")


def over_variables(name: str) -> Callable[[Any, Any], Any]:
    """Return TVM's rule of an operator, applied to operands whose symbolic sizes are variables.

    The call passes the operands themselves: their sizes determine the variables.
    """
    rule = tvm.ir.Op.get(name).get_attr("FLegalize")

    def lower(builder: Any, call: Any) -> Any:
        call = _with_own_heads(builder, call)
        if not any(_is_expression(e) for a in call.args for e in _shape(a)):
            return rule(builder, call)
        known: list[tuple[Any, Any]] = []
        operands = [_operand(f"x{k}", a, known) for k, a in enumerate(call.args)]
        inner = relax.BlockBuilder()
        with inner.function("main", operands):
            same = inner.normalize(relax.Call(call.op, operands, call.attrs, call.ty_args))
            lowered = inner.emit(rule(inner, same))
            inner.emit_func_output(lowered)
        bound = inner.get()["main"].body.blocks[0].bindings[-1].value
        gvar = builder.add_func(inner.get()[bound.args[0]], "attention")
        return relax.call_tir(gvar, list(call.args), out_ty=call.ty)

    return lower


def register() -> None:
    """Replace TVM's rules, which all its passes use; elsewhere they do what they did."""
    for name in _OPERATORS:
        register_op_attr(name, "FLegalize", over_variables(name), level=11)


def _with_own_heads(builder: Any, call: Any) -> Any:
    """Return attention in which each head of the queries has keys and values of its own."""
    query, *others = call.args
    shapes = [_shape(operand) for operand in (query, *others[:2])]
    if not all(shapes):
        return call
    heads = shapes[0][2]
    changed = False
    for k, shape in enumerate(shapes[1:]):
        if not sym.Analyzer().can_prove_equal(heads, shape[2]):
            others[k] = builder.emit_te(_repeated, others[k], heads, primfunc_name_hint="heads")
            changed = True
    if not changed:
        return call
    return builder.normalize(relax.Call(call.op, [query, *others], call.attrs, call.ty_args))


def _repeated(x: Any, heads: Any) -> Any:
    batch, length, shared, size = x.shape
    return te.compute(
        (batch, length, heads, size),
        lambda b, s, h, d: x[b, s, tirx.floordiv(h, tirx.floordiv(heads, shared)), d],
        name="heads",
    )


def _shape(operand: Any) -> list[Any]:
    shape = getattr(operand.ty, "shape", None)
    return list(shape.values) if isinstance(shape, relax.ShapeExpr) else []


def _is_expression(extent: Any) -> bool:
    return not (isinstance(extent, tvm.tirx.IntImm) or tvm.ir.is_prim_var(extent))


def _operand(name: str, value: Any, known: list[tuple[Any, Any]]) -> Any:
    """Return a parameter for an operand; equal expressions become the same variable."""
    return relax.Var(name, relax.TensorType([_extent(e, known) for e in _shape(value)],
                                            value.ty.dtype))  # fmt: skip


def _extent(extent: Any, known: list[tuple[Any, Any]]) -> Any:
    if not _is_expression(extent):
        return extent
    for value, variable in known:
        if sym.Analyzer().can_prove_equal(value, extent):
            return variable
    known.append((extent, tvm.tirx.Var(f"m{len(known)}", "int64")))
    return known[-1][1]
