"""Takes at constant indices that are runs, as slices, which TVM fuses with what surrounds them.

Before: y = R.take(x, R.const([2, 3, 0, 1]), axis=1)        a roll, as torch exports it
After:  y = R.concat((x[:, 2:4], x[:, 0:2]), axis=1)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ....analysis.support.tvm_compat import GenericConst, array_of
from ..mutation.mutate import mutated, named

#: More slices are left as they are: each is a branch of the kernel.
MOST = 2


def slice_index_runs(mod: Any) -> Any:
    """The module with takes of few runs as slices; the input is not changed."""
    return mutated(mod, _Slices(mod))


@relax.expr_functor.mutator
class _Slices(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces takes at runs of indices by slices."""

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if not named(call, "relax.take") or call.attrs.axis is None:
            return call
        data, indices = call.args
        shape = getattr(data.ty, "shape", None)
        if shape is None or not isinstance(indices, GenericConst) or indices.ty.ndim != 1:
            return call
        axis = int(call.attrs.axis) % len(shape.values)
        extent = getattr(shape.values[axis], "value", None)
        runs = _runs(array_of(indices).numpy())
        if (
            extent is None
            or not 0 < len(runs) <= MOST
            or any(begin < 0 or end > extent for begin, end in runs)
        ):
            return call
        slices = [relax.op.strided_slice(data, [axis], [b], [e]) for b, e in runs]
        if len(slices) == 1:
            return slices[0]
        return relax.op.concat([self.builder_.emit(s) for s in slices], axis=axis)


def _runs(indices: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
    """The runs of consecutive numbers, each as its first number and the one after its last."""
    indices = indices.astype("int64")  # in uint8, 0 would follow 255
    cuts = np.flatnonzero(np.diff(indices) != 1) + 1
    parts = [p for p in np.split(indices, cuts) if len(p)]
    return [(int(p[0]), int(p[-1]) + 1) for p in parts[: MOST + 1]]
