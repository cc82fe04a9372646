"""Memory of intermediates that several functions share, since one of them runs at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, tirx

from .....analysis.lifting.tir.node import items


@dataclass(frozen=True)
class Storage:
    """The variable of a piece of memory, the call that allocates it, and its size in bytes."""

    var: Any
    call: Any
    bytes: int


def storage_of(var: Any, call: Any) -> Storage | None:
    """The storage that ``alloc_storage`` allocates; None unless it is plain memory of one size."""
    shape, device, scope, _ = items(call.args)
    sizes = items(shape.values) if isinstance(shape, relax.ShapeExpr) else []
    plain = len(sizes) == 1 and isinstance(sizes[0], tirx.IntImm)
    if not plain or int(device.value) != 0 or str(scope.value) != "global":
        return None
    return Storage(var, call, int(sizes[0].value))


def merged(plans: Sequence[Sequence[Storage]]) -> tuple[tuple[Storage, ...], list[list[int]]]:
    """Storages for functions that do not run at once.

    Returns:
        The storages, the largest first, and for each function the place of each of its own: its
        largest one has the largest, and so on.
    """
    shared: list[Storage] = []
    places: list[list[int]] = []
    for plan in plans:
        order = sorted(range(len(plan)), key=lambda k: -plan[k].bytes)
        own = [0] * len(plan)
        for place, k in enumerate(order):
            own[k] = place
            if place == len(shared):
                shared.append(plan[k])
            elif plan[k].bytes > shared[place].bytes:
                shared[place] = plan[k]
        places.append(own)
    return tuple(shared), places
