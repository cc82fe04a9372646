"""Rotary position embeddings (RoPE), defined in Relax operators.

Source: Su et al., RoFormer, arXiv 2104.09864.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.relax import op

from ..defining.composite import composite
from .rotary_frequencies import SCALINGS, frequencies
from .rotary_parts import STYLES, Features, check_turned, places_of, turned_heads

ROTARY = "relax.nn.rotary_embedding"
TABLES = "relax.nn.apply_rotary_embedding"


@composite(ROTARY)
def rotary_embedding(
    data: Any,
    positions: Any,
    apply: Any = None,
    *,
    base: float,
    rotary_dim: int,
    style: str = "neox",
    heads: Sequence[int] = (),
    scale: float = 1.0,
    scaling: str = "none",
    parameters: Sequence[float] = (),
    compute_dtype: str = "float32",
) -> Any:
    """Return the data with pairs of each head's features turned by angles that grow with positions.

        angle[s, d] = scale * positions[s] * f(base ** (-2 * k / rotary_dim))
        out[.., s, h, d] = cos(angle) * x[.., s, h, d] + sin(angle) * turned[.., s, h, d]

    The features d and e of a pair k have ``turned[d] = -x[e]`` and ``turned[e] = x[d]``. Features
    from ``rotary_dim`` on are copied. `frequencies` documents f.

    Args:
        data: (.., positions, heads, features), of a floating-point dtype.
        positions: Integers: (positions,), or without dimensions the position after the last.
        apply: An integer without dimensions; the data are only copied unless it is positive. None
            if they are always turned.
        base: The base of the powers, called theta.
        rotary_dim: The number of features that are turned, which is even.
        style: The pairs: ``neox`` (k, k + rotary_dim / 2) as in Llama, ``gptj`` (2 k, 2 k + 1).
        heads: The heads of queries, keys and values. There are three results then: turned queries,
            turned keys, and values. One result for all heads if it is empty.
        scale: A factor of positions.
        scaling: How frequencies are changed for long contexts: none, llama3, llama4, yarn.
        parameters: The numbers of the scaling.
        compute_dtype: The dtype in which positions are scaled and features turned. Angles are of
            float32.
    """
    _check(data, positions, base, rotary_dim, style, scaling, compute_dtype)
    rank = len(data.ty.shape)
    places = op.astype(places_of(positions, data.ty.shape[rank - 3]), compute_dtype)
    if scale != 1:
        places = op.multiply(places, tirx.const(scale, compute_dtype))
    places = op.expand_dims(op.astype(places, "float32"), [1])
    angles = frequencies(places, base, rotary_dim, style == "gptj", scaling, parameters)
    cos, sin = (op.expand_dims(op.astype(f(angles), compute_dtype), [1]) for f in (op.cos, op.sin))
    features = Features(rank - 1, int(data.ty.shape[rank - 1]), rotary_dim, style)

    def turned(x: Any) -> Any:
        out = features.turned(x, cos, sin, compute_dtype, str(data.ty.dtype))
        if apply is None:
            return out
        return op.where(op.greater(apply, tirx.const(0, str(apply.ty.dtype))), out, x)

    return turned_heads(ROTARY, data, heads, turned)


@composite(TABLES)
def apply_rotary_embedding(
    data: Any, cos: Any, sin: Any, *, rotary_dim: int, style: str = "neox"
) -> Any:
    """Return the data with pairs of features turned by angles whose cosines and sines are given.

        out[.., d] = cos[.., d] * x[.., d] + sin[.., d] * turned[.., d]

    See `rotary_embedding`. The dtype of the tables is the one in which features are turned.

    Args:
        data: (.., features), of a floating-point dtype.
        cos: The cosines, which broadcast to (.., rotary_dim).
        sin: The sines, of the same dtype.
        rotary_dim: The number of features that are turned, which is even.
        style: The pairs: ``neox`` (k, k + rotary_dim / 2), ``gptj`` (2 k, 2 k + 1).
    """
    axis = len(data.ty.shape) - 1
    dtype = str(cos.ty.dtype)
    size = int(data.ty.shape[axis]) if axis >= 0 else 0
    if rotary_dim < 2 or rotary_dim % 2 or rotary_dim > size or style not in STYLES:
        raise ValueError(f"{TABLES}: rotary_dim {rotary_dim}, style {style} of {data.ty}")
    if dtype != str(sin.ty.dtype) or not len(cos.ty.shape) == len(sin.ty.shape) == axis + 1:
        raise ValueError(f"{TABLES}: tables {cos.ty} and {sin.ty} of {data.ty}")
    features = Features(axis, size, rotary_dim, style)
    return features.turned(data, cos, sin, dtype, str(data.ty.dtype))


def _check(
    data: Any, positions: Any, base: float, rotary_dim: int, style: str, scaling: str, dtype: str
) -> None:
    check_turned(ROTARY, data, positions, base, rotary_dim, style)
    if scaling not in SCALINGS:
        raise ValueError(f"{ROTARY}: scaling {scaling}, expected {' or '.join(SCALINGS)}")
    if dtype not in ("float32", str(data.ty.dtype)):
        raise ValueError(f"{ROTARY}: compute_dtype {dtype}, expected float32 or that of the data")
