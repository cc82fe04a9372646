"""How the terms of a reduction are combined, in any order and grouping.

s[i] = s[i] + x[i, k]                                 a sum; product, minimum and maximum likewise
at[i] = select(m[i] > x or m[i] == x and at[i] < k, at[i], k)
m[i] = select(m[i] > x, m[i], x)                      the place of the largest, x = x[i, k]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ......analysis.blocks.loop_steps import LoopStep, Update
from ......analysis.blocks.tir import integer, static, values
from ......analysis.lifting.tir.node import as_dtype, substitute
from .gpu_program import NoGpuSchedule, is_coupled
from .merged_axes import bound


@dataclass(frozen=True)
class Combiner:
    """A reduction as ``combine(accumulator, term)``, which may be reassociated.

    ``dtype`` is the accumulator's: sums, maxima and minima of half-precision terms are accumulated
    in float32, of which a GPU has one instruction for a maximum, and of halves four. Extremes skip
    NaN then, as those of float32 do. If the operator also multiplies terms of a sum, their product
    is in float32, too.
    """

    kind: Any
    term: Any
    dtype: str

    def __call__(self, a: Any, b: Any) -> Any:
        return self.kind(as_dtype(a, self.dtype), as_dtype(b, self.dtype))

    def start(self, init: Any) -> Any:
        """Return the initial value in the accumulator's type, a literal as a literal."""
        if isinstance(init, tirx.FloatImm):
            return tirx.FloatImm(self.dtype, float(init.value))
        return as_dtype(init, self.dtype)


