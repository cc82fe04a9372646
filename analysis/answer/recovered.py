"""An answer, before its dimensions are over the variables of one PrimFunc."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..index_map.maps.to_terms import Unsupported
from ..proposal.answer_values import variables
from ..results.op_info import Answer, OpInfo, Refusal, operator
from ..results.over_variables import over_variables
from ..terms.term import TensorVar, Var
from .internal_error import fault


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

    def over_tensors(self) -> Recovered:
        """Return the answer, or a refusal if it cannot stand for calls with tensors.

        It cannot if an operand is a scalar parameter or updated in place, or if it holds only for
        some sizes. A call passes a number for a scalar, and a Relax operator takes a tensor without
        dimensions. A call of ``relax.call_tir`` has no old content of its result.
        """
        info = self.operator
        if info is not None and info.inplace_indices:
            place = next(k for k in info.inplace_indices if k >= 0)
            reason = f"{info.name} is computed in place"
            return replace(self, info=Refusal(reason, self.params[place].name))
        if info is not None and info.certificate.sizes:
            reason = f"{info.name} assumes a relation of sizes"
            return replace(self, info=Refusal(reason, info.certificate.sizes[0]))
        operands = (o for o in info.operands if isinstance(o, int)) if info else ()
        scalars = (p for o in operands if _is_scalar(p := self.params[o]))
        scalar = next(scalars, None)
        if info is None or scalar is None:
            return self
        reason = f"an operand of {info.name} is a scalar parameter, not a tensor"
        return replace(self, info=Refusal(reason, scalar.name))

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


def _is_scalar(param: TensorVar | Var) -> bool:
    return isinstance(param, Var) or param.scalar
