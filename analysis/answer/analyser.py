"""Analyse each PrimFunc once, with the results shared by structurally equal ones."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..certify.structural_equality import ByStructure
from ..lifting.effects.tensor_expression import TensorExpression
from ..results.op_info import OpInfo, Refusal
from .candidates import certified_operator
from .recover import analyse, lift_or_refuse, recover_or_refuse, recover_whole, with_externs
from .recovered import Recovered


def analyser(*, alternatives: bool = False, tested: bool = False) -> ByStructure[Recovered]:
    """Return `analyse` with a cache."""
    return ByStructure(partial(analyse, alternatives=alternatives, tested=tested))


class Analyser:
    """`analyse` for calls with tensors, and the tensor expressions that it lifts, with a cache."""

    def __init__(self) -> None:
        self._lift, self._recover = ByStructure(lift_or_refuse), ByStructure(self._analyse)
        self._exact = ByStructure(self._exactly)

    def __call__(self, func: Any) -> Recovered:
        return self._recover(func)

    def lifted(self, func: Any) -> TensorExpression | Refusal:
        """Return what a PrimFunc computes, or why it cannot be lifted."""
        return self._lift(func)

    def exact(self, expression: TensorExpression, func: Any, _: bool = False) -> OpInfo | Refusal:
        """Return the operator over the PrimFunc's own buffers, without rounding.

        Nothing is kept if the work is given up, as another caller may have more left to spend.
        """
        if expression is not self._lift(func):
            return certified_operator(expression, func, False)
        return self._exact(func)

    def _exactly(self, func: Any) -> OpInfo | Refusal:
        expression = self._lift(func)
        if isinstance(expression, Refusal):
            return expression
        return certified_operator(expression, func, False)

    def _analyse(self, func: Any) -> Recovered:
        expression = with_externs(self._lift(func), func)
        if isinstance(expression, Refusal):
            return recover_whole(func, expression)
        return recover_or_refuse(expression, func, exact=self.exact).over_tensors()