@dataclass(frozen=True)
class Combination:
    """Accumulators that are updated together: one, or a place and the value that is there."""

    updates: tuple[Update, ...]
    terms: tuple[Any, ...]
    dtypes: tuple[str, ...]
    starts: tuple[Any, ...]
    kind: Any  # a `Combiner`, or the comparison of values and of places, and whether b is later

    def neutral(self) -> list[Any]:
        """Return what changes no total of accumulators that began with ``starts``, as TVM knows it.

        Raises:
            NoGpuSchedule: They may have begun beyond all finite numbers.
        """
        bound = {tirx.Max: tirx.min_value, tirx.Min: tirx.max_value}
        if not isinstance(self.kind, Combiner) or self.kind.kind not in bound:
            return list(self.starts)
        (start,) = self.starts
        literal = isinstance(start, (tirx.IntImm, tirx.FloatImm))
        if not literal or not math.isfinite(start.value):
            raise NoGpuSchedule("an extreme may start beyond all finite numbers")
        return [bound[self.kind.kind](self.kind.dtype)]

    def __call__(self, a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        """Return the values of the accumulators ``a`` with the terms ``b``."""
        if isinstance(self.kind, Combiner):
            return [self.kind(a[0], b[0])]
        better, earlier, *ordered = self.kind
        b = [as_dtype(e, t) for e, t in zip(b, self.dtypes, strict=True)]
        return (_later if ordered else _places)(better, earlier, a, b)

    def in_order(self, loops: Sequence[tuple[Any, int]], places: Any, analyzer: Any) -> Combination:
        """Return the combination for terms in the order of loops, the outermost first.

        Of a place and a value, it compares values only, if later terms have larger ``places``.
        """
        if isinstance(self.kind, Combiner) or not ascending(
            places, self.starts[0], loops, analyzer
        ):
            return self
        return replace(self, kind=(*self.kind, True))


def ascending(value: Any, start: Any, loops: Sequence[tuple[Any, int]], analyzer: Any) -> bool:
    """Whether integers in the order of loops are above a start, and each above the one before.

    ``loops`` are variables and extents, the outermost first; the analyzer knows their ranges.
    """
    for k, (var, extent) in enumerate(loops):
        inner = loops[k + 1 :]
        last = values(*((v, integer(n - 1, v)) for v, n in inner))
        first = values((var, var + integer(1, var)), *((v, integer(0, v)) for v, _ in inner))
        larger = tirx.GT(substitute(value, first), substitute(value, last))
        if extent > 1 and not analyzer.can_prove(larger):
            return False
    least = static(analyzer.simplify(start))
    return least is not None and bool(analyzer.can_prove(value > least))


def combinations(step: LoopStep) -> list[Combination]:
    """Return the accumulators of a step, grouped by dependence.

    Raises:
        NoGpuSchedule: They are not sums, products, minima, maxima, or places of these.
    """
    if is_coupled(step):
        return [_place_of(step)]
    out = []
    for update in step.updates:
        combine = combiner(update)
        start = combine.start(update.init)
        out.append(Combination((update,), (combine.term,), (combine.dtype,), (start,), combine))
    return out


def combiner(update: Update) -> Combiner:
    """Return the combiner of an update whose initial value changes no result.

    Raises:
        NoGpuSchedule: The update is not a sum, product, minimum or maximum.
    """
    value = update.value
    for kind in (tirx.Add, tirx.Mul, tirx.Max, tirx.Min, tirx.And, tirx.Or):
        if not isinstance(value, kind):
            continue
        for acc, term in ((value.a, value.b), (value.b, value.a)):
            if isinstance(acc, tvm.ir.TensorLoad) and acc.source.same_as(update.buffer):
                _check_init(kind, update)
                dtype = _accumulator(kind, str(update.buffer.ty.dtype))
                return Combiner(kind, _widened(term, dtype), dtype)
    raise NoGpuSchedule("a reduction may not be associative")


def _accumulator(kind: Any, dtype: str) -> str:
    wide = kind in (tirx.Add, tirx.Max, tirx.Min) and dtype in ("float16", "bfloat16")
    return "float32" if wide else dtype


def _widened(term: Any, dtype: str) -> Any:
    """The term with a product in the accumulator's type, in which products of halves are exact."""
    if isinstance(term, tirx.Mul) and str(term.ty.dtype) != dtype == "float32":
        return tirx.Mul(as_dtype(term.a, dtype), as_dtype(term.b, dtype))
    return term


def _check_init(kind: Any, update: Update) -> None:
    neutral = {tirx.Add: 0, tirx.Mul: 1}.get(kind)
    if neutral is None:  # a minimum of the initial value with itself is the initial value
        return
    init = update.init
    if not isinstance(init, (tirx.IntImm, tirx.FloatImm)) or float(init.value) != neutral:
        raise NoGpuSchedule("a reduction starts at another value than its neutral one")


def _place_of(step: LoopStep) -> Combination:
    """The combination of a step that searches for the place of an extreme value.

    The first or the last of equal values is chosen, so that the order of terms does not matter.
    """
    refused = NoGpuSchedule("the results of a block depend on one another")
    if len(step.updates) != 2 or not all(isinstance(u.value, tirx.Select) for u in step.updates):
        raise refused
    place, value = step.updates
    terms = (place.value.false_value, value.value.false_value)
    current = [u.value.true_value for u in step.updates]
    if not all(isinstance(e, tvm.ir.TensorLoad) and e.source.same_as(u.buffer)
               for e, u in zip(current, step.updates, strict=True)):  # fmt: skip
        raise refused
    want = [place.value, value.value]
    for better in (tirx.GT, tirx.LT):
        for earlier in (tirx.LT, tirx.GT):
            places = _places(better, earlier, current, terms)
            if all(map(tvm_ffi.structural_equal, places, want)):
                at = _place_dtype(step, str(place.buffer.ty.dtype))
                starts = (as_dtype(place.init, at), value.init)
                dtypes = (at, str(value.buffer.ty.dtype))
                return Combination(step.updates, terms, dtypes, starts, (better, earlier))
    raise refused


def _place_dtype(step: LoopStep, dtype: str) -> str:
    """The type of places: 32 bits if all fit, as then TVM has indices of 32 bits in the kernel."""
    place, analyzer = step.updates[0], bound(step.axes)
    ranges = [analyzer.const_int_bound(e) for e in (place.value.false_value, place.init)]
    few = all(-(1 << 31) <= r.min_value and r.max_value < 1 << 31 for r in ranges)
    return "int32" if dtype == "int64" and few else dtype


def _places(better: Any, earlier: Any, a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    wins = better(a[1], b[1])
    first = tirx.Or(wins, tirx.And(tirx.EQ(a[1], b[1]), earlier(a[0], b[0])))
    return [tirx.Select(first, a[0], b[0]), tirx.Select(wins, a[1], b[1])]


def _later(better: Any, earlier: Any, a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """As `_places`, where the place of ``b`` is larger: of equal values, one has to be kept."""
    keeps = {tirx.GT: tirx.GE, tirx.LT: tirx.LE}[better] if earlier is tirx.LT else better
    first = keeps(a[1], b[1])
    return [tirx.Select(first, a[0], b[0]), tirx.Select(first, a[1], b[1])]
