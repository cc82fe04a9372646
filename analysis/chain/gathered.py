"""Cut a formula of gathered elements: gather the results of the formula instead.

    out[a, b] = (x[i[a], b] - 7) * s[i[a], b // 32]
    V[t, b] = (x[t, b] - 7) * s[t, b // 32];  out[a, b] = V[i[a], b]

``FuseTIR`` inlines a step into a gather of its result and leaves the left form. A formula that
reads only gathered elements commutes with the gather: it is the same at each row that is read.
"""

from __future__ import annotations

from collections.abc import Callable

from ..terms.term import ZERO, Int, Load, TensorVar, Term, axis, load
from ..terms.traversal import children, free, replace
from .define import TensorDefinition, coordinates_of

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
    if len(places) != 1 or isinstance(body, Load):
        return []
    (place,) = places
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
    index = (*axes[:first], place, *axes[after:])
    return [(body, TensorDefinition(tensor, formula, frozenset()), load(tensor, index))]


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
