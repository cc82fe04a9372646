"""What an equality rests on: the facts that were proved, and what it needs beyond bit-equality.

- ``reassociated``: a floating-point sum or product was regrouped or permuted;
- ``finite``: ``0 * x = 0`` was used, which holds for finite x;
- ``ordered``: a floating-point minimum or maximum was regrouped or permuted, which changes nothing
  if no operand is NaN and no zeros have different signs;
- ``above``: the first element is above the lowest number, or below the highest for a minimum;
- ``rounded``: the terms were compared in real arithmetic, see `analysis.real`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Obligation:
    """One fact on which a proof rests."""

    goal: str
    engine: str
    ms: float


@dataclass
class Proof:
    """The facts on which an equality rests."""

    obligations: list[Obligation] = field(default_factory=list)
    reassociated: bool = False
    finite: bool = False
    ordered: bool = False
    above: bool = False
    rounded: bool = False
