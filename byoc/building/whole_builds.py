"""Whether a choice of backends comes down to one of them, which is built alone already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..dispatching.choice.choose import ChosenMatches
from ..matching.lowered import Lowered

#: The share of a choice's expected time that operators may have which the backend's own build has
#: inside and the choice leaves to TVM.
OUTSIDE = 0.02


def whole_build(
    chosen: ChosenMatches, lowered: Lowered, whole: Mapping[str, Sequence[str]]
) -> str | None:
    """Return the backend whose own build computes the same; None if there is none.

    All regions of the choice are that backend's. It leaves to TVM what the backend's own build
    leaves, and no more than takes almost no time. Then the two differ in layouts between operators
    of the backend, which it plans itself.

    Args:
        chosen: The choice.
        lowered: The module.
        whole: Backends that are built alone, with the operators that these builds leave to TVM.
    """
    regions = [m for m in chosen.matches if m.backend != "tvm"]
    names = {m.backend for m in regions}
    if len(names) != 1 or not names <= whole.keys():
        return None
    (name,) = names
    covered = {op for m in regions for op in m.ops}
    costs: dict[str, list[float]] = {}
    for op in lowered.ops:
        if op not in covered:
            operator = getattr(lowered.infos[op].info, "name", op.name)
            costs.setdefault(operator, []).append(chosen.staying.get(op, 0.0))
    counts = Counter(whole[name])
    if any(count > len(costs.get(operator, ())) for operator, count in counts.items()):
        return None
    more = (sum(sorted(each, reverse=True)[: len(each) - counts[operator]])
            for operator, each in costs.items())  # fmt: skip
    return name if sum(more) <= OUTSIDE * sum(m.cost for m in regions) else None
