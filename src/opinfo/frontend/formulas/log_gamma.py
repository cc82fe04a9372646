"""The logarithm of the absolute value of the gamma function, which TVM does not have.

From 8 on, Stirling's series; below, ``log Gamma(x + 8) - log(x (x + 1) ... (x + 7))``; below 1/2,
the reflection ``log(pi / |sin(pi x)|) - log Gamma(1 - x)`` (Abramowitz and Stegun, 6.1.40, 6.1.17).
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

from tvm import te, tirx

#: From here on, the series below is exact to 2e-15.
_FIRST = 8
#: Stirling's series in 1 / z**2, from the lowest power.
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def log_gamma(data: Any) -> Any:
    """Return log |Gamma(x)| of each element of a tensor of real numbers; at poles, infinity.

    It computes in float64, since the function has roots: its error is absolute there, about 1e-14,
    so that results in float32 are exact to a rounding. At the roots 1 and 2 it returns 0.
    """

    def element(*places: Any) -> Any:
        x = data(*places).astype("float64")
        reflected = x < _number(0.5)
        positive = _of_positive(tirx.Select(reflected, _number(1.0) - x, x))
        # The distance to the nearest integer has no rounding, unlike x - floor(x).
        sine = tirx.sin(_number(math.pi) * tirx.abs(x - tirx.round(x)))
        below = _number(math.log(math.pi)) - tirx.log(tirx.abs(sine)) - positive
        finite = tirx.Select(reflected, below, positive)
        exact = tirx.Select(tirx.any(x == _number(1.0), x == _number(2.0)), _number(0.0), finite)
        pole = tirx.any(tirx.isinf(x), tirx.all(reflected, sine == _number(0.0)))
        return tirx.Select(pole, _number(math.inf), exact).astype(data.dtype)

    return te.compute(data.shape, element, name="log_gamma")


def _number(value: float) -> Any:
    return tirx.const(value, "float64")


def _of_positive(x: Any) -> Any:
    """Return log Gamma(x) for x >= 1/2."""
    small = x < _number(_FIRST)
    z = tirx.Select(small, x + _number(_FIRST), x)
    factors = functools.reduce(operator.mul, (x + _number(k) for k in range(_FIRST)))
    inverse = _number(1.0) / z
    square = inverse * inverse
    series = functools.reduce(lambda sum_, c: sum_ * square + _number(c), reversed(_SERIES[:-1]),
                              _number(_SERIES[-1]))  # fmt: skip
    tail = _number(0.5 * math.log(2 * math.pi)) + series * inverse
    stirling = (z - _number(0.5)) * tirx.log(z) - z + tail
    return stirling - tirx.log(tirx.Select(small, factors, _number(1.0)))
