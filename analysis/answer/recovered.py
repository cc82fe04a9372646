"""An answer, before its dimensions are over the variables of one PrimFunc."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..index_map.maps.to_terms import Unsupported
from ..proposal.answer_values import variables
from ..results.op_info import Answer, OpInfo, Refusal, operator, over_variables
from ..terms.term import TensorVar, Var
from .fault import fault


@dataclass(frozen=True)
class Recovered:
    """An answer, the parameters that its attributes are over, and the positions of the outputs."""

    info: Answer
    params: tuple[TensorVar | Var, ...] = ()
    outputs: tuple[int, ...] = ()

    @property
    def operator(self) -> OpInfo | None:
        """The operator, over the PrimFunc's own buffers or logical ones; None for a refusal."""
        return operator(self.info)

    def of(self, func: Any) -> Recovered:
        """Return the answer with its dimensions over the variables of a PrimFunc.

        An answer is shared by structurally equal PrimFuncs; `func` is one of them.
        """
        if isinstance(self.info, Refusal):
            return self
        try:
            info = over_variables(self.info, partial(variables, self.params, func))
        except Unsupported as error:
            return replace(self, info=Refusal(f"a dimension has no expression: {error}"))
        except Exception as error:
            return replace(self, info=fault(error))
        return self if info is self.info else replace(self, info=info)
