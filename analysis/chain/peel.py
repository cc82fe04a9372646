"""Operators that are inlined into one comprehension: cut its term.

    out = max(Σ pad(relu(x)) * w + b, 0)

*Behind* a reduction stands a formula: its outermost operator is what is recognised after one part
of it, or each of its arguments, is replaced by a tensor of its own. The largest operator wins, so
gelu of ``x + b`` is cut at ``x + b`` and not inside. *In front of* it stand formulas of single
elements: the argument of a product that reads tensors at one place is a tensor of its own.

    V0 = max(x, 0);  V1 = Σ pad(V0) * w;  V2 = V1 + b;  out = max(V2, 0)

A cut is taken only if putting the new tensors' definitions back gives the very same term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace as with_fields

from ..op_info import OpInfo
from ..rewrite import children, free, map_loads, replace, subterms, tensors
from ..term import ONE, Call, Fold, Int, Load, Reduce, Tensor, Term, axis, load
from .define import Definition, at, over
from .window import Growing, Recover, Window

Peeled = tuple[tuple[Window, OpInfo], ...]
#: Cuts that are tried for one operator, and operators in one comprehension.
CUTS, DEPTH = 48, 16


def peel(d: Definition, recover: Recover, depth: int = DEPTH) -> Peeled | None:
    """The operators that a definition is, in order, or None if a part is not recognised."""
    whole = _recognised(d, recover)
    if whole is not None and not whole[1].relaid:
        return (whole,)
    last = None if whole is None else (whole,)
    if depth == 0 or d.body is None:
        return last
    for cut in _cuts(d, d.body):
        outer = _recognised(cut[-1], recover)
        if outer is None or outer[1].relaid:
            continue
        inner = [peel(v, recover, depth - 1) for v in cut[:-1]]
        found = [part for p in inner if p is not None for part in p]
        if all(p is not None for p in inner):
            return (*found, outer)
    return last


def _recognised(d: Definition, recover: Recover) -> tuple[Window, OpInfo] | None:
    growing = Growing()
    if not growing.add(d):
        return None
    w = growing.window(frozenset({d.tensor}))
    info = recover(w, None)
    return (w, info) if isinstance(info, OpInfo) else None


def _cuts(d: Definition, body: Term) -> Iterator[tuple[Definition, ...]]:
    """Definitions of new tensors and then of ``d`` over them, the largest operator first."""
    formula = _formula(body)
    inner = [s for s in formula if s is not body and _is_work(s)]
    inner.sort(key=lambda s: -_above(body, s))
    if isinstance(body, (Reduce, Fold)) or not inner:
        yield from _checked(d, body, _elements(body))
    for s in inner[:CUTS]:
        yield from _checked(d, body, [(s, *_placed(s, d.tensor))])
    args = dict.fromkeys(children(body) if isinstance(body, Call) else ())
    work = [a for a in args if _is_work(a)]
    few = [a for a in args if isinstance(a, Load) and len(a.indices) < len(d.tensor.shape)]
    for several in (work, few, work + few):
        if several and (few or len(several) > 1):
            yield from _checked(d, body, [(a, *_placed(a, d.tensor)) for a in several])
    if inner and not isinstance(body, (Reduce, Fold)):
        yield from _checked(d, body, _elements(body))


Cut = tuple[Term, Definition, Term]


def _checked(d: Definition, body: Term, cuts: Iterable[Cut]) -> Iterator[tuple[Definition, ...]]:
    cuts = list(cuts)
    if not cuts:
        return
    left = replace(body, {s: read for s, _, read in cuts})
    new = {v.tensor: v.body for _, v, _ in cuts}
    back = map_loads(left, frozenset(new), lambda u, i: at(new[u] or left, u, i))
    if back is body and left is not body:
        yield (*(v for _, v, _ in cuts), with_fields(d, body=left, order=()))


def _formula(body: Term) -> list[Term]:
    """Sub-terms of the formula around the reductions and loads, the reductions among them."""
    found: dict[Term, None] = {body: None}
    stack = [body]
    while stack:
        s = stack.pop()
        if isinstance(s, Call):
            new = [a for a in s.args if a not in found]
            found |= dict.fromkeys(new)
            stack.extend(new)
    return list(found)


def _is_work(s: Term) -> bool:
    """Whether the term computes something from a tensor."""
    return isinstance(s, (Call, Reduce, Fold)) and bool(tensors(s)) and s.dtype != "int"


def _above(body: Term, s: Term) -> int:
    """The size of what is left of the formula when ``s`` is cut out."""
    seen, stack = {s}, [body]
    while stack:
        t = stack.pop()
        if t not in seen:
            seen.add(t)
            stack.extend(children(t) if isinstance(t, Call) else ())
    return len(seen)


def _placed(s: Term, out: Tensor) -> tuple[Definition, Term]:
    """A tensor for ``s`` over the output's coordinates; of extent 1 where it does not depend."""
    used = free(s)
    axes = over(out)
    shape = tuple(
        e if any(v in used for v in free(a)) else ONE for a, e in zip(axes, out.shape, strict=True)
    )
    v = Tensor("V", shape, s.dtype)
    return Definition(v, s, frozenset()), load(v, over(v))


def _elements(body: Term) -> list[Cut]:
    """Formulas of elements inside reductions and selections, each over its largest tensor."""
    found: list[Cut] = []
    stack, seen = [body], {body}
    while stack:
        s = stack.pop()
        cut = None if s is body else _element(s)
        if cut is not None:
            found.append(cut)
            continue
        for c in children(s):
            if c not in seen and not isinstance(c, Int):
                seen.add(c)
                stack.append(c)
    return found


def _element(s: Term) -> Cut | None:
    if not isinstance(s, Call) or not _is_work(s) or s.dtype == "bool":
        return None
    inside = list(subterms(s))
    loads = [t for t in inside if isinstance(t, Load)]
    main = max(loads, key=lambda t: len(t.indices))
    if any(isinstance(t, (Reduce, Fold)) for t in inside):
        return None
    here = dict(zip(main.indices, over(main.tensor), strict=True))
    if any(i not in here and i.const is None for t in loads for i in t.indices):
        return None

    def moved(u: Tensor, index: tuple[Int, ...]) -> Term:
        return load(u, tuple(here.get(i, i) for i in index))

    body = map_loads(s, frozenset(t.tensor for t in loads), moved)
    shape = main.tensor.shape
    allowed = {v for d, e in enumerate(shape) for v in free(axis(d, e))}
    if any(v not in allowed and v.kind not in ("size", "scalar") for v in free(body)):
        return None
    v = Tensor("V", shape, s.dtype)
    read = load(v, main.indices)
    return (s, Definition(v, body, frozenset()), read)
