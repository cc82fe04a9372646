"""Operators that are inlined into one tensor expression: cut its term.

    out = max(Σ pad(relu(x)) * w + b, 0)

*Behind* a reduction is a formula. Its outermost operator is recognised after one sub-term, or each
of its arguments, is replaced by a new tensor. The largest operator is tried first, so gelu of
``x + b`` is cut at ``x + b`` and not inside. *In front of* the reduction are formulas of single
elements: an argument of a product that reads tensors at one place becomes a new tensor.

    V0 = max(x, 0);  V1 = Σ pad(V0) * w;  V2 = V1 + b;  out = max(V2, 0)

A cut is valid only if substituting the new tensors' definitions gives back exactly the same term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace as with_fields
from typing import Any

from ..answer.recover import recover_direct, recover_logical
from ..lifting.loops.reduction_axes import with_fused_axes
from ..results.op_info import LayoutNormalised, OpInfo, Refusal
from ..terms.term import ONE, CallTerm, Fold, Int, Load, Reduce, TensorVar, Term, axis, load
from ..terms.traversal import children, free, map_loads, replace, subterms, tensors
from .cut_gathers import Cut, gathered, operand
from .definition_window import DefinitionWindow, Growing, Recover, RecoverStep
from .tensor_program import TensorDefinition, body_at, coordinates_of

Recognised = tuple[DefinitionWindow, OpInfo | LayoutNormalised]
Pieces = tuple[Recognised, ...]
#: Returns a tensor for the values of a term, which have this shape.
New = Callable[[Term, tuple[Int, ...]], TensorVar]
#: The most cuts for one operator, nested operators, and windows of one PrimFunc.
CUTS, DEPTH, BUDGET = 48, 16, 400
#: The most terms of an operator's own formula around the inlined part.
LARGEST = 24


class InlinedOperators:
    """`Recover` of operators that are inlined into one another, for one PrimFunc.

    Results of parts are cached, failures included: equal terms share one tensor. ``budget`` bounds
    the number of new windows.
    """

    def __init__(self, recover: Recover, budget: int = BUDGET) -> None:
        self._recover = recover
        self._cache: dict[tuple[Term | None, TensorVar], Pieces | None] = {}
        self._tried: dict[tuple[Any, ...], Recognised | None] = {}
        self._tensors: dict[tuple[Term, tuple[Int, ...]], TensorVar] = {}
        self._budget = budget

    def __call__(self, definition: TensorDefinition, depth: int = DEPTH) -> Pieces | None:
        """Return the operators of a definition, in order; None if a part is not recognised."""
        key = (definition.body, definition.tensor)
        if key not in self._cache:
            self._cache[key] = self._cut(definition, depth)
        return self._cache[key]

    def _cut(self, definition: TensorDefinition, depth: int) -> Pieces | None:
        operator = self._recognised(definition)
        if operator is not None:
            return (operator,)
        for cut in (
            _cuts(definition, definition.body, self._tensor)
            if depth and definition.body is not None
            else ()
        ):
            outer, inner = self._recognised(cut[-1]), None
            if outer is not None:
                inner = self._inner(cut[:-1], depth - 1)
            if outer is not None and inner is not None:
                return (*inner, outer)
        operator = self._recognised(definition, recover_logical)
        return self._fused(definition, depth) if operator is None else (operator,)

    def _fused(self, definition: TensorDefinition, depth: int) -> Pieces | None:
        """Operators over an axis that is summed over in two loops, with values inside by group."""
        if depth and isinstance(definition.body, Reduce):
            for body in with_fused_axes(definition.body):
                out = self(with_fields(definition, body=body, order=()), depth - 1)
                if out is not None:
                    return out
        return None

    def partly(self, definition: TensorDefinition) -> tuple[Recognised | TensorDefinition, ...]:
        """Return the outermost operator of a definition and what it is computed from, in order.

        A formula that is not recognised is a definition. Nothing is returned if no operator is
        outermost.
        """
        assert definition.body is not None
        for cut in _cuts(definition, definition.body, self._tensor):
            outer = self._recognised(cut[-1])
            if outer is not None:
                parts = ((p, self(p)) for p in cut[:-1])
                return (*(x for p, known in parts for x in known or (p,)), outer)
        return ()

    def _tensor(self, body: Term, shape: tuple[Int, ...]) -> TensorVar:
        """The tensor for a term; equal terms share one."""
        key = (body, shape)
        if key not in self._tensors:
            read = body.atom if isinstance(body, Int) else body
            dtype = read.tensor.dtype if isinstance(read, Load) else body.dtype
            self._tensors[key] = TensorVar("V", shape, dtype)
        return self._tensors[key]

    def _inner(self, parts: Sequence[TensorDefinition], depth: int) -> Pieces | None:
        operators: dict[TensorVar, Recognised] = {}
        for definition in parts:
            pieces = self(definition, depth)
            if pieces is None:
                return None
            operators |= {
                window.writes[0]: (window, info)
                for window, info in pieces
                if window.writes[0] not in operators
            }
        return tuple(operators.values())

    def _recognised(
        self, definition: TensorDefinition, step: RecoverStep = recover_direct
    ) -> Recognised | None:
        key = (definition.body, definition.tensor, step)
        if key not in self._tried:
            self._tried[key] = (
                self._recognised_now(definition, step) if len(self._tried) < self._budget else None
            )
        return self._tried[key]

    def _recognised_now(self, definition: TensorDefinition, step: RecoverStep) -> Recognised | None:
        growing = Growing()
        if not growing.add(definition):
            return None
        window = growing.window(frozenset({definition.tensor}))
        info = self._recover(window, None, step)
        return None if isinstance(info, Refusal) else (window, info)


def _cuts(
    definition: TensorDefinition, body: Term, new: New
) -> Iterator[tuple[TensorDefinition, ...]]:
    """Definitions of new tensors, then of ``definition`` over them; the largest operator first."""
    yield from _checked(definition, body, gathered(body, definition.tensor, new))
    formula = _formula(body)
    inner = [s for s in formula if s is not body and _is_work(s)]
    inner.sort(key=lambda term: -_size_around(body, term))
    if isinstance(body, (Reduce, Fold)) or not inner:
        yield from _checked(definition, body, _elements(body, new))
    small = [s for s in inner if _size_around(body, s) <= LARGEST]
    for term in small[:CUTS]:
        yield from _checked(definition, body, [(term, *_extracted(term, definition.tensor, new))])
    args = dict.fromkeys(children(body) if isinstance(body, CallTerm) else ())
    work = [a for a in args if _is_work(a)]
    few = [a for a in args if isinstance(a, Load) and len(a.indices) < len(definition.tensor.shape)]
    for several in (work, few, work + few):
        if several and (few or len(several) > 1):
            yield from _checked(
                definition, body, [(a, *_extracted(a, definition.tensor, new)) for a in several]
            )
    if inner and not isinstance(body, (Reduce, Fold)):
        yield from _checked(definition, body, _elements(body, new))


def _checked(
    definition: TensorDefinition, body: Term, cuts: Iterable[Cut]
) -> Iterator[tuple[TensorDefinition, ...]]:
    cuts = list(cuts)
    if not cuts:
        return
    outer = replace(body, {s: read for s, _, read in cuts})
    new = {v.tensor: v.body for _, v, _ in cuts}
    restored = map_loads(
        outer, frozenset(new), lambda tensor, index: body_at(new[tensor] or outer, tensor, index)
    )
    if restored is body and outer is not body:
        yield (*(v for _, v, _ in cuts), with_fields(definition, body=outer, order=()))


def _formula(body: Term) -> list[Term]:
    """Sub-terms of the formula around reductions and loads, including the reductions."""
    terms: dict[Term, None] = {body: None}
    stack = [body]
    while stack:
        term = stack.pop()
        if isinstance(term, CallTerm):
            new = [a for a in term.args if a not in terms]
            terms |= dict.fromkeys(new)
            stack.extend(new)
    return list(terms)


def _is_work(term: Term) -> bool:
    """Whether a term computes on elements of a tensor."""
    return (
        isinstance(term, (CallTerm, Reduce, Fold)) and bool(tensors(term)) and term.dtype != "int"
    )


def _size_around(body: Term, part: Term) -> int:
    """The size of the formula that remains when ``part`` is cut out."""
    seen, stack = {part}, [body]
    while stack:
        term = stack.pop()
        if term not in seen:
            seen.add(term)
            stack.extend(children(term) if isinstance(term, CallTerm) else ())
    return len(seen)


def _extracted(term: Term, out: TensorVar, new: New) -> tuple[TensorDefinition, Term]:
    """Return a tensor for ``term`` over the output's axes; an axis it ignores has extent 1."""
    used = free(term)
    axes = coordinates_of(out)
    shape = tuple(
        extent if any(v in used for v in free(coordinate)) else ONE
        for coordinate, extent in zip(axes, out.shape, strict=True)
    )
    tensor = new(term, shape)
    return TensorDefinition(tensor, term, frozenset()), load(tensor, coordinates_of(tensor))


