"""Sliding windows: one spatial dimension ``in[s*y + d*r - p]`` and its padding."""

from __future__ import annotations

from dataclasses import dataclass

from ..integer import floordiv
from ..term import Int, Term, Var, integer
from ._contraction import affine


@dataclass(frozen=True)
class Window:
    """Stride, dilation and leading padding of one dimension; None where it is not determined.

    ``axis`` is the output coordinate, ``tap`` the kernel's, None where its extent is 1.
    """

    stride: int | None
    dilation: int | None
    before: int
    axis: Var | None
    tap: Var | None


def window(index: Int, outs: frozenset[Term], taps: frozenset[Var]) -> Window | None:
    """The window that an index describes, or None if it is none."""
    found = affine(index)
    if found is None:
        return None
    coefs, shift = found
    ys = [v for v in coefs if v in outs]
    rs = [v for v in coefs if v in taps]
    if len(ys) > 1 or len(rs) > 1 or len(ys) + len(rs) != len(coefs):
        return None
    if any(coefs[v] < 1 for v in coefs):
        return None
    return Window(
        stride=coefs[ys[0]] if ys else None,
        dilation=coefs[rs[0]] if rs else None,
        before=-shift,
        axis=ys[0] if ys else None,
        tap=rs[0] if rs else None,
    )


def after(w: Window, size: Int, out: Int, kernel: int) -> tuple[int, str] | None:
    """``(trailing padding, note)`` for an input and output extent; the note says a free range.

    ``out = (size + before + after - dilation * (kernel - 1) - 1) // stride + 1`` leaves
    ``stride - 1`` choices; the one equal to ``before`` is preferred, then the least.
    """
    stride, reach = w.stride or 1, (w.dilation or 1) * (kernel - 1) + 1
    if size.const is None or out.const is None:
        for pad in (w.before, w.before + 1, w.before - 1, 0, *range(2, 8)):
            extent = floordiv(size + (w.before + pad - reach), integer(stride)) + 1
            if pad >= 0 and extent is out:
                return pad, ""
        return None
    least = (out.const - 1) * stride + reach - size.const - w.before
    if w.stride is None:  # one output: any stride does, so any trailing padding up to it
        return (w.before if w.before >= least else max(least, 0)), "trailing padding"
    most = least + stride - 1
    if most < 0:
        return None
    note = f"trailing padding in {max(least, 0)}..{most}" if stride > 1 else ""
    return (w.before if least <= w.before <= most else max(least, 0)), note
