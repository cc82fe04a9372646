"""Kernels of interpolation: the weight of an element by its distance from a place.

The functions take arrays and Relax expressions alike. `number` returns an operand for a number, and
`below(d, limit, a, b)` is `a` where ``d < limit``, else `b`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

Number = Callable[[float], Any]
Below = Callable[[Any, float, Any, Any], Any]
#: How far the kernel of a method reaches.
REACH = {"linear": 1, "cubic": 2}


def kernel(method: str, distance: Any, alpha: float, number: Number, below: Below) -> Any:
    """Return the weights of a method for distances, which are at least 0.

    Args:
        method: A key of `REACH`.
        distance: The distances.
        alpha: The coefficient of cubic convolution; -0.75 or -0.5 mostly.
        number: See above.
        below: See above.
    """
    d, zero = distance, number(0.0)
    if method == "linear":
        return below(d, 1.0, number(1.0) - d, zero)
    near = ((number(alpha + 2) * d - number(alpha + 3)) * d) * d + number(1.0)
    far = (((d - number(5.0)) * d + number(8.0)) * d - number(4.0)) * number(alpha)
    return below(d, 1.0, near, below(d, 2.0, far, zero))


def neighbours(method: str, stretch: float) -> np.ndarray[Any, Any]:
    """Return the elements that have a weight, counted from the one before a place.

    Args:
        method: A key of `REACH`.
        stretch: By what distances are multiplied; at most 1.
    """
    reach = REACH[method] / stretch
    return np.arange(int(np.floor(-reach)) + 1, int(np.ceil(reach)) + 1)


def of_arrays(method: str, distance: np.ndarray[Any, Any], alpha: float) -> Any:
    """Return the weights for an array of distances."""
    return kernel(method, distance, alpha, float, lambda d, limit, a, b: np.where(d < limit, a, b))


def of_tensors(method: str, distance: Any, alpha: float) -> Any:
    """Return the weights for a Relax tensor of distances."""

    def number(x: float) -> Any:
        return relax.const(x, str(distance.ty.dtype))

    return kernel(
        method, distance, alpha, number,
        lambda d, limit, a, b: relax.op.where(relax.op.less(d, number(limit)), a, b),
    )  # fmt: skip
