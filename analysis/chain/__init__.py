"""Fused PrimFuncs as chains of operators."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from tvm import tirx

from ..answer.fault import fault
from ..answer.kind import pattern_kind
from ..certify.assumptions import CANCELS, simplifier_assumptions
from ..index_map.maps.to_terms import Unsupported
from ..lifting.lift import lift
from ..lifting.tir.from_tir import Unliftable
from ..proposal.answer_values import variables
from ..results.op_info import Answer, Refusal, operator, over_variables, with_certificate
from ..terms.show import show
from ..terms.term import TensorVar, Var
from ..terms.work import Exhausted, budget
from .chain_result import Chain, PartlyRead, Step, StepResult, Value
from .define import TensorProgram, define
from .definition_window import DefinitionWindow, Recover
from .segment import Part, segment

__all__ = ["Chain", "Chains", "PartlyRead", "Step", "StepResult", "Value", "op_infos"]


def op_infos(func: Any) -> Chain | Refusal:
    """Return the operators that a fused PrimFunc computes, in order, with the dataflow.

    A PrimFunc of one operator is a chain of one. The steps compose to the function: each step is
    certified on its part of the function's definitions.

    Args:
        func: A `tirx.PrimFunc`.

    Returns:
        The chain, or a `Refusal`. If opinfo can read only a part, the refusal is a `PartlyRead`
            with the known steps.

    Raises:
        TypeError: `func` is not a PrimFunc.
    """
    return Chains().of(func)


class Chains:
    """`op_infos` with a cache: parts that functions have in common are analysed once.

    A call returns sizes as terms that all functions share; `of` returns them as TIR.
    """

    def __init__(self) -> None:
        self._recover = Recover()

    def of(self, func: Any) -> Chain | Refusal:
        """Return the chain of a PrimFunc, with dimensions over its own variables."""
        chain = self(func)
        if not isinstance(chain, (Chain, PartlyRead)):
            return chain
        leaves = partial(variables, chain.params, func)
        try:
            steps = tuple(replace(s, info=over_variables(s.info, leaves)) for s in chain.steps)
        except Unsupported as error:
            return Refusal(f"a dimension has no expression: {error}")
        except Exception as error:
            return fault(error)
        return replace(chain, steps=steps)

    def __call__(self, func: Any) -> Chain | Refusal:
        if not isinstance(func, tirx.PrimFunc):
            raise TypeError(f"op_infos: expected a tvm.tirx.PrimFunc, got {type(func).__name__}")
        try:
            with budget():
                program = define(func)
                return _chain(program, segment(program, self._recover))
        except Exhausted as error:
            return Refusal(str(error))
        except Unliftable as error:
            return Refusal(error.reason, error.where)
        except RecursionError:
            return Refusal("the compute is nested too deeply")
        except Exception as error:
            return fault(error)


def _chain(program: TensorProgram, parts: tuple[Part, ...]) -> Chain | Refusal:
    values: dict[TensorVar | Var, Value] = {param: k for k, param in enumerate(program.params)}
    steps: list[Step] = []
    problem: tuple[Part, Refusal] | None = None
    for part in parts:
        if not isinstance(part.info, Refusal) and part.window is not None:
            position = len(steps)
            values |= {t: StepResult(position, k) for k, t in enumerate(part.window.writes)}
            buffers = tuple(values[t] for t in _buffers(part.window, part.info))
            steps.append(Step(part.info, buffers, tuple(repr(t) for t in part.window.tensors)))
            continue
        values |= {d.tensor: StepResult(-1) for d in part.definitions}
        assert isinstance(part.info, Refusal)
        problem = problem or (part, part.info)
    if problem is not None:
        unread, refusal = problem
        name = ", ".join(d.tensor.name for d in unread.definitions)
        body = next((d.body for d in unread.definitions if d.body is not None), None)
        place = f"the buffer {name}" + (f" = {show(body)[:200]}" if body is not None else "")
        return PartlyRead(refusal.reason, place, tuple(steps), program.params)
    outputs = tuple(result for t in program.outputs if isinstance(result := values[t], StepResult))
    if len(steps) > 1:
        steps = _simplified(steps, program)
    indices = program.inplace_indices if max(program.inplace_indices) >= 0 else ()
    return Chain(tuple(steps), outputs, _kind(steps, program), program.params, indices)


def _buffers(window: DefinitionWindow, info: Answer) -> tuple[TensorVar | Var, ...]:
    """The tensors of a window, then its integer scalars if one of them is an operand."""
    found = operator(info)
    operands = [o for o in found.operands if isinstance(o, int)] if found else []
    takes_scalars = max(operands, default=0) >= len(window.tensors)
    return (*window.tensors, *window.scalars) if takes_scalars else window.tensors


def _simplified(steps: list[Step], program: TensorProgram) -> list[Step]:
    """The steps, with what TVM's simplifier assumes about statements of several operators."""
    assumptions = simplifier_assumptions(d.body for d in program.definitions if d.body is not None)
    if not assumptions:
        return steps
    out = []
    for step in steps:
        certificate = step.info.certificate
        exact = certificate.exact and CANCELS not in assumptions
        certificate = replace(
            certificate,
            exact=exact,
            assumptions=tuple(dict.fromkeys((*certificate.assumptions, *assumptions))),
        )
        out.append(replace(step, info=with_certificate(step.info, certificate)))
    return out


def _kind(steps: list[Step], program: TensorProgram) -> Any:
    if len(steps) == 1:
        return steps[0].info.kind
    try:
        return pattern_kind(lift(program.func))
    except (Unliftable, RecursionError):
        return "kOpaque"