def _elements(body: Term, new: New) -> list[Cut]:
    """Cuts at formulas of elements inside reductions and selections, over their largest tensor."""
    cuts: list[Cut] = []
    inside = body.body if isinstance(body, Reduce) else None
    stack, seen = [body], {body}
    while stack:
        term = stack.pop()
        cut = None if term is body else _element(term, new)
        if cut is None and inside is not None and term not in (body, inside):
            cut = operand(term, new)
        if cut is not None:
            cuts.append(cut)
            continue
        for child in children(term):
            if child not in seen and not isinstance(child, Int):
                seen.add(child)
                stack.append(child)
    return cuts


def _element(term: Term, new: New) -> Cut | None:
    if not isinstance(term, CallTerm) or not _is_work(term) or term.dtype == "bool":
        return None
    inside = list(subterms(term))
    loads = [t for t in inside if isinstance(t, Load)]
    main = max(loads, key=lambda t: len(t.indices))
    if any(isinstance(t, (Reduce, Fold)) for t in inside):
        return None
    coordinates = dict(zip(main.indices, coordinates_of(main.tensor), strict=True))
    if any(i not in coordinates and i.const is None for t in loads for i in t.indices):
        return None

    def moved(tensor: TensorVar, index: tuple[Int, ...]) -> Term:
        return load(tensor, tuple(coordinates.get(i, i) for i in index))

    body = map_loads(term, frozenset(t.tensor for t in loads), moved)
    shape = main.tensor.shape
    allowed = {v for d, e in enumerate(shape) for v in free(axis(d, e))}
    if any(v not in allowed and v.kind not in ("size", "scalar") for v in free(body)):
        return None
    tensor = new(body, shape)
    read = load(tensor, main.indices)
    return (term, TensorDefinition(tensor, body, frozenset()), read)
