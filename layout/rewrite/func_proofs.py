"""What is proved about PrimFuncs, once for structurally equal ones, and known of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...analysis.answer.analyser import Analyser
from ...analysis.answer.internal_error import fault
from ...analysis.answer.recover import recover_direct
from ...analysis.blocks.blocks import Forms
from ...analysis.certify.structural_equality import ByStructure
from ...analysis.results.op_info import Answer, Refusal
from ...analysis.terms.term.work_budget import Exhausted, budget
from .rewrite import Rewriter

#: By function and position, the least and the greatest element that a parameter may have.
CheckedBounds = Mapping[str, Mapping[int, tuple[int, int]]]


class FuncProofs:
    """Operators of PrimFuncs and their forms in other layouts, with the proofs.

    They depend on the PrimFunc and the layouts only. So the plans and builds of a model share them,
    whichever backends and costs they choose by.

    Args:
        checked: Bounds of parameters that are checked before each call of their function.

    Attributes:
        checked: These bounds.
        analyse: The operator of a PrimFunc.
        form: Its blocks.
        rewriter: It in other layouts.
    """

    def __init__(self, checked: CheckedBounds | None = None) -> None:
        self.checked = checked or {}
        self.analyse, self.form = Analyser(), Forms()
        self.rewriter = Rewriter(self.form)
        self._directly = ByStructure(self._direct)
        self._exactly = ByStructure(partial(self._direct, rounded=False))

    def direct(self, func: Any, rounded: bool = True) -> Answer:
        """Return the operator of a PrimFunc over its own buffers.

        Args:
            func: The PrimFunc.
            rounded: Also try operators that are equal up to rounding only, which takes longer.
        """
        return (self._directly if rounded else self._exactly)(func)

    def _direct(self, func: Any, rounded: bool = True) -> Answer:
        expression = self.analyse.lifted(func)
        if isinstance(expression, Refusal):
            return expression
        try:
            with budget():
                return recover_direct(expression, func, exact=self.analyse.exact, rounded=rounded)
        except Exhausted as error:
            return Refusal(str(error))
        except Exception as error:
            return fault(error)
