"""Checks of sizes at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax, tirx

from ...checks.size_check import size_check
from .program_sizes import expression

_COMPARISONS: Mapping[str, Any] = {
    "Equality": lambda a, b: a == b, "Unequality": lambda a, b: a != b,
    "StrictLessThan": lambda a, b: a < b, "LessThan": lambda a, b: a <= b,
    "StrictGreaterThan": lambda a, b: a > b, "GreaterThan": lambda a, b: a >= b,
}  # fmt: skip
_LOGIC: Mapping[str, Any] = {"And": tirx.all, "Or": tirx.any, "Not": tirx.Not}
_QUOTIENTS = ("FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod")


def emit_check(builder: relax.BlockBuilder, condition: Any, variables: Mapping[str, Any]) -> None:
    """Emit a check that fails at run time unless a condition on sizes holds.

    Raises:
        NotImplementedError: The condition has a function that TVM has not, or depends on the data.
    """
    if condition is None:
        raise NotImplementedError("the condition has more than arithmetic and comparisons")
    builder.match_cast(*size_check(_condition(_total(condition), variables)))


def _total(condition: Any) -> Any:
    """Return a condition that is false where a divisor is not positive.

    A division by zero ends the process, whatever the rest of the condition is.
    """
    import sympy  # type: ignore[import-untyped]
    from torch.utils._sympy.functions import Max

    def divides(part: Any) -> bool:
        return type(part).__name__ in _QUOTIENTS and not part.args[1].is_Integer

    parts = sympy.preorder_traversal(condition)
    divisors = dict.fromkeys(part.args[1] for part in parts if divides(part))

    def replaced(part: Any) -> Any:
        if not part.args:
            return part
        args = [replaced(arg) for arg in part.args]
        if divides(part):
            args[1] = Max(1, args[1])
        return part.func(*args)

    return sympy.And(replaced(condition), *(sympy.Ge(replaced(d), 1) for d in divisors))


def _condition(condition: Any, variables: Mapping[str, Any]) -> Any:
    kind = type(condition).__name__
    if kind in _COMPARISONS and any(part.is_Boolean for part in condition.args):
        raise NotImplementedError(f"{condition} compares booleans, expected comparisons of sizes")
    if kind in _COMPARISONS:
        return _COMPARISONS[kind](*(expression(part, variables) for part in condition.args))
    if kind in _LOGIC:
        return _LOGIC[kind](*(_condition(part, variables) for part in condition.args))
    if kind in ("BooleanTrue", "BooleanFalse"):
        return tvm.tirx.const(kind == "BooleanTrue", "bool")
    raise NotImplementedError(f"{condition} has {kind}, expected comparisons of sizes")
