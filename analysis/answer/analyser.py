"""Analyse each PrimFunc once, with the results shared by structurally equal ones."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..certify.structural_equality import ByStructure
from ..lifting.effects.tensor_expression import TensorExpression
from ..results.op_info import Refusal
from .recover import analyse, lift_or_refuse, recover_or_refuse, recover_whole, with_externs
from .recovered import Recovered


def analyser(*, alternatives: bool = False, tested: bool = False) -> ByStructure[Recovered]:
    """Return `analyse` with a cache."""
    return ByStructure(partial(analyse, alternatives=alternatives, tested=tested))


class Analyser:
    """`analyse` for calls with tensors, and the tensor expressions that it lifts, with a cache."""

    def __init__(self) -> None:
        self._lift, self._recover = ByStructure(lift_or_refuse), ByStructure(self._analyse)

    def __call__(self, func: Any) -> Recovered:
        return self._recover(func)

    def lifted(self, func: Any) -> TensorExpression | Refusal:
        """Return what a PrimFunc computes, or why it cannot be lifted."""
        return self._lift(func)

    def _analyse(self, func: Any) -> Recovered:
        expression = with_externs(self._lift(func), func)
        if isinstance(expression, Refusal):
            return recover_whole(func, expression)
        return recover_or_refuse(expression, func).over_tensors()
