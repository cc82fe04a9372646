"""The region of interest of a resize in mode tf_crop_and_resize, from its sampling.

An axis is sampled at ``begin * (in - 1) + y * (end - begin) * (in - 1) / (out - 1)``. It
contains the product ``begin * (in - 1)`` and the difference ``end - begin``, rounded to float32.
The shortest decimals that round to these values are proposed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from ..terms.term import CallTerm, Const, Int, Load, Term
from ..terms.traversal import free, subterms
from ._contraction import bare
from ._moves import literal

#: The terms that a rounding method adds to the coordinate.
EPSILONS = (1e-5, 0.5)


def outside(term: Term) -> float | None:
    """The literal used outside the input, or None."""
    while isinstance(term, CallTerm) and term.op == "cast":
        term = term.args[0]
    if not (isinstance(term, CallTerm) and term.op == "ite"):
        return None
    values = [literal(bare(v)) for v in term.args[1:]]
    value = next((v for v in values if v is not None), None)
    return None if value is None else float(value)


def regions(load: Load, axes: Sequence[Int], sampled: Sequence[int]) -> Iterator[tuple[float, ...]]:
    """Matching regions of interest: the begins of the sampled axes, then the ends."""
    intervals = [list(_interval(load.indices[d], axes[d], load.tensor.shape[d])) for d in sampled]
    for chosen in product(*intervals):
        begins, ends = zip(*chosen, strict=True)
        yield (*begins, *ends)


def _interval(index: Int, poly: Int, size: Int) -> Iterator[tuple[float, float]]:
    """Candidates for ``(begin, end)`` of one axis."""
    moving = [s for s in subterms(index) if free(poly) and not free(poly).isdisjoint(free(s))]
    lengths = [v for s in moving if (v := _factor(s)) is not None]
    if not lengths or (size.const is not None and size.const - 1 in lengths):
        lengths = [1.0, *lengths]  # with length 1, y is multiplied by ``in - 1`` directly
    starts = [b for s in moving for b in _starts(s, size)]
    for start in (*starts, 0.0):
        for length in dict.fromkeys(lengths):
            yield start, _shortest(np.float32(start) + np.float32(length))


def _factor(term: Term) -> float | None:
    """``length * cast(y)``."""
    if not (isinstance(term, CallTerm) and term.op == "mul"):
        return None
    constants = [a.value for a in term.args if isinstance(a, Const)]
    casts = [a for a in term.args if isinstance(a, CallTerm) and a.op == "cast"]
    return float(constants[0]) if constants and casts else None


def _starts(s: Term, size: Int) -> Iterator[float]:
    """``begin * (in - 1) + …``, or that product as a literal."""
    if not (isinstance(s, CallTerm) and s.op == "add"):
        return
    for a in s.args:
        if isinstance(a, Const) and a.value not in EPSILONS and size.const not in (None, 1):
            assert size.const is not None
            yield _shortest(np.float32(a.value) / np.float32(size.const - 1))
        elif isinstance(a, CallTerm) and a.op == "mul" and size.const is None:
            yield from (float(b.value) for b in a.args if isinstance(b, Const))


def _shortest(value: np.float32) -> float:
    """The shortest decimal of a float32, without rounding noise."""
    return float(f"{value:.6g}")
