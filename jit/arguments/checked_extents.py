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
            for condition in map(_condition, *_sizes(binding)):
                known = dict(names)
                extent = extent_of(condition, known)
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


def _condition(size: Any, expected: Any) -> Any:
    """Return what holds if a size is the expected one."""
    from tvm import tirx

    from ...analysis.support.ir.tensor_dims import required_condition

    if (condition := required_condition(size, expected)) is not None:
        return condition
    return 1 if expected.same_as(size) else tirx.EQ(size, expected)
