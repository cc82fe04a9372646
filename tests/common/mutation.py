"""Check that the answer for a mutant of an operator computes what the mutant computes.

The oracle is the interpreter, on random inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis import LayoutNormalised, OpInfo, Refusal
from opinfo.analysis.answer.recover import analyse
from opinfo.analysis.lifting.effects.tensor_expression import TensorExpression
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.proposal.build import rebuild
from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.analysis.proposal.proposal import Proposal
from opinfo.analysis.results.op_info import Answer
from opinfo.analysis.terms.term import TensorVar, integer
from opinfo.testing.mutants import parsed

from ..relaid.check import view
from .interpret import Array, Undefined, interpret
from .mutation_cases import Operand, Whole
from .prim_funcs import lowered


def legalised(build: Any, shapes: Sequence[Operand]) -> Any:
    types = [(s.shape, s.dtype) if isinstance(s, Whole) else (s, "float32") for s in shapes]
    return parsed(lowered(build, *types, legalise=legalise_module).script())


def outputs(func: Any, inputs: list[Array]) -> list[Array] | None:
    """The results, or None for a program whose behaviour is undefined."""
    try:
        return interpret(func, inputs)
    except (Undefined, ArithmeticError, LookupError, ValueError, TypeError):
        return None


def answer(func: Any, info: OpInfo | LayoutNormalised, inputs: list[Array]) -> list[Array] | None:
    """What the recovered operator computes, by its own lowering, in the function's buffers."""
    found = info if isinstance(info, LayoutNormalised) else info.relayout
    op = info if isinstance(info, OpInfo) else info.logical
    op = op if found is None else found.logical
    lifted = logical(lift(func), found)
    built = rebuild(Proposal(op.name, op.operands, op.attrs), lifted)
    buffers = [tuple(map(int, p.ty.shape)) for p in func.params if is_buffer_var(p)]
    views = [view(found, k, shape, {})[1] for k, shape in enumerate(buffers)]
    places = [p.position for p in built.params]  # type: ignore[union-attr]
    results = outputs(built.func, [inputs[p][views[p]] for p in places if p < len(inputs)])
    out = outputs(func, inputs)  # for what is padding
    if results is None or out is None:
        return None
    for c, r in zip(lifted.outputs, results, strict=True):  # a buffer may be left as it was
        out[c.out.position - len(inputs)][views[c.out.position]] = r
    return out


def logical(lifted: TensorExpression, found: LayoutNormalised | None) -> TensorExpression:
    """The function over the buffers that the answer's operator has."""
    if found is None:
        return lifted
    params = tuple(
        TensorVar(t.name, tuple(map(integer, layout.shape)), t.dtype, t.position)
        if isinstance(t, TensorVar) and layout
        else t
        for t, layout in zip(lifted.params, found.buffers, strict=True)
    )
    outs = [params[c.out.position] for c in lifted.outputs]
    return TensorExpression(
        params,
        tuple(
            replace(c, out=t)
            for c, t in zip(lifted.outputs, outs, strict=True)
            if isinstance(t, TensorVar)
        ),
    )


def same(a: list[Array] | None, b: list[Array] | None) -> bool:
    if a is None or b is None:
        return a is b
    return all(
        x.shape == y.shape and np.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )


def feeds(shapes: Sequence[Operand]) -> list[list[Array]]:
    """Inputs away from zero, where everything is defined, and inputs of both signs."""
    rng = np.random.default_rng(0)
    return [[_feed(rng, s, *ends) for s in shapes] for ends in ((0.5, 2.0), (-3.0, 3.0))]


def _feed(rng: np.random.Generator, operand: Operand, low: float, high: float) -> Array:
    if isinstance(operand, Whole):
        return rng.integers(operand.low, operand.high, operand.shape).astype(operand.dtype)
    return rng.uniform(low, high, operand)


@dataclass(frozen=True)
class Trial:
    """A mutant: whether it computes something else, what was answered, and whether wrongly.

    Where it reads or writes outside its buffers it computes nothing, so nothing else either.
    """

    different: bool
    info: Answer
    wrong: str = ""


def trial(mutant: Any, truth: Answer, inputs: list[list[Array]], expected: list[Any]) -> Trial:
    """Compare the answer for a mutant with the mutant, unless the mutant is the operator."""
    got = [outputs(mutant, i) for i in inputs]
    meant = [(v, e, i) for v, e, i in zip(got, expected, inputs, strict=True) if v is not None]
    if all(same(v, e) for v, e, _ in meant):
        return Trial(False, truth)
    info = analyse(mutant).info
    if isinstance(info, Refusal):
        return Trial(True, info)
    if not isinstance(truth, Refusal) and _claim(info) == _claim(truth):
        return Trial(True, info, "the operator itself")
    if all(same(v, answer(mutant, info, i)) for v, _, i in meant):
        return Trial(True, info)
    return Trial(True, info, repr(info))


def _claim(info: OpInfo | LayoutNormalised) -> tuple[Any, ...]:
    op = info if isinstance(info, OpInfo) else info.logical
    return op.name, dict(op.attrs), op.operands, isinstance(info, OpInfo) and not info.relaid
