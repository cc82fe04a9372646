"""Compare two tensor expressions at random points: evidence without a proof.

Tensors need no memory: an element is a pseudo-random function of its coordinates. Sizes are small,
and every reduction is evaluated in full.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..lifting.effects.tensor_expression import OutputDefinition
from ..terms.evaluate import Array, Unevaluable, evaluate, numpy_dtype
from ..terms.term import SIZES, Int, TensorVar, Term, Var
from ..terms.traversal import free

POINTS, ROUNDS = 64, 4


class Unequal(Exception):
    """The terms differ at a point, or cannot be evaluated."""


def compare(definition: OutputDefinition, term: Term, seed: int = 0) -> int:
    """Return the number of points at which the two terms agree.

    Floating-point values agree within ``1e-4`` relative (``1e-2`` for half precision).

    Raises:
        Unequal: The terms differ at a point.
    """
    rng = np.random.default_rng(seed)
    agreed = 0
    for number in range(ROUNDS):
        env: dict[Var, Any] = {v: int(rng.integers(1, 6)) for v in _sizes(definition)}
        shape = [_extent(e, env) for e in definition.out.shape]
        points = rng.integers(0, max(math.prod(shape), 1), POINTS)
        places = np.unravel_index(points, shape) if shape else ()
        for poly, coordinate in zip(definition.axes, places, strict=True):
            if isinstance(poly.atom, Var):
                env[poly.atom] = coordinate
        elements = _Elements(int(rng.integers(1 << 30)), number)
        try:
            left, right = (evaluate(t, env, elements) for t in (definition.body, term))
        except (Unevaluable, ValueError, TypeError) as error:
            raise Unequal(f"cannot be evaluated: {error}") from None
        _agree(left, right, definition.out.dtype)
        agreed += POINTS
    return agreed


def _sizes(definition: OutputDefinition) -> list[Var]:
    variables = free(definition.body).union(*(free(e) for e in definition.out.shape))
    return sorted((v for v in variables if v.kind in SIZES), key=lambda var: var.uid)


def _extent(poly: Int, env: dict[Var, Any]) -> int:
    return int(evaluate(poly, env))


def _agree(left: Array, right: Array, dtype: str) -> None:
    tolerance = 1e-2 if dtype in ("float16", "bfloat16") else 1e-4
    if "float" in dtype:
        a, b = left.astype("float64"), right.astype("float64")
        same = np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        same = np.asarray(left == right)
    if not same.all():
        raise Unequal(f"they differ at {int((~same).sum())} of {same.size} points")


class _Elements:
    """``tensor[indices]`` as a hash of the coordinates, in a different range in each round."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.round = seed, number

    def __call__(self, tensor: TensorVar, indices: tuple[Array, ...]) -> Array:
        mixed = np.asarray(self.seed + 7919 * (tensor.position + 1), dtype=np.uint64)
        with np.errstate(over="ignore"):
            for coordinate in indices:
                mixed = mixed ^ np.asarray(coordinate).astype(np.uint64)
                mixed = mixed * np.uint64(0x9E3779B97F4A7C15)
                mixed = mixed ^ (mixed >> np.uint64(29))
        unit = (mixed >> np.uint64(11)).astype(np.float64) / float(1 << 53)
        if "float" in tensor.dtype:
            low, high = ((-2.0, 2.0), (0.1, 2.0), (-50.0, 50.0), (-8.0, 8.0))[self.round % 4]
            return np.asarray(low + unit * (high - low), dtype=numpy_dtype(tensor.dtype))
        if tensor.dtype == "bool":
            return np.asarray(unit < 0.5)
        kind = numpy_dtype(tensor.dtype)
        signed = np.issubdtype(kind, np.signedinteger) and self.round % 2
        return np.asarray(np.floor(unit * 9) - 4 if signed else unit * 5, dtype=kind)
