"""Attributes of a pool: what its windows say of padding, rounding and counting.

Rounding the output's extent up is padding behind the input that is not written down, and only an
average tells whether padding is counted. So several attributes may describe the same windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from ...proposal.proposal import Proposal
from ...proposal.undetermined import Undetermined, flags
from ...terms.term import CallTerm, Int, Load, TensorVar, Term
from .._forms.sums_of_products import uncast
from ._window import Fitted, WindowAxis, fit, rounded_up, undetermined

#: Where no padding is counted.
UNSEEN = flags(["count_include_pad"], "no padding is counted")


@dataclass(frozen=True)
class PooledLoad:
    """A load that is reduced over windows.

    Attributes:
        out: The result.
        load: The load.
        kind: ``max`` or ``avg``.
        divisor: That of an average.
        layout: The layout of the input and the result.
        windows: The windows, and the dimension of each.
    """

    out: TensorVar
    load: Load
    kind: str
    divisor: Term | None
    layout: str
    windows: tuple[tuple[WindowAxis, int], ...]

    def proposal(self, attrs: Mapping[str, Any], notes: tuple[Undetermined, ...]) -> Proposal:
        """The pool with these attributes."""
        data = self.load.tensor.position
        return Proposal(
            f"relax.nn.{self.kind}_pool{len(self.windows)}d",
            (data,),
            {**attrs, "layout": self.layout, "out_layout": self.layout},
            {data: self.layout, self.out.position: self.layout},
            notes,
        )


def readings(pool: PooledLoad) -> Iterator[Proposal]:
    """The attributes that describe the windows, the most likely first."""
    sizes, fitted = [], []
    for axis, place in pool.windows:
        taps = _taps(axis)
        if not taps:
            return
        end = fit(axis, pool.load.tensor.shape[place], pool.out.shape[place], taps)
        if end is None:
            yield from _rounded_up(pool)
            return
        sizes.append(taps)
        fitted.append(end)
    yield from _fitted(pool, tuple(sizes), fitted)


def _taps(axis: WindowAxis) -> int | None:
    """The size of a window; None if it is symbolic."""
    return 1 if axis.tap is None or axis.tap.extent is None else axis.tap.extent.const


def _fitted(pool: PooledLoad, sizes: tuple[int, ...], fitted: list[Fitted]) -> Iterator[Proposal]:
    """The attributes for literal extents."""
    before = tuple(s.before for s in fitted)
    attrs: dict[str, Any] = {
        "pool_size": sizes,
        "strides": tuple(s.stride for s in fitted),
        "padding": (*before, *(s.after for s in fitted)),
        "dilation": tuple(s.dilation for s in fitted),
        "ceil_mode": False,
        "count_include_pad": False,
    }
    padded = any(attrs["padding"]) or any(d > 1 for d in attrs["dilation"])
    seen = pool.kind == "avg" and padded
    first = _constant(pool.divisor)  # rounding up counts padding, but nothing after it
    counted = (first, not first) if seen else (False,)
    notes = (*undetermined(fitted), *_modes(fitted), *(() if seen else UNSEEN))
    variants = [attrs]
    if any(s.after != s.before for s in fitted) and all(map(_rounds_up, fitted)):
        up = {**attrs, "ceil_mode": True, "padding": (*before, *before)}
        variants.insert(0 if all(s.before < s.after for s in fitted) else 1, up)
    fitting = [{**variant, "count_include_pad": include} for variant in variants
             for include in counted]  # fmt: skip
    if seen and not first:
        up = {**attrs, "ceil_mode": True, "count_include_pad": True}
        fitting += [{**up, "padding": (*before, *behind)} for behind in _behind(fitted)]
    for reading in fitting:
        yield pool.proposal(reading, notes if not reading["ceil_mode"] else ())


def _rounded_up(pool: PooledLoad) -> Iterator[Proposal]:
    """The trailing padding, from the selection that rounding up a symbolic extent yields."""
    windows = [w for w, _ in pool.windows]
    if any(w.stride is None or w.before < 0 for w in windows):
        return
    taps, behind = [], []
    for axis, place in pool.windows:
        taps.append(_taps(axis) or 0)
        pad = rounded_up(axis, pool.load.tensor.shape[place], pool.out.shape[place], taps[-1])
        if pad is None:
            return
        behind.append(pad)
    notes = tuple(
        Undetermined("dilation", "the kernel extent is 1", d, low=1)
        for d, k in enumerate(taps)
        if k == 1
    )
    average = pool.kind == "avg"
    for include in (True, False) if average else (False,):
        attrs = {
            "pool_size": tuple(taps),
            "strides": tuple(w.stride for w in windows),
            "padding": (*(w.before for w in windows), *behind),
            "dilation": tuple(w.dilation or 1 for w in windows),
            "ceil_mode": True,
            "count_include_pad": include,
        }
        yield pool.proposal(attrs, (*notes, *(() if average else UNSEEN)))


def _modes(windows: list[Fitted]) -> tuple[Undetermined, ...]:
    """Rounding modes that fit; adding ``stride - 1`` of padding may stay within the range."""
    same = all(w.after + w.stride - 1 <= w.most for w in windows)
    return flags(["ceil_mode"], "the windows divide the input") if same else ()


def _behind(windows: list[Fitted]) -> Iterator[tuple[int, ...]]:
    """Trailing paddings that rounding up leaves undetermined, on which a count may depend."""
    ends = (range(max(0, w.least - w.stride + 1), w.most - w.stride + 2) for w in windows)
    return islice(product(*ends), 16)


def _rounds_up(fitted: Fitted) -> bool:
    """Whether rounding up with symmetric padding gives the same extent."""
    return fitted.least <= fitted.before + fitted.stride - 1 <= fitted.most


def _constant(divisor: Term | None) -> bool:
    term = uncast(divisor) if divisor is not None else None
    return not isinstance(term, CallTerm) and (not isinstance(term, Int) or term.const is not None)
