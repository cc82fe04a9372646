"""Programs that are nearly one of the others: none of them is that operator.

Three of them are another one, over other buffers or by another map.
"""

from __future__ import annotations

from typing import Any

import tvm

from ..case import Foreign
from . import (
    kernels,
    moves,
    products,
    rows,
    rows_normalised,
    rows_scanned,
    scalars,
    schedules,
    windows,
)
from .programs import changed

_PARTS = (kernels, moves, products, rows, rows_normalised, rows_scanned, scalars, windows)
_ALL = [case for part in _PARTS for case in part.CASES]


def near(why: str, form: str, *steps: tuple[str, str], op: str = "", **attrs: Any) -> Foreign:
    """The program of this form with parts of its text replaced."""
    (case,) = (c for c in _ALL if c.form == form)
    return changed(f"{form}: {why}", case, *steps, op=op, **attrs)


def tiled(why: str, form: str, old: str, new: str) -> Foreign:
    """A scheduled program with a part of its script replaced."""
    (case,) = (c for c in schedules.CASES if c.form == form)

    def build() -> Any:
        text = case.build().script()
        assert old in text, (form, old)
        return tvm.script.from_source(text.replace(old, new))

    return Foreign(f"{form}: {why}", build)
