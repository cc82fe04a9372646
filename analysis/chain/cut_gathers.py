"""Cut a formula of gathered elements: gather the results of the formula instead.

    out[a, b] = (x[i[a], b] - 7) * s[i[a], b // 32]
    V[t, b] = (x[t, b] - 7) * s[t, b // 32];  out[a, b] = V[i[a], b]

``FuseTIR`` inlines a step into a gather of its result and leaves the left form. A formula that
reads only gathered elements commutes with the gather: it is the same at each row that is read.
"""

from __future__ import annotations

from collections.abc import Callable

from ..terms.term import (
    ONE,
    ZERO,
    CallTerm,
    Fold,
    Int,
    Load,
    Reduce,
    TensorVar,
    Term,
    Var,
    as_int,
    axis,
    load,
)
from ..terms.traversal import children, free, replace, subterms
from .tensor_program import TensorDefinition, coordinates_of

#: A term, the definition of the tensor that holds its values, and the load that replaces it.
Cut = tuple[Term, TensorDefinition, Term]


def gathered(
    body: Term, out: TensorVar, new: Callable[[Term, tuple[Int, ...]], TensorVar]
) -> list[Cut]:
    """Return the cut at a whole body that reads its tensors at one place, which it computes.

    Returns:
        The cut, or nothing: elements are read at several places, or elsewhere too.
    """
    loads = _outer_loads(body)
    places = {index for read in loads for index in read.indices if index.reads}
    if len(places) != 1:
        return []
    (place,) = places
    if isinstance(body, Load):
        return _without_units(place, new)
    extents = {
        tuple(e for e, index in zip(read.tensor.shape, read.indices, strict=True) if index is place)
        for read in loads
    }
    if len(extents) != 1 or len(extent := extents.pop()) != 1:
        return []
    axes = coordinates_of(out)
    inside = [k for k, a in enumerate(axes) if free(a) & free(place)]
    if not inside:  # one element is gathered: its coordinate leaves no trace
        widest = max(loads, key=lambda read: len(read.indices))
        inside = [
            k for k, i in enumerate(widest.indices) if i is place and axes[k : k + 1] == (ZERO,)
        ]
    if not inside or inside != list(range(inside[0], inside[-1] + 1)):
        return []
    first, after = inside[0], inside[-1] + 1
    shape = (*out.shape[:first], extent[0], *out.shape[after:])
    moved: dict[Term, Term] = {place: axis(first, extent[0])}
    for k in range(after, len(axes)):
        position = k - after + first + 1
        moved |= dict(zip(free(axes[k]), free(axis(position, out.shape[k])), strict=True))
    formula = replace(body, moved)
    remaining = {v for k, e in enumerate(shape) for v in free(axis(k, e))}
    if any(v not in remaining and v.kind not in ("size", "scalar") for v in free(formula)):
        return []
    tensor = new(formula, shape)
    squeezed = _without_units(place, new)
    index = (*axes[:first], as_int(squeezed[0][2]) if squeezed else place, *axes[after:])
    return [
        *squeezed,
        (body, TensorDefinition(tensor, formula, frozenset()), load(tensor, index)),
    ]


def _without_units(place: Int, new: Callable[[Term, tuple[Int, ...]], TensorVar]) -> list[Cut]:
    """The cut at a place that is read from a tensor with dimensions of extent 1, to one without."""
    read = place.atom
    if not isinstance(read, Load):
        return []
    kept = [k for k, e in enumerate(read.tensor.shape) if e is not ONE]
    if not kept or len(kept) == len(read.indices):
        return []
    shape = tuple(read.tensor.shape[k] for k in kept)
    indices = list(read.indices)
    for position, k in enumerate(kept):
        indices[k] = axis(position, shape[position])
    body = load(read.tensor, tuple(indices))
    tensor = new(body, shape)
    narrow = load(tensor, tuple(read.indices[k] for k in kept))
    return [(read, TensorDefinition(tensor, body, frozenset()), narrow)]


def operand(term: Term, new: Callable[[Term, tuple[Int, ...]], TensorVar]) -> Cut | None:
    """Return the cut at an operand of a reduction, over the variables of its largest tensor.

        Σ_k x[k] * (w[i[a], k] - 7) * s[i[a], k // 32]
        V[a, k] = (w[i[a], k] - 7) * s[i[a], k // 32];  Σ_k x[k] * V[a, k]

    Each index of that tensor has one variable, or the tensor has extent 1 there.
    """
    loads = _outer_loads(term)
    is_gather = isinstance(term, Load) and any(i.reads for i in term.indices)
    if not loads or not (isinstance(term, CallTerm) or is_gather) or term.dtype in ("int", "bool"):
        return None
    if any(isinstance(t, (Reduce, Fold)) for t in subterms(term)):
        return None
    shape: list[Int] = []
    variables: list[Var | None] = []
    main = max(loads, key=lambda read: len(read.indices))
    for index, extent in zip(main.indices, main.tensor.shape, strict=True):
        inside = [v for v in free(index) if v.kind not in ("size", "scalar")]
        if len(inside) > 1 or (not inside and extent is not ONE):
            return None
        variables.append(inside[0] if inside else None)
        shape.append(inside[0].extent or ONE if inside else ONE)
    used = [v for v in variables if v is not None]
    if len(set(used)) != len(used):
        return None
    moved: dict[Term, Term] = {}
    for position, (variable, extent) in enumerate(zip(variables, shape, strict=True)):
        if variable is not None:
            moved.update((variable, v) for v in free(axis(position, extent)))
    body = replace(term, moved)
    remaining = {v for k, e in enumerate(shape) for v in free(axis(k, e))}
    if any(v not in remaining and v.kind not in ("size", "scalar") for v in free(body)):
        return None
    tensor = new(body, tuple(shape))
    read = load(tensor, tuple(ZERO if v is None else as_int(v) for v in variables))
    return term, TensorDefinition(tensor, body, frozenset()), read


def _outer_loads(body: Term) -> list[Load]:
    """The loads of a term that are not in an index."""
    loads: dict[Load, None] = {}
    stack, seen = [body], {body}
    while stack:
        term = stack.pop()
        if isinstance(term, Load):
            loads[term] = None
            continue
        fresh = [c for c in children(term) if c not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return list(loads)
