"""Quotients and remainders, of infinities and by zero.

A CPU ends the process at an integer divided by 0, and at the least one divided by -1. As in numpy,
the quotients are 0 and the least integer, and the remainders are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.conversion.tvm_converters import broadcast, convert
from ...onnx_graph.onnx_node import OnnxNode


@converts("Div")
def quotient(node: OnnxNode) -> Any:
    """Return quotients; those of integers are rounded towards 0."""
    if "float" in node.dtype(0):
        return _of_floats(node)
    if not _may_fail(node):
        return convert(node)
    data, by = broadcast(node, [node.tensor(0), node.tensor(1)])
    fails, one = _fails(node, by), _number(node, 1)
    whole = node.emit(relax.op.divide(data, node.emit(relax.op.where(fails, one, by))))
    return relax.op.multiply(whole, node.emit(relax.op.where(fails, by, one)))


def _of_floats(node: OnnxNode) -> Any:
    """Return quotients of floats; LegalizeOps fails on one by the number 0."""
    by = node.value(1).elements if node.value(1).is_constant else None
    if by is None or by.size != 1 or by.any():
        return convert(node)
    infinite = np.copysign(np.asarray(np.inf, by.dtype), by)
    return relax.op.multiply(node.tensor(0), relax.const(infinite, node.dtype(0)))


@converts("Mod")
def remainder(node: OnnxNode) -> Any:
    """Return remainders with the sign of the divisor, or of the dividend if `fmod` is 1.

    TVM's floored remainder of floats is `x - floor(x / y) * y`, which is NaN for an infinite `y`.
    """
    if "float" not in node.dtype(0):
        return _of_integers(node)
    if node.attr("fmod", 0):
        return convert(node)
    data, by = broadcast(node, [node.tensor(0), node.tensor(1)])
    zero = relax.const(0, node.dtype(0))
    rest = node.emit(relax.op.mod(data, by))
    differ = node.emit(relax.op.logical_xor(node.emit(relax.op.less(rest, zero)),
                                            node.emit(relax.op.less(by, zero))))  # fmt: skip
    differ = relax.op.logical_and(differ, node.emit(relax.op.not_equal(rest, zero)))
    return relax.op.where(node.emit(differ), node.emit(relax.op.add(rest, by)), rest)


def _of_integers(node: OnnxNode) -> Any:
    if not _may_fail(node):
        return convert(node)
    data, by = broadcast(node, [node.tensor(0), node.tensor(1)])
    divisor = node.emit(relax.op.where(_fails(node, by), _number(node, 1), by))
    return (relax.op.mod if node.attr("fmod", 0) else relax.op.floor_mod)(data, divisor)


def _may_fail(node: OnnxNode) -> bool:
    """Return whether a divisor may be 0 or, if signed, -1."""
    value = node.value(1)
    if value.elements is None or not value.is_constant:
        return True
    return bool(np.isin(value.elements, [0] if _is_unsigned(node) else [0, -1]).any())


def _fails(node: OnnxNode, by: Any) -> Any:
    zero = node.emit(relax.op.equal(by, _number(node, 0)))
    if _is_unsigned(node):
        return zero
    return node.emit(relax.op.logical_or(zero, node.emit(relax.op.equal(by, _number(node, -1)))))


def _is_unsigned(node: OnnxNode) -> bool:
    return node.dtype(0).startswith("u")


def _number(node: OnnxNode, number: int) -> Any:
    return relax.const(number, node.dtype(0))
