"""One random operator, moved to random layouts, read back and run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from opinfo.analysis import LayoutNormalised, layout_normalised

from .check import Wrong, check
from .operators import FAMILIES
from .random_operator import lower
from .transforms import move

#: What a symbolic size is when the case is run.
SIZES = {"n": 3}

Status = Literal["recovered", "refused", "wrong", "unmoved", "unknown"]


@dataclass(frozen=True)
class Trial:
    """What came of a case: ``unmoved`` if no transformation applied, ``unknown`` if the operator is
    not even recognised where it is not moved."""

    seed: int
    name: str
    family: str
    status: Status
    padded: bool = False
    detail: str = ""


def trial(seed: int) -> Trial:
    """The case of a seed; families take turns."""
    rng = random.Random(seed)
    name = list(FAMILIES)[seed % len(FAMILIES)]
    op = FAMILIES[name](rng)
    func = lower(op)
    if not isinstance(layout_normalised(func), LayoutNormalised):
        return Trial(seed, name, op.family, "unknown")
    moved = move(func, rng)
    if not moved.moves:
        return Trial(seed, name, op.family, "unmoved")
    info = layout_normalised(moved.func)
    message = f"{op.operands} {moved.moves}"
    if not isinstance(info, LayoutNormalised):
        return Trial(seed, name, op.family, "refused", moved.padded, f"{info.reason}: {message}")
    try:
        check(moved.func, info, SIZES, op.positive, seed)
    except Wrong as e:
        detail = f"{e}: {info!r} {info.layouts} {message}"
        return Trial(seed, name, op.family, "wrong", moved.padded, detail)
    return Trial(seed, name, op.family, "recovered", moved.padded, repr(info))
