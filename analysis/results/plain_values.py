"""Values of attributes as JSON values."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from ..proposal.answer_values import text
from ..proposal.proposal import Constant
from ..terms.term import Int


def to_plain(value: Any) -> Any:
    """Return a value as JSON: symbolic dimensions and index maps become text."""
    if isinstance(value, Int):
        return value.const if value.const is not None else repr(value)
    if isinstance(value, (tirx.IntImm, tirx.FloatImm)):
        return bool(value.value) if str(value.ty.dtype) == "bool" else value.value
    if isinstance(value, tvm_ffi.Object):
        return str(value) if isinstance(value, tirx.IndexMap) else text(value)
    if isinstance(value, (tuple, list)):
        return [to_plain(v) for v in value]
    if isinstance(value, Constant):
        return value.value
    plain = value is None or isinstance(value, (str, int, float))
    return value if plain else str(value)
