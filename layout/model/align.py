"""Alignment: which digits of a buffer's dimensions are which digits of a block's loops.

out[n, y, x, f] += pad[n, y + ry, x + rx, rc] * w[f, ry, rx, rc]
pad:  n ↔ n, dim 1 ~ y, dim 2 ~ x, dim 3 ↔ rc        (↔ exact, ~ as a whole: a window)

out[i, j] = in[i // 4, i % 4, j]:   dim 0 ↔ i // 4, dim 1 ↔ i % 4, dim 2 ↔ j
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...analysis.terms.quotient import is_div
from ...analysis.terms.term import CallTerm, Int, Var, as_int
from ...analysis.terms.traversal import free
from .digit import Digit


class Unaligned(Exception):
    """A layout does not align with an access; the message says where."""


@dataclass(frozen=True)
class AlignedDim:
    """``dim`` of a buffer's coordinates is ``loop`` of the iteration.

    ``shift``: the coordinate is the loop's plus this. Unless ``exact``, only the whole dimension
    corresponds to the whole axis.
    """

    dim: Digit
    loop: Digit
    shift: int = 0
    exact: bool = True


def pieces(
    index: Int | None, dim: int, axes: Sequence[Var], reduced: frozenset[Var]
) -> list[AlignedDim]:
    """The aligned digits of dimension ``dim``, which is accessed at ``index``."""
    if index is None:
        return []
    linear = _linear(index, axes)
    if linear is not None:
        exact = _radix(linear[0], linear[1], dim, axes)
        if exact is not None:
            return exact
    inside = [v for v in axes if v in free(index)]
    outer = [v for v in inside if v not in reduced] or inside
    if len(outer) != 1:
        return []
    return [AlignedDim(Digit(dim), Digit(axes.index(outer[0])), exact=False)]


Scaled = tuple[int, Digit]


def _linear(index: Int, axes: Sequence[Var]) -> tuple[list[Scaled], int] | None:
    """``Σ scale * digit + shift``, or None."""
    scales: dict[int, dict[int, int]] = {}
    shift = 0
    for mono, coef in index.terms:
        if not mono:
            shift = coef
            continue
        at = _quotient(mono[0], axes) if len(mono) == 1 else None
        if at is None:
            return None
        scales.setdefault(at[0], {})[at[1]] = coef
    out: list[Scaled] = []
    for axis, by in scales.items():
        cuts = sorted({1, *by})
        scale = 0
        for low, high in zip(cuts, [*cuts[1:], None], strict=True):
            scale = scale * (low // cuts[max(cuts.index(low) - 1, 0)]) + by.get(low, 0)
            if high is not None and high % low:
                return None
            if scale:
                out.append((scale, Digit(axis, low, None if high is None else high // low)))
    return out, shift


def _quotient(atom: object, axes: Sequence[Var]) -> tuple[int, int] | None:
    """Axis and divisor of a variable ``v`` or of ``v // k``."""
    if isinstance(atom, Var):
        return (axes.index(atom), 1) if atom in axes else None
    if isinstance(atom, CallTerm) and is_div(atom):
        term, k = as_int(atom.args[0]).atom, as_int(atom.args[1]).const
        if isinstance(term, Var) and term in axes and k:
            return axes.index(term), k
    return None


def _radix(terms: list[Scaled], shift: int, k: int, axes: Sequence[Var]) -> list[AlignedDim] | None:
    """The digits if the scales form a mixed radix, from the highest to the lowest."""
    out: list[AlignedDim] = []
    expected: int | None = 1
    for scale, loop in sorted(terms, key=lambda t: t[0]):
        if scale != expected:
            return None
        size = loop.extent
        if size is None:
            axis_extent = axes[loop.axis].extent
            extent = None if axis_extent is None else axis_extent.const
            size = None if extent is None else -(extent // -loop.div)
        expected = None if size is None else scale * size
        out.append(AlignedDim(Digit(k, scale, size), loop))
    if not out:
        return []
    top = out[-1]
    if shift % top.dim.div:
        return None
    out[-1] = replace(top, dim=top.dim._replace(extent=None), shift=shift)
    return out[::-1]


def cut(digit: Digit, low: int, high: int | None) -> Digit:
    """The part of a digit between the place values ``low`` and ``high``."""
    return Digit(digit.axis, low, None if high is None else high // low)


def top(digit: Digit) -> int | None:
    """The place value above a digit."""
    return None if digit.extent is None else digit.div * digit.extent


def to_loops(digits: Sequence[Digit], aligned: Sequence[AlignedDim]) -> list[Digit]:
    """Digits of a buffer, in their order, as digits of the loops that carry them."""
    return list(_through(digits, [(p.dim, p.loop, p) for p in aligned]))


def to_dims(digits: Sequence[Digit], aligned: Sequence[AlignedDim]) -> list[Digit]:
    """Digits of the loops, in their order, as digits of a buffer's dimensions."""
    return list(_through(digits, [(p.loop, p.dim, p) for p in aligned]))


def _through(
    digits: Sequence[Digit], pairs: Sequence[tuple[Digit, Digit, AlignedDim]]
) -> Iterator[Digit]:
    """Each digit as digits of the other side of the pairs; those without a pair are left out."""
    for digit in digits:
        matching = [p for p in pairs if p[0].axis == digit.axis]
        if len(matching) > 1:
            matching.sort(key=lambda p: -p[0].div)
        for source, target, piece in matching:
            if source == digit:
                yield target
                continue
            low = max(digit.div, source.div)
            highs = [h for h in (top(digit), top(source)) if h is not None]
            high = min(highs) if highs else None
            if high is not None and high <= low:
                continue
            yield _image(source, target, piece, low, high)


def _image(source: Digit, target: Digit, piece: AlignedDim, low: int, high: int | None) -> Digit:
    """The values ``[low, high)`` of ``source`` as a digit of ``target``."""
    uncut = low == source.div and high == top(source)
    if uncut:
        return target
    if not piece.exact:
        raise Unaligned("a window cannot be split")
    end = None if high is None or high == top(source) else high // source.div
    if low % source.div or (high is not None and high % low):
        raise Unaligned(f"a split at {low} and one at {source.div} do not line up")
    start = low // source.div
    if piece.shift % (piece.dim.div * start) or (end and piece.shift % (piece.dim.div * end)):
        raise Unaligned(f"an offset of {piece.shift} is not a multiple of the split")
    last = top(target) if end is None else target.div * end
    return cut(target, target.div * start, last)
