"""Constructors of Relax operators: TVM's, and those of operators that opinfo registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

_OWN: dict[str, Callable[..., Any]] = {}


def register_constructor(name: str, constructor: Callable[..., Any]) -> bool:
    """Register the constructor of an operator; return whether it is not registered yet."""
    is_new = _OWN.get(name) is not constructor
    _OWN[name] = constructor
    return is_new


def constructor_of(name: str) -> Any:
    """Return the constructor of an operator, or None.

    That of ``relax.nn.conv2d`` is ``tvm.relax.op.nn.conv2d``, unless it is opinfo's own.
    """
    if name in _OWN:
        return _OWN[name]
    attribute: Any = relax.op
    for part in name.removeprefix("relax.").split("."):
        attribute = getattr(attribute, part, None)
    return attribute


def own_operators() -> frozenset[str]:
    """Return the names of the operators that opinfo has registered until now."""
    return frozenset(_OWN)
