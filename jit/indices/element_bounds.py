"""Bounds of the elements of tensors that a function computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from tvm import relax, sym

from ...analysis.lifting.tir.node import NodeDict
from ...analysis.support.ir.call_ops import op_name
from ...analysis.support.tvm_compat import GenericConst, array_of
from .bound_rules import MOVES, RULES, top_bounds
from .index_origins import Origin, is_integer
from .integer_bounds import NO_BOUND, ElementRange, int64, number

#: Nested values that are followed; deeper ones have no bounds.
_DEPTH = 200


class ElementBounds:
    """Bounds of the integers in the tensors of a function.

    Args:
        values: The values of its variables.
        checked: Tensors whose elements are checked before the function runs.
    """

    def __init__(self, values: Mapping[Any, Any], checked: Iterable[Origin] = ()) -> None:
        self._values = values
        self._known: NodeDict[ElementRange] = NodeDict()
        for start in checked:
            if start.component is None and start.tensor not in self._known:
                self._known[start.tensor] = ElementRange(start.low, start.high)
        self._depth = 0
        self._analyzer = sym.Analyzer()

    def inside(self, expr: Any, low: Any, high: Any) -> bool:
        """Return whether all elements are proved to be from `low` to `high`."""
        bounds = self.of(expr)
        if bounds.low is None or bounds.high is None:
            return False
        return self.contains(bounds.low, bounds.high, low, high)

    def contains(self, low: Any, high: Any, least: Any, most: Any) -> bool:
        """Return whether a range is proved to be in the one from `least` to `most`."""
        return all(map(self._analyzer.can_prove, (low >= least, high <= most)))

    def of(self, expr: Any) -> ElementRange:
        """Return the bounds of the elements of an expression."""
        if isinstance(expr, GenericConst):
            return _constant(expr)
        known = self._known.get(expr)
        if known is None:
            self._depth += 1
            known = self._computed(expr) if self._depth < _DEPTH else NO_BOUND
            self._depth -= 1
            self._known[expr] = known
        return known

    def _computed(self, expr: Any) -> ElementRange:
        value = self._values.get(expr, expr) if isinstance(expr, relax.Var) else expr
        if isinstance(value, relax.Var):
            return NO_BOUND if value.same_as(expr) else self.of(value)
        if isinstance(value, relax.TupleGetItem):
            return self._part(value)
        name = op_name(value)
        if not isinstance(value, relax.Call) or not name.startswith("relax."):
            return NO_BOUND
        if name in MOVES:
            return self.of(value.args[0])
        rule = RULES.get(name.removeprefix("relax."))
        return NO_BOUND if rule is None else _within(rule(self, value), value)

    def _part(self, value: Any) -> ElementRange:
        whole = self._values.get(value.tuple_value, value.tuple_value)
        if isinstance(whole, relax.Tuple):
            return self.of(whole.fields[value.index])
        if op_name(whole) == "relax.topk":
            return top_bounds(self, whole, value.index)
        return self.of(whole.args[0]) if op_name(whole) == "relax.split" else NO_BOUND

    def fields(self, expr: Any) -> list[ElementRange]:
        """Return the bounds of the fields of a tuple."""
        whole = self._values.get(expr, expr)
        return [self.of(f) for f in whole.fields] if isinstance(whole, relax.Tuple) else []

    def sizes(self, expr: Any) -> list[Any]:
        """Return the sizes in a shape."""
        shape = self._values.get(expr, expr) if isinstance(expr, relax.Var) else expr
        return list(shape.values) if isinstance(shape, relax.ShapeExpr) else []


def _constant(expr: Any) -> ElementRange:
    array = np.asarray(array_of(expr).numpy())
    if array.dtype.kind not in "iub" or not array.size:
        return NO_BOUND
    return ElementRange(int64(int(array.min())), int64(int(array.max())))


def _within(bounds: ElementRange, value: Any) -> ElementRange:
    """Return bounds of what fits in the dtype; other results may wrap around."""
    if not is_integer(value):
        return NO_BOUND
    if str(value.ty.dtype) == "int64":
        return bounds
    info = np.iinfo(str(value.ty.dtype))
    ends = [number(bounds.low), number(bounds.high)]
    fits = all(end is not None and info.min <= end <= info.max for end in ends)
    return bounds if fits else NO_BOUND
