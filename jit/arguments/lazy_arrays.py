"""Arrays whose memory does not have their elements: masked ones, and views that torch negates.

DLPack exports the memory: of `numpy.ma.masked_array`, masked elements too; of `z.conj().imag`,
which torch negates when it is read, numbers of the other sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm_ffi
from tvm import runtime

#: Types whose memory always has their elements.
_EAGER = frozenset({np.ndarray, tvm_ffi.Tensor, runtime.Tensor, int, float, bool})


def is_eager(arg: Any) -> bool:
    """Return whether the memory of an argument has its elements; cheap enough for every call."""
    if type(arg) in _EAGER:
        return True
    return not (is_lazy(arg) if hasattr(arg, "is_neg") else is_masked(arg))


def is_masked(arg: Any) -> bool:
    """Return whether an array has masked elements."""
    return isinstance(arg, np.ma.MaskedArray) and bool(np.ma.is_masked(arg))


def is_lazy(arg: Any) -> bool:
    """Return whether torch negates or conjugates a tensor when it is read."""
    is_neg, is_conj = getattr(arg, "is_neg", None), getattr(arg, "is_conj", None)
    return callable(is_neg) and callable(is_conj) and (is_neg() is True or is_conj() is True)


def resolved(arg: Any) -> Any:
    """Return a tensor whose memory has its elements: a copy of one that is lazy, or the same."""
    return arg.resolve_neg().resolve_conj() if is_lazy(arg) else arg
