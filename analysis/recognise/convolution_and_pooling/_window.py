"""Sliding windows: one spatial dimension ``in[s*y + d*r - p]`` and its padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...proposal.undetermined import Undetermined
from ...terms.condition_terms import eq0, ge0, ite
from ...terms.integer import floordiv
from ...terms.term import ZERO, Int, Term, Var, as_int, integer
from .._forms.sums_of_products import affine


@dataclass(frozen=True)
class WindowAxis:
    """Stride, dilation and leading padding of one dimension; None if undetermined.

    ``axis`` is the output coordinate and ``tap`` the kernel's; None if its extent is 1.
    """

    stride: int | None
    dilation: int | None
    before: int
    axis: Var | None
    tap: Var | None


def as_coordinate(var: Var | None) -> Int:
    """The coordinate of a variable; 0 if its extent is 1."""
    return ZERO if var is None else as_int(var)


@dataclass(frozen=True)
class Fitted:
    """A window with a value for every attribute.

    Trailing padding from ``least`` to ``most`` gives the same output extent; ``loose`` are the
    undetermined attributes.
    """

    stride: int
    dilation: int
    before: int
    after: int
    least: int
    most: int
    loose: tuple[str, ...]


def window(index: Int, outs: frozenset[Term], taps: frozenset[Var]) -> WindowAxis | None:
    """The window that an index describes, or None."""
    linear = affine(index)
    if linear is None:
        return None
    coefs, shift = linear
    ys = [v for v in coefs if v in outs]
    rs = [v for v in coefs if v in taps]
    if len(ys) > 1 or len(rs) > 1 or len(ys) + len(rs) != len(coefs):
        return None
    if any(coefs[v] < 1 for v in coefs):
        return None
    return WindowAxis(
        stride=coefs[ys[0]] if ys else None,
        dilation=coefs[rs[0]] if rs else None,
        before=-shift,
        axis=ys[0] if ys else None,
        tap=rs[0] if rs else None,
    )


def fit(axis: WindowAxis, size: Int, out: Int, kernel: Int | int) -> Fitted | None:
    """The window with trailing padding, and a stride if there is one output, for these extents.

    ``out = (span + after) // stride + 1``, ``span = size + before - dilation * (kernel - 1) - 1``,
    has several solutions; trailing padding equal to ``before`` is preferred, then the smallest.
    """
    if axis.before < 0:
        return None
    dilation = axis.dilation or 1
    loose = ("strides",) * (axis.stride is None) + ("dilation",) * (axis.dilation is None)
    span = size - (kernel - 1) * dilation + (axis.before - 1)
    if span.const is None or out.const is None:
        pad = None if axis.stride is None else _symbolic(span, out, axis.stride, axis.before)
        if pad is None or axis.stride is None:
            return None
        return Fitted(axis.stride, dilation, axis.before, pad, pad, pad, loose)
    least = (out.const - 1) * (axis.stride or 1) - span.const
    if axis.stride is None:
        pad = max(axis.before, least)
        stride = max(span.const + pad + 1, 1)
        return Fitted(stride, dilation, axis.before, pad, max(least, 0), pad, loose)
    most = least + axis.stride - 1
    if most < 0:
        return None
    pad = axis.before if least <= axis.before <= most else max(least, 0)
    return Fitted(axis.stride, dilation, axis.before, pad, max(least, 0), most, loose)


def _symbolic(span: Int, out: Int, stride: int, before: int) -> int | None:
    """The trailing padding that yields a symbolic extent; at most one does."""
    if stride == 1:
        pad = (out - 1 - span).const
        return pad if pad is not None and pad >= 0 else None
    tried = (before, *range(before + 4 * stride + 8))
    return next((p for p in tried if floordiv(span + p, integer(stride)) + 1 is out), None)


def rounded_up(axis: WindowAxis, size: Int, out: Int, kernel: int) -> int | None:
    """The trailing padding for which rounding up yields this extent; common values are tried first.

    A last window that would start after the input is dropped.
    """
    stride, dilation = axis.stride or 1, axis.dilation or 1
    pad: int
    for pad in (axis.before, *range(axis.before + 4 * stride + 8)):
        span = size + (axis.before + pad - dilation * (kernel - 1) + stride - 2)
        last = floordiv(span, integer(stride))
        behind = last * stride - size - axis.before
        if any(ite(test(behind), last, last + 1) is out for test in (ge0, eq0)):
            return pad
    return None


def undetermined(windows: list[Fitted]) -> Iterator[Undetermined]:
    """The attributes ``strides``, ``dilation`` and ``padding`` that windows leave undetermined."""
    for d, fitted in enumerate(windows):
        if "strides" in fitted.loose:
            yield Undetermined("strides", "the output extent is 1", d, low=fitted.stride)
        if "dilation" in fitted.loose:
            yield Undetermined("dilation", "the kernel extent is 1", d, low=1)
        if fitted.least < fitted.most:
            why = "no window ends in the rest of the stride"
            yield Undetermined("padding", why, d + len(windows), fitted.least, fitted.most)
