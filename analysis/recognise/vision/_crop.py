"""The region of interest of a resize in mode tf_crop_and_resize, from its sampling.

An axis is sampled at ``begin * (in - 1) + y * (end - begin) * (in - 1) / (out - 1)``. It
contains the product ``begin * (in - 1)`` and the difference ``end - begin``, rounded to float32.
The shortest decimals that round to these values are proposed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from ...terms.term import CallTerm, Const, Int, Load, Term
from ...terms.traversal import free, subterms
from .._forms.access_functions import literal
from .._forms.sums_of_products import bare

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


def _interval(index: Int, coordinate: Int, size: Int) -> Iterator[tuple[float, float]]:
    """Candidates for ``(begin, end)`` of one axis."""
    variables = free(coordinate)
    moving = [s for s in subterms(index) if not variables.isdisjoint(free(s))]
    lengths = [factor for s in moving if (factor := _factor(s)) is not None]
    if not lengths or (size.const is not None and size.const - 1 in lengths):
        lengths = [
            1.0,
            *lengths,
        ]  # with length 1, `coordinate` is multiplied by ``in - 1`` directly
    starts = [b for s in moving for b in _starts(s, size)]
    for start in (*starts, 0.0):
        for length in dict.fromkeys(lengths):
            yield start, _shortest(np.float32(start) + np.float32(length))


def _factor(term: Term) -> float | None:
    """The length in ``length * cast(y)``, or None."""
    if not (isinstance(term, CallTerm) and term.op == "mul"):
        return None
    constants = [a.value for a in term.args if isinstance(a, Const)]
    casts = [a for a in term.args if isinstance(a, CallTerm) and a.op == "cast"]
    return float(constants[0]) if constants and casts else None


def _starts(term: Term, size: Int) -> Iterator[float]:
    """Yield the begins in ``begin * (in - 1) + …``, where the product may be one literal."""
    if not (isinstance(term, CallTerm) and term.op == "add"):
        return
    for operand in term.args:
        if (
            isinstance(operand, Const)
            and operand.value not in EPSILONS
            and size.const not in (None, 1)
        ):
            assert size.const is not None
            yield _shortest(np.float32(operand.value) / np.float32(size.const - 1))
        elif isinstance(operand, CallTerm) and operand.op == "mul" and size.const is None:
            yield from (float(b.value) for b in operand.args if isinstance(b, Const))


def _shortest(value: np.float32) -> float:
    """The shortest decimal of a float32, without rounding noise."""
    return float(f"{value:.6g}")
