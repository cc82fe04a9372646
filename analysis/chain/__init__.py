"""Fused PrimFuncs as chains of operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tvm import tirx

from ..answer.internal_error import fault
from ..answer.kind import pattern_kind
from ..answer.recover import recover_whole
from ..certify.assumptions import CANCELS, simplifier_assumptions
from ..index_map.maps.to_terms import Unsupported
from ..lifting.lift import lift
from ..lifting.tir.unliftable import Unliftable
from ..proposal.answer_values import variables
from ..results.op_info import Answer, OpInfo, Refusal, operator, with_certificate
from ..results.over_variables import over_variables
from ..terms.show import show
from ..terms.term import TensorVar, Var
from ..terms.term.work_budget import Exhausted, budget
from ..terms.traversal import tensors
from .chain_result import Chain, OpaqueStep, PartlyRead, Step, StepResult, Value
from .define import define
from .definition_window import DefinitionWindow, Recover
from .segment import Part, segment
from .tensor_program import TensorDefinition, TensorProgram

__all__ = ["Chain", "Chains", "OpaqueStep", "PartlyRead", "Step", "StepResult", "Value", "op_infos"]


def op_infos(func: Any) -> Chain | Refusal:
    """Return the operators that a fused PrimFunc computes, in order, with the dataflow.

    A PrimFunc of one operator is a chain of one. The steps compose to the function: each step is
    certified on its part of the function's definitions.

    Args:
        func: A `tirx.PrimFunc`.

    Returns:
        The chain, or a `Refusal`. If opinfo can read only a part, the refusal is a `PartlyRead`
            with the known steps, the opaque ones, and what flows between them.

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
            parts = chain.steps if isinstance(chain, Chain) else chain.parts
            over = tuple(
                replace(s, info=over_variables(s.info, leaves)) if isinstance(s, Step) else s
                for s in parts
            )
        except Unsupported as error:
            return Refusal(f"a dimension has no expression: {error}")
        except Exception as error:
            return fault(error)
        if isinstance(chain, PartlyRead):
            return replace(chain, parts=over)
        return replace(chain, steps=tuple(s for s in over if isinstance(s, Step)))

    def __call__(self, func: Any) -> Chain | Refusal:
        if not isinstance(func, tirx.PrimFunc):
            raise TypeError(f"op_infos: expected a tvm.tirx.PrimFunc, got {type(func).__name__}")
        chain = self._in_parts(func)
        return chain if isinstance(chain, Chain) else _whole(func) or chain

    def _in_parts(self, func: Any) -> Chain | Refusal:
        """The chain of the definitions of a PrimFunc."""
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


def _whole(func: Any) -> Chain | None:
    """A PrimFunc that cannot be lifted but is known as a whole, as a chain of one."""
    with budget():
        result = recover_whole(func, Refusal("unknown"))
    if not isinstance(result.info, OpInfo):
        return None
    info, params = result.info, result.params
    tensors_of_step = (p for p in params if isinstance(p, TensorVar) and not p.scalar)
    step = Step(info, tuple(range(len(params))), tuple(map(repr, tensors_of_step)))
    outputs = tuple(StepResult(0, k) for k in range(len(result.outputs)))
    return Chain((step,), outputs, info.kind, params, info.inplace_indices)


def _chain(program: TensorProgram, parts: tuple[Part, ...]) -> Chain | Refusal:
    """The chain of the parts in order; each result is numbered by its step."""
    values: dict[TensorVar | Var, Value] = {param: k for k, param in enumerate(program.params)}
    read_steps: list[Step | OpaqueStep] = []
    for part in _merged(parts):
        window, position = part.window, len(read_steps)
        if isinstance(part.info, Refusal) or window is None:
            reads = dict.fromkeys(t for d in part.definitions for t in _reads(d))
            read_steps.append(_opaque(part, tuple(values[t] for t in reads if t in values)))
            results = tuple(d.tensor for d in part.definitions)
        else:
            results = window.writes
        values |= {t: StepResult(position, k) for k, t in enumerate(results)}
        if window is not None and not isinstance(part.info, Refusal):
            buffers = tuple(values[t] for t in _buffers(window, part.info))
            read_steps.append(Step(part.info, buffers, tuple(repr(t) for t in window.tensors)))
    outputs = tuple(result for t in program.outputs if isinstance(result := values[t], StepResult))
    indices = program.inplace_indices if max(program.inplace_indices) >= 0 else ()
    steps = [s for s in read_steps if isinstance(s, Step)]
    if len(steps) > 1:
        steps = _simplified(steps, program)
    if len(steps) == len(read_steps):
        return Chain(tuple(steps), outputs, _kind(steps, program), program.params, indices)
    known = iter(steps)
    ordered = tuple(next(known) if isinstance(s, Step) else s for s in read_steps)
    first = next(s for s in read_steps if isinstance(s, OpaqueStep))
    return PartlyRead(first.reason, first.where, ordered, program.params, outputs, indices)


def _merged(parts: Sequence[Part]) -> list[Part]:
    """The parts, with all that one statement stores as one if it is not understood."""
    out: list[Part] = []
    for part in parts:
        last = out[-1].definitions if out else ()
        new = part.definitions
        if last and new and last[-1].opaque and new[0].opaque:
            if last[-1].statements == new[0].statements:
                out[-1] = replace(out[-1], definitions=(*last, *new))
                continue
        out.append(part)
    return out


def _opaque(part: Part, reads: tuple[Value, ...]) -> OpaqueStep:
    """A part without an operator."""
    assert isinstance(part.info, Refusal)
    name = ", ".join(d.tensor.name for d in part.definitions)
    body = next((d.body for d in part.definitions if d.body is not None), None)
    place = f"the buffer {name}" + (f" = {show(body)[:200]}" if body is not None else "")
    shapes = tuple(repr(d.tensor) for d in part.definitions)
    return OpaqueStep(part.info.reason, place, reads, shapes)


def _reads(definition: TensorDefinition) -> list[TensorVar]:
    """The tensors that a definition reads, in the order of the text."""
    if definition.body is None:
        return list(definition.order)
    read = tensors(definition.body)
    named = [t for t in definition.order if t in read]
    return [*named, *sorted(read.difference(named), key=lambda t: t.position)]


def _buffers(window: DefinitionWindow, info: Answer) -> tuple[TensorVar | Var, ...]:
    """The tensors of a window, then its integer scalars if one of them is an operand."""
    operation = operator(info)
    operands = [o for o in operation.operands if isinstance(o, int)] if operation else []
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
