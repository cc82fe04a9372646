"""Casts of constants from and to float8, computed by numpy.

TVM's code for CPUs, which folds constants for all targets, converts 0 and subnormals of float8
wrongly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ....analysis.support.tvm_compat import GenericConst, array_of
from ..mutation.mutate import mutated, named

#: The names of their dtypes; without the underscore, "float6" is that of float64 too.
NARROW = ("float8_", "float6_", "float4_")


def is_narrow(value: Any) -> bool:
    """Whether a tensor holds numbers of 8 bits or fewer with an exponent."""
    return str(getattr(getattr(value, "ty", None), "dtype", "")).startswith(NARROW)


def is_narrow_cast(value: Any) -> bool:
    """Whether a call converts from or to such a dtype."""
    return named(value, "relax.astype") and (is_narrow(value) or is_narrow(value.args[0]))


def fold_narrow_casts(mod: Any) -> Any | None:
    """The module without such casts of constants; None if it has none.

    A number that is too large becomes the largest, as in ONNX and on GPUs.
    """
    writer = _Writer(mod)
    out = mutated(mod, writer, constants=True)
    return out if writer.folded else None


@relax.expr_functor.mutator
class _Writer(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces casts of constants by their results."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.folded = False

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if not is_narrow_cast(call):
            return call
        arg = call.args[0]
        if isinstance(arg, relax.Var):
            arg = self.lookup_binding(arg)
        if not isinstance(arg, GenericConst):
            return call
        self.folded = True
        return relax.const(_converted(arg, str(call.ty.dtype)), str(call.ty.dtype))


def _converted(constant: Any, dtype: str) -> Any:
    import ml_dtypes

    dtypes: Any = ml_dtypes
    array, target = array_of(constant).numpy(), getattr(dtypes, dtype, dtype)
    if dtype.startswith(NARROW):
        most = float(dtypes.finfo(target).max)
        array = np.clip(array.astype("float32"), -most, most)
    return array.astype(target)
