"""Prove that a dimension may be padded, searching for the content of the padding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...analysis import Refusal, lift
from ...analysis.lifting.effects.tensor_expression import TensorExpression
from ...analysis.lifting.tir.unliftable import Unliftable
from ...analysis.terms.condition_terms import ge0
from ...analysis.terms.reduction_terms import SMALL
from ...analysis.terms.term import Const, TensorVar, Term, Var, variable
from ...analysis.terms.traversal import free, subterms
from ...byoc.dims.symbolic_dims import Symbol, Unbound, symbols
from .padding_claim import FINITE, GrownParameter, PaddingProof
from .padding_equality import PaddingEquality
from .padding_problem import PaddingProblem, UnknownContent, UnprovedPadding
from .padding_value import Number
from .traps import demands

#: Limit on the contents tried for one dimension of one function.
TRIES = 64


def pad_safe(func: Any, name: str) -> PaddingProof | Refusal:
    """Prove that the dimension ``name`` of a PrimFunc may be padded, or refuse.

    Raises:
        ValueError: ``name`` is not one of the function's `symbols`.
    """
    try:
        return _proved(func, name)
    except (UnprovedPadding, UnknownContent) as error:
        return Refusal(str(error), name)
    except Unliftable as error:
        return Refusal(f"the function cannot be lifted: {error}", name)
    except RecursionError:
        return Refusal("the compute is nested too deeply", name)


def _proved(func: Any, name: str) -> PaddingProof:
    try:
        func_symbols = symbols(func)
    except Unbound as error:
        raise UnprovedPadding(str(error)) from None
    symbol = next((s for s in func_symbols if s.name == name), None)
    if symbol is None:
        raise ValueError(
            f"pad_safe: expected one of the dimensions {[s.name for s in func_symbols]}, got "
            f"{name!r}"
        )
    lifted = lift(func, _positive(func, func_symbols))
    place = lifted.params[symbol.param]
    dim: Term | None = place if isinstance(place, Var) else None
    if isinstance(place, TensorVar) and symbol.axis is not None:
        dim = place.shape[symbol.axis].atom
    if not isinstance(dim, Var) or dim.kind != "size":
        raise UnprovedPadding(f"{name} is not known to be positive")
    if lifted.races:
        raise UnprovedPadding("data determines where iterations of a parallel loop store")
    if lifted.assumed:
        raise UnprovedPadding(f"it is assumed that {lifted.assumed[0]}")
    grown = _grown(lifted, dim)
    zero = demands(func, lifted, grown)
    start: dict[TensorVar, Number] = {
        tensor: 0 for tensor in grown if tensor.position in zero and "int" in tensor.dtype
    }
    return _searched(lifted, dim, grown, start, name)


def _positive(func: Any, func_symbols: Sequence[Symbol]) -> list[Any]:
    """Return scalar dimensions as size variables: callers ensure that they are at least 1."""
    numbers = {s.param: s.name for s in func_symbols if s.axis is None}
    longest = max((len(s.var.name) for s in func_symbols), default=0)
    return [variable("size", f"{numbers[k]}{'#' * (longest + 1)}") if k in numbers else None
            for k in range(len(func.params))]  # fmt: skip


def _grown(lifted: TensorExpression, dim: Var) -> dict[TensorVar, tuple[int, ...]]:
    """Return the axes of each parameter that grow with the dimension; none may shrink."""
    out = {}
    problem = PaddingProblem(dim, {})
    for param in lifted.params:
        if not isinstance(param, TensorVar):
            continue
        axes = tuple(d for d, e in enumerate(param.shape) if dim in free(e))
        for d in axes:
            poly = param.shape[d]
            if not problem.holds(ge0(problem.at(poly) - poly), ()):
                raise UnprovedPadding(
                    f"axis {d} of {param.name}, {poly!r}, may shrink when {dim!r} grows"
                )
        if axes:
            out[param] = axes
    return out


def _searched(lifted: TensorExpression, dim: Var, grown: Mapping[TensorVar, tuple[int, ...]],
              start: Mapping[TensorVar, Number], name: str) -> PaddingProof:  # fmt: skip
    """Search for contents of the padding that make the proof succeed."""
    tries, first = TRIES, None
    stack: list[Mapping[TensorVar, Number]] = [start]
    questions: dict[Any, bool] = {}
    while stack and tries:
        tries -= 1
        problem = PaddingProblem(dim, grown, stack.pop(), questions=questions)
        try:
            same = PaddingEquality(problem)
            for out in lifted.outputs:
                same(out.body, ())
            return _claim(lifted, problem, name)
        except UnprovedPadding as error:
            first = first or error
        except UnknownContent as error:
            more = [
                {**problem.contents, error.tensor: content}
                for content in _candidates(lifted, error.tensor)
            ]
            stack += reversed(more)
    raise first or UnprovedPadding("no content of the padding makes it safe")


def _candidates(lifted: TensorExpression, tensor: TensorVar) -> Iterator[Number]:
    """Yield contents to try for a tensor's padding: identities of combiners, then literals."""
    if tensor.dtype == "bool":
        yield from (False, True)
        return
    if "float" in tensor.dtype:
        yield from (0.0, -math.inf, math.inf, 1.0)
    else:
        ends = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1), **SMALL}
        yield from (
            0,
            *ends.get(tensor.dtype, ()),
            1,
            *(() if tensor.dtype.startswith("u") else (-1,)),
        )
    terms = {s for c in lifted.outputs for s in subterms(c.body)}
    literals = {s.value for s in terms if isinstance(s, Const) and s.dtype == tensor.dtype}
    finite = sorted(v for v in literals if v not in (0, 1) and math.isfinite(v))
    yield from (finite if len(finite) <= 4 else ())


def _claim(lifted: TensorExpression, problem: PaddingProblem, name: str) -> PaddingProof:
    outputs = {c.out for c in lifted.outputs}
    every = [
        GrownParameter(t.position, axes, problem.contents.get(t))
        for t, axes in problem.grown.items()
    ]
    tensors = list(problem.grown)
    return PaddingProof(
        name,
        tuple(g for g, t in zip(every, tensors, strict=True) if t not in outputs),
        tuple(g for g, t in zip(every, tensors, strict=True) if t in outputs),
        (FINITE,) if problem.finite else (),
    )
