"""Assertions of a torch program on its data: a call fails where torch fails.

Before: `_check(x.item() >= 0); return y`; after: `return call_tir(asserted, (y, x >= 0))`, whose
PrimFunc asserts the conditions and copies y. So no pass can drop them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from tvm import relax, te

from .arguments import Converter

#: A condition, a tensor without axes, and what is said if it is false.
Assertion = tuple[Any, str]
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Equality": relax.op.equal, "Unequality": relax.op.not_equal,
    "StrictLessThan": relax.op.less, "LessThan": relax.op.less_equal,
    "StrictGreaterThan": relax.op.greater, "GreaterThan": relax.op.greater_equal,
}  # fmt: skip
_NARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": relax.op.add, "Mul": relax.op.multiply, "And": relax.op.logical_and,
    "Or": relax.op.logical_or, "Max": relax.op.maximum, "Min": relax.op.minimum,
}  # fmt: skip
#: TVM's ``op_pattern`` of what is not fused.
_OPAQUE = 8


def asserted(builder: Any, value: Any, assertions: Sequence[Assertion]) -> Any:
    """Return a copy of a tensor that fails unless all conditions hold."""

    def compute(*tensors: Any) -> Any:
        messages = [message for _, message in assertions]
        return te.extern([tensors[0].shape], list(tensors),
                         lambda ins, outs: _body(ins, outs[0], messages),
                         dtype=str(tensors[0].dtype), name="asserted")  # fmt: skip

    return builder.emit_te(compute, value, *(c for c, _ in assertions),
                           primfunc_name_hint="asserted",
                           primfunc_attrs={"op_pattern": _OPAQUE})  # fmt: skip


def assert_none(importer: Any, condition: Any, message: str) -> None:
    """Assert that no element of a tensor of truth values is true."""
    emit = importer.block_builder.emit
    count = emit(relax.op.astype(condition, "uint8"))
    if count.ty.ndim:
        count = emit(relax.op.max(count))
    importer.assertions.append((emit(relax.op.equal(count, relax.const(0, "uint8"))), message))


def _body(ins: Sequence[Any], out: Any, messages: Sequence[str]) -> Any:
    from tvm.script.ir_builder import IRBuilder
    from tvm.script.ir_builder import tirx as T

    value, *conditions = ins
    with IRBuilder() as builder, T.seq_scope():
        for condition, message in zip(conditions, messages, strict=True):
            with T.Assert(condition[()], message, "ValueError"):
                T.evaluate(0)
        with ExitStack() as loops:
            at = [loops.enter_context(T.serial(0, size)) for size in value.shape]
            T.buffer_store(out, value[tuple(at)], at)
    return builder.get()


def _assert_async(importer: Any, node: Any) -> Any:
    """Keep an assertion that a tensor is not 0."""
    emit, condition = importer.block_builder.emit, importer.env[node.args[0]]
    condition = emit(relax.op.reshape(emit(relax.op.astype(condition, "bool")), ()))
    message = node.args[1] if len(node.args) > 1 else node.kwargs.get("assert_msg", "")
    importer.assertions.append((condition, str(message) or "an assertion of the model is false"))
    return condition


def _assert_scalar(importer: Any, node: Any) -> Any:
    """Keep an assertion on numbers from tensors; those on sizes alone are guards.

    Raises:
        NotImplementedError: It has more than sums, products and comparisons.
    """
    condition = getattr(node.args[0], "meta", {}).get("val")
    expr = getattr(getattr(condition, "node", None), "expr", None)
    if expr is None or not any(str(s) in importer.items for s in expr.free_symbols):
        return None
    message = f"the model asserts {expr}, which is false"
    importer.assertions.append((_tensor(importer, expr), message))
    return None


def _tensor(importer: Any, expr: Any) -> Any:
    """Return an expression of sympy as a tensor without axes."""
    emit, kind = importer.block_builder.emit, type(expr).__name__
    if expr.is_Symbol and str(expr) in importer.items:
        item = importer.items[str(expr)]
        is_tensor = isinstance(item.ty, relax.TensorType)
        return (
            emit(relax.op.astype(item, "int64")) if is_tensor else importer._number(item, "int64")
        )
    if expr.is_Symbol or expr.is_Integer:
        return importer._number(importer.size_of(expr), "int64")
    if kind == "Piecewise" and expr.args[-1][1] == True:  # noqa: E712, a truth value of sympy
        *cases, (otherwise, _) = expr.args
        result = _tensor(importer, otherwise)
        for value, condition in reversed(cases):
            parts = (_tensor(importer, part) for part in (condition, value))
            result = emit(relax.op.where(*parts, result))
        return result
    if kind not in (*_COMPARISONS, *_NARY, "Not"):
        raise NotImplementedError(f"it asserts {expr}, expected sums, products and comparisons")
    first, *others = (_tensor(importer, part) for part in expr.args)
    if kind == "Not":
        return emit(relax.op.logical_not(first))
    for other in others:
        first = emit({**_COMPARISONS, **_NARY}[kind](first, other))
    return first


def dropped_assertions(program: Any, decomposed: Any) -> list[str]:
    """Return a note if torch's decomposition dropped assertions on tensors."""
    before, after = (
        sum(node.op == "call_function" and "_assert_async" in str(node.target)
            for module in p.graph_module.modules() if hasattr(module, "graph")
            for node in module.graph.nodes)
        for p in (program, decomposed)
    )  # fmt: skip
    if before <= after:
        return []
    return [f"{before - after} of the assertions on tensors are not checked; torch fails where one "
            "is false; torch._check of x.item() is checked"]  # fmt: skip


CONVERTERS: Mapping[str, Converter] = {
    "_assert_async.default": _assert_async, "_assert_async.msg": _assert_async,
    "_assert_scalar.default": _assert_scalar,
}  # fmt: skip
