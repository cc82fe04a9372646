"""Scalings of rotary embeddings: by which angle a feature turns at a position.

With ``f = theta^-(2 d % n / n)`` for feature d of n, and the parameters in this order:

    none                angle = position * f
    llama3  (c, a, b)   angle = position * ((1 - s) * f * c + s * f),  s = clip(a * f - b, 0, 1)
    yarn    (c, l, w)   angle = position * (f / c * s + f * (1 - s)),  s = clip((d - l) / w, 0, 1)
    longrope  (m,)      angle = position * f; cosine and sine are multiplied by m

Sources: Llama 3 (arXiv 2407.21783), YaRN (arXiv 2309.00071), LongRoPE (arXiv 2402.13753). The
features of both halves have angles of their own; with yarn they differ, as in TVM's kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.relax import op

WIDE = "float32"
PLAIN, LLAMA3, YARN, LONGROPE = "none", "llama3", "yarn", "longrope"
#: The number of parameters of each scaling.
SCALINGS = {PLAIN: 0, LLAMA3: 3, YARN: 3, LONGROPE: 1}


@dataclass(frozen=True)
class Arithmetic:
    """Operations on float32, of TIR or of Relax.

    Attributes:
        real: Returns a literal.
        largest: The larger of two numbers.
        smallest: The smaller of two numbers.
        add: The sum of two numbers.
        subtract: Their difference.
        multiply: Their product.
        divide: Their quotient.
    """

    real: Callable[[float], Any]
    largest: Callable[[Any, Any], Any]
    smallest: Callable[[Any, Any], Any]
    add: Callable[[Any, Any], Any]
    subtract: Callable[[Any, Any], Any]
    multiply: Callable[[Any, Any], Any]
    divide: Callable[[Any, Any], Any]


TIR = Arithmetic(lambda x: tirx.FloatImm(WIDE, x), tirx.max, tirx.min, tirx.Add, tirx.Sub, tirx.Mul,
                 tirx.Div)  # fmt: skip
RELAX = Arithmetic(lambda x: tirx.const(float(x), WIDE), op.maximum, op.minimum, op.add,
                   op.subtract, op.multiply, op.divide)  # fmt: skip


@dataclass(frozen=True)
class RopeScaling:
    """A scaling and its parameters.

    Raises:
        ValueError: The name is not known, or has another number of parameters.
    """

    name: str = PLAIN
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if SCALINGS.get(self.name) != len(self.parameters):
            known = ", ".join(f"{n} ({k} parameters)" for n, k in SCALINGS.items())
            raise ValueError(f"rotary scaling {self.name!r} with {len(self.parameters)} "
                             f"parameters; expected one of {known}")  # fmt: skip

    @property
    def magnitude(self) -> float | None:
        """The factor of cosine and sine; None without one."""
        return self.parameters[0] if self.name == LONGROPE else None

    @property
    def divides(self) -> bool:
        """Whether positions are divided by powers of the base, not multiplied by frequencies."""
        return self.name in (PLAIN, LONGROPE)

    @property
    def halves_differ(self) -> bool:
        """Whether features of the upper half have other angles than those of the lower half."""
        return self.name == YARN

    def frequency(self, power: Any, feature: Any, of: Arithmetic) -> Any | None:
        """Return the factor of the position; None if it is divided by the power.

        Args:
            power: ``theta^(2 d % n / n)``.
            feature: d, float32.
            of: The operations.
        """
        one, zero = of.real(1.0), of.real(0.0)
        if self.name == LLAMA3:
            part, alpha, beta = map(of.real, self.parameters)
            plain = of.divide(one, power)
            line = of.subtract(of.multiply(alpha, plain), beta)
            smooth = of.largest(zero, of.smallest(one, line))
            slow = of.multiply(of.multiply(of.subtract(one, smooth), plain), part)
            return of.add(slow, of.multiply(smooth, plain))
        if self.name == YARN:
            part, low, width = map(of.real, self.parameters)
            line = of.divide(of.subtract(feature, low), width)
            mask = of.subtract(one, of.largest(of.smallest(line, one), zero))
            slow = of.multiply(of.divide(one, of.multiply(part, power)), of.subtract(one, mask))
            return of.add(slow, of.multiply(of.divide(one, power), mask))
        return None
