"""Conditions on symbolic extents that a function checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .extent import Extent, extent_of, mentions


def conditions_of(func: Any, names: Mapping[Any, str]) -> tuple[Extent, ...]:
    """Return the conditions on the extents of parameters that a Relax function checks.

    They are casts of `shape([1])` to `Shape([n == m ? 1 : 0])`, those of tensors to types such as
    `Tensor((n == m ? n : -1,))`, and declared upper bounds, for which its memory is planned.

    Args:
        func: The Relax function.
        names: The names of the parameters' symbolic extents.
    """
    from tvm import relax

    conditions = dict.fromkeys(_declared_bounds(func, names))
    for binding in (b for block in func.body.blocks for b in block.bindings):
        if isinstance(binding, relax.MatchCast):
            for size, expected in zip(*_sizes(binding), strict=False):
                known = dict(names)
                extent = _condition(size, expected, known)
                given = any(mentions(extent, name) for name in names.values())
                if given and len(known) == len(names):
                    conditions[extent] = None
    return tuple(conditions)


def _declared_bounds(func: Any, names: Mapping[Any, str]) -> Iterator[Extent]:
    """Yield ``n <= 512`` for each extent with a bound, which TVM looks up by a variable's name."""
    from ...byoc.codegen.memory_plan import UPPER

    bounds = (func.attrs or {}).get(UPPER) or {}
    for variable, name in names.items():
        if str(variable.name) in bounds:
            yield ("<=", name, int(bounds[str(variable.name)]))


def _sizes(cast: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the sizes of what is cast, and those of the type."""
    from tvm import relax

    if isinstance(cast.value, relax.ShapeExpr) and isinstance(cast.ty, relax.ShapeType):
        return cast.value.values, cast.ty.values or ()
    own, other = (getattr(ty, "shape", None) for ty in (cast.value.ty, cast.ty))
    if isinstance(own, relax.ShapeExpr) and isinstance(other, relax.ShapeExpr):
        return own.values, other.values
    return (), ()


def _condition(size: Any, expected: Any, names: dict[Any, str]) -> Extent:
    """Return what holds if a size is the expected one; symbols without a name get one."""
    from tvm import tirx

    from ...analysis.support.ir.tensor_dims import required_condition

    if (condition := required_condition(size, expected)) is not None:
        return extent_of(condition, names)
    if expected.same_as(size):
        return 1
    if not isinstance(expected, tirx.Select):
        return extent_of(tirx.EQ(size, expected), names)
    chosen = extent_of(expected.condition, names)
    first = extent_of(tirx.EQ(size, expected.true_value), names)
    second = extent_of(tirx.EQ(size, expected.false_value), names)
    if chosen is None or first is None or second is None:
        return None
    return ("or", ("and", chosen, first), ("and", _opposite(chosen), second))


def _opposite(condition: Extent) -> Extent:
    """Return what holds where a condition does not."""
    if isinstance(condition, tuple) and condition[0] in _OPPOSITES:
        return (_OPPOSITES[condition[0]], *condition[1:])
    return ("==", condition, 0)


_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
