"""Conditions that patterns of many backends share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...analysis.proposal.proposal import Constant
from .pattern import Condition, Node
from .pattern_step import listed
from .suggest import Unmet, cast


def dtype(*dtypes: str) -> Callable[[Node], Unmet | None]:
    """Return a condition: all tensors of the operator have one of these dtypes.

    Args:
        dtypes: TVM's names, ``"float32"``.

    Returns:
        A condition for `one`, `maybe` and `many`.
    """

    def has_dtype(node: Node) -> Unmet | None:
        for value in node.tensors:
            if value.dtype not in dtypes:
                suggestion = cast(value.dtype, dtypes[0])
                return Unmet(f"the dtype is {value.dtype}, expected {listed(dtypes)}", suggestion)
        return None

    return has_dtype


def attribute(name: str, taken: Any, suggestion: str = "") -> Condition:
    """Return a condition: an attribute of the operator has a value.

    Args:
        name: The attribute, ``"groups"``.
        taken: The value that it must have.
        suggestion: What to change so that it has that value.

    Returns:
        A condition for `one`, `maybe` and `many`. Pass a condition on a layout as ``laid=`` if the
        layout is in the backend's ``wants``.
    """

    def has_attribute(node: Node) -> Unmet | None:
        attrs = node.info.attrs
        if name not in attrs:
            has = f"; it has {', '.join(attrs)}" if attrs else ""
            return Unmet(f"{node.info.name} has no attribute {name}{has}")
        actual = attrs[name]
        if actual == taken:
            return None
        return Unmet(f"{name} is {actual}, expected {taken}", suggestion)

    return has_attribute


def constant(k: int) -> Condition:
    """Return a condition: an operand is a constant, so converters get its elements.

    Args:
        k: The operand's number; a literal scalar counts as an operand.

    Returns:
        A condition for `one`, `maybe` and `many`.
    """

    def is_constant(node: Node) -> str | None:
        value = node.operand(k)
        fixed = k < len(node.info.operands) if value is None else value.constant
        return None if fixed else f"operand {k} is not constant"

    return is_constant


def elements(node: Node, k: int) -> npt.NDArray[Any] | None:
    """The elements of a constant or a literal operand; None for other operands.

    Args:
        node: The operator.
        k: The operand's number.

    Returns:
        An array of its shape and dtype, of one element for a literal.
    """

    if k >= len(node.info.operands):
        return None
    operand = node.info.operands[k]
    if isinstance(operand, Constant):
        return np.asarray([operand.value])
    value = node.op.values[operand]
    return None if value is None or not value.constant else np.asarray(value.expr.value.numpy())


float32 = dtype("float32")
