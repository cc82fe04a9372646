"""Rotary position embeddings whose frequencies are divided by factors that a model has learnt.

Source: Ding et al., LongRoPE, arXiv 2402.13753.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.relax import op

from ..defining.composite import composite
from .rotary_frequencies import powers
from .rotary_parts import Features, check_turned, places_of, turned_heads

LONG = "relax.nn.long_rotary_embedding"
DTYPE = "float32"


@composite(LONG)
def long_rotary_embedding(
    data: Any,
    positions: Any,
    factors: Any,
    *,
    base: float,
    rotary_dim: int,
    style: str = "neox",
    heads: Sequence[int] = (),
    scale: float = 1.0,
    amplitude: float = 1.0,
    longest: int | None = None,
) -> Any:
    """Return the data with pairs of features turned, by angles that are divided by factors.

        angle[s, d] = scale * positions[s] / (factors[k] * base ** (2 * k / rotary_dim))
        out[.., s, h, d] = amplitude * cos(angle) * x[.., s, h, d]
                           + amplitude * sin(angle) * turned[.., s, h, d]

    See `rotary_embedding`. Angles are of float32, in which features are turned too.

    Args:
        data: (.., positions, heads, features), of a floating-point dtype.
        positions: Integers: (positions,), or without dimensions the position after the last.
        factors: float32 of (rotary_dim / 2,), one for each pair. With `longest`, (rotary_dim,):
            those for more positions than that, then those for others.
        base: The base of the powers, called theta.
        rotary_dim: The number of features that are turned, which is even.
        style: The pairs: ``neox`` (k, k + rotary_dim / 2), ``gptj`` (2 k, 2 k + 1).
        heads: The heads of queries, keys and values, for three results; empty for one.
        scale: A factor of positions.
        amplitude: A factor of cosines and sines.
        longest: The largest number of positions for which the second half of the factors is used.
    """
    check_turned(LONG, data, positions, base, rotary_dim, style)
    _check_factors(factors, rotary_dim, longest)
    rank = len(data.ty.shape)
    count, half = data.ty.shape[rank - 3], rotary_dim // 2
    places = op.astype(places_of(positions, count), DTYPE)
    if scale != 1:
        places = op.multiply(places, tirx.const(scale, DTYPE))
    place, power = powers(base, rotary_dim, style == "gptj")
    pair = op.floor_mod(place, tirx.const(half, "int64"))

    def turned(start: int) -> tuple[Any, Any]:
        """The cosines and sines with the factors from one on."""
        place = op.add(pair, tirx.const(start, "int64")) if start else pair
        divisor = op.multiply(op.take(factors, place, 0), power)
        angles = op.divide(op.expand_dims(places, [1]), divisor)
        factor = tirx.const(float(amplitude), DTYPE)
        waves = (op.multiply(f(angles), factor) for f in (op.cos, op.sin))
        cos, sin = (op.expand_dims(w, [1]) for w in waves)
        return cos, sin

    features = Features(rank - 1, int(data.ty.shape[rank - 1]), rotary_dim, style)
    cos, sin = turned(0)
    if longest is not None:
        size = op.add(op.arange(0, 1, 1, "int64"), count)
        is_long = op.greater(size, tirx.const(longest, "int64"))
        cos, sin = (op.where(is_long, x, y) for x, y in zip((cos, sin), turned(half), strict=True))

    return turned_heads(
        LONG, data, heads, lambda x: features.turned(x, cos, sin, DTYPE, str(data.ty.dtype))
    )


def _check_factors(factors: Any, rotary_dim: int, longest: int | None) -> None:
    size = rotary_dim // 2 if longest is None else rotary_dim
    if str(factors.ty.dtype) != DTYPE or [int(d) for d in factors.ty.shape] != [size]:
        raise ValueError(f"{LONG}: factors {factors.ty}, expected float32 of ({size},)")
