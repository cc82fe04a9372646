"""Index maps as isl relations: a judge of verdicts and inverses that shares no code with ours.

isl decides Presburger arithmetic: sums, products with and floordiv and floormod by constants,
comparisons. Exclusive or with a bounded operand is written bit by bit; products of variables and
symbolic divisors raise :class:`NotAffine`. A question that takes too long raises
:class:`OutOfBudget`; the budget counts isl's own operations, so it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import islpy as isl
import tvm

OPERATIONS = 2_000_000


class NotAffine(ValueError):
    """The map is outside of Presburger arithmetic."""


class OutOfBudget(RuntimeError):
    """isl did not decide within its budget of operations."""


@contextmanager
def budget(operations: int = OPERATIONS) -> Iterator[isl.Context]:
    """A context whose questions together take at most so many operations.

    Raises:
        OutOfBudget: isl gave up.
    """
    context = isl.Context()
    context.set_max_operations(operations)
    try:
        yield context
    except isl.Error as error:
        if "maximal number of operations" not in str(error):
            raise
        raise OutOfBudget(f"isl needs more than {operations} operations") from error


def relation(
    context: isl.Context, index_map: Any, extents: Sequence[Any], sizes: Sequence[str] = ()
) -> isl.Map:
    """The relation from indices in a box to results.

    Args:
        context: A context of :func:`budget`.
        index_map: An `IndexMap`.
        extents: The box from 0 that the indices lie in.
        sizes: Names of symbolic sizes, which are at least 1.

    Raises:
        NotAffine: isl cannot represent the map.
    """
    reader = _Reader(context, index_map.initial_indices, sizes)
    zero, one = reader.constant(0), reader.constant(1)
    bounds = [size.ge_set(one) for size in reader.sizes.values()]
    for axis, extent in zip(reader.axes.values(), extents, strict=True):
        bounds += [axis.ge_set(zero), axis.lt_set(reader.read(extent))]
    return reader.relation(index_map.final_indices, reduce(isl.Set.intersect, bounds))


def inverse_relation(
    context: isl.Context, inverse: Any, relation: isl.Map, sizes: Sequence[str] = ()
) -> isl.Map:
    """The relation of an inverse, on the image of the relation that it inverts."""
    reader = _Reader(context, inverse.initial_indices, sizes)
    return reader.relation(inverse.final_indices, relation.range())


def verdict(relation: isl.Map) -> str:
    """``bijective`` onto the smallest box from 0, ``injective`` or ``not_injective``."""
    if not relation.is_injective():
        return "not_injective"
    image = relation.range()
    zeros = isl.MultiVal.zero(image.get_space())
    box = isl.Set.universe(image.get_space()).lower_bound_multi_val(zeros)
    box = box.upper_bound_multi_pw_aff(image.max_multi_pw_aff())
    return "bijective" if image.is_equal(box) else "injective"


def inverse_is_right(relation: isl.Map, inverse: isl.Map) -> bool:
    """Whether the inverse undoes the relation wherever it is defined."""
    there_and_back = relation.apply_range(inverse)
    identity = isl.Map.identity(there_and_back.get_space())
    return bool(
        there_and_back.is_subset(identity) and there_and_back.domain().is_equal(relation.domain())
    )


def pieces(relation: isl.Map) -> int:
    """In how many pieces isl writes the inverse of an injective relation as expressions."""
    return int(relation.reverse().as_pw_multi_aff().n_piece())


class _Reader:
    """Expressions of TVM as piecewise quasi-affine functions of axes and sizes."""

    def __init__(self, context: isl.Context, axes: Sequence[Any], sizes: Sequence[str]) -> None:
        names = [f"x{k}" for k in range(len(axes))]
        space = isl.Space.create_from_names(context, set=names, params=list(sizes))
        self.local, variable = isl.LocalSpace.from_space(space), isl.PwAff.var_on_domain
        self.domain = isl.Set.universe(space)
        self.axes = {a: variable(self.local, isl.dim_type.set, k) for k, a in enumerate(axes)}
        self.sizes = {s: variable(self.local, isl.dim_type.param, k) for k, s in enumerate(sizes)}

    def relation(self, results: Sequence[Any], domain: isl.Set) -> isl.Map:
        """The relation from a domain, which bounds what exclusive or is taken of, to results."""
        self.domain = domain
        parts = [isl.Map.from_pw_aff(self.read(e)) for e in results]
        return reduce(isl.Map.flat_range_product, parts).intersect_domain(domain)

    def constant(self, value: int) -> isl.PwAff:
        zero = isl.Aff.zero_on_domain(self.local)
        return isl.PwAff.from_aff(zero.add_constant_val(self.number(value)))

    def number(self, value: int) -> isl.Val:
        return isl.Val(value, self.local.get_ctx())

    def read(self, e: Any) -> isl.PwAff:
        if isinstance(e, (int, tvm.tirx.IntImm)):
            return self.constant(int(e))
        kind = type(e).__name__
        if kind == "Var":
            found = self.axes.get(e)
            return self.sizes[e.name] if found is None else found
        if kind == "Cast":
            return self.read(e.value)
        if kind == "Select":
            chosen = self.condition(e.condition)
            yes, no = self.read(e.true_value), self.read(e.false_value)
            return yes.intersect_domain(chosen).union_add(no.subtract_domain(chosen))
        a, b = (self.read(x) for x in _operands(e, kind))
        if kind in _PLAIN:
            return _PLAIN[kind](a, b)
        if kind == "Mul":
            if not (a.is_cst() or b.is_cst()):
                raise NotAffine(f"a product of variables: {e}")
            return a.mul(b)
        if kind in ("FloorDiv", "FloorMod"):
            if not b.is_cst():
                raise NotAffine(f"a symbolic divisor: {e}")
            quotient = a.scale_down_val(b.max_val()).floor()
            return quotient if kind == "FloorDiv" else a.sub(quotient.scale_val(b.max_val()))
        assert kind == "BitwiseXor", kind
        return self.exclusive_or(a, b)

    def condition(self, e: Any) -> isl.Set:
        kind = type(e).__name__
        if kind in _JUNCTIONS:
            return _JUNCTIONS[kind](self.condition(e.a), self.condition(e.b))
        if kind not in _ORDERS:
            raise NotAffine(f"a condition that is not a comparison: {e}")
        return _ORDERS[kind](self.read(e.a), self.read(e.b))

    def exclusive_or(self, a: isl.PwAff, b: isl.PwAff) -> isl.PwAff:
        """Bit by bit, as wide as the narrower operand; above it are the bits of the other."""
        widths = [w for w in (self.width(a), self.width(b)) if w is not None]
        if not widths:
            raise NotAffine("an exclusive or of operands that are not bounded")
        width = min(widths)
        two = self.number(2)
        out = self.shifted(a, width).add(self.shifted(b, width)).scale_val(self.number(1 << width))
        for k in range(width):
            bits = self.shifted(a, k).add(self.shifted(b, k)).mod_val(two)
            out = out.add(bits.scale_val(self.number(1 << k)))
        return out

    def width(self, a: isl.PwAff) -> int | None:
        """The bits that hold all values on the domain; None if it has no such bound."""
        here = a.intersect_domain(self.domain)
        low, high = here.min_val(), here.max_val()
        if not (low.is_int() and high.is_int()) or low.is_neg():
            return None
        return int(high.to_python()).bit_length()

    def shifted(self, a: isl.PwAff, bits: int) -> isl.PwAff:
        return a.scale_down_val(self.number(1 << bits)).floor()


def _operands(e: Any, kind: str) -> tuple[Any, Any]:
    if kind in _PLAIN or kind in ("Mul", "FloorDiv", "FloorMod", "BitwiseXor"):
        return e.a, e.b
    raise NotAffine(f"{kind} is not an operation of Presburger arithmetic: {e}")


_PLAIN: dict[str, Callable[[isl.PwAff, isl.PwAff], isl.PwAff]] = {
    "Add": isl.PwAff.add, "Sub": isl.PwAff.sub, "Min": isl.PwAff.min, "Max": isl.PwAff.max,
}  # fmt: skip
_ORDERS: dict[str, Callable[[isl.PwAff, isl.PwAff], isl.Set]] = {
    "LT": isl.PwAff.lt_set, "LE": isl.PwAff.le_set, "GT": isl.PwAff.gt_set,
    "GE": isl.PwAff.ge_set, "EQ": isl.PwAff.eq_set, "NE": isl.PwAff.ne_set,
}  # fmt: skip
_JUNCTIONS: dict[str, Callable[[isl.Set, isl.Set], isl.Set]] = {
    "And": isl.Set.intersect, "Or": isl.Set.union,
}  # fmt: skip
