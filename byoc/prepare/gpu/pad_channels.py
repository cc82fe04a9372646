"""Pad the few channels of an image, which tensor cores read in groups.

Before: y = R.nn.conv2d(x, w)                       x: (32, 3, 224, 224), w: (64, 3, 7, 7)
After:  y = R.nn.conv2d(R.nn.pad(x, 0), w0)         x: (32, 4, 224, 224), w0: (64, 4, 7, 7)

The products of the new channels are 0 · 0, so sums stay as they are. The pad is fused with the
conversion to channels last, which takes place anyway.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ....analysis.support.tvm_compat import GenericConst, array_of
from ..mutation.mutate import mutated, named

_CONVOLUTIONS = tuple(f"relax.nn.conv{n}d" for n in (1, 2, 3))
#: Fewer channels are padded to as many.
GROUP = 4


def pad_channels(mod: Any) -> Any:
    """The module with the channels of halves padded where a convolution reads few."""
    return mutated(mod, _Pad(mod))


@relax.expr_functor.mutator
class _Pad(relax.PyExprMutator):  # type: ignore[misc]
    """Pads the channels of images and of the kernels that read them."""

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if not any(named(call, name) for name in _CONVOLUTIONS) or int(call.attrs.groups) != 1:
            return call
        data, weights = call.args
        shape = getattr(data.ty, "shape", None)
        channel = str(call.attrs.data_layout).find("C")
        inner = str(call.attrs.kernel_layout).find("I")
        halves = str(data.ty.dtype) in ("float16", "bfloat16")
        if not halves or shape is None or channel < 0 or not isinstance(weights, GenericConst):
            return call
        count = getattr(shape.values[channel], "value", GROUP)
        if count >= GROUP or len(shape.values) != len(str(call.attrs.data_layout)):
            return call
        more = GROUP - int(count)
        array = array_of(weights).numpy()
        wider = np.pad(array, [(0, more if k == inner else 0) for k in range(array.ndim)])
        width = [w for k in range(array.ndim) for w in (0, more if k == channel else 0)]
        padded = self.builder_.emit(relax.op.nn.pad(data, width))
        return relax.Call(call.op, [padded, relax.const(wider, str(weights.ty.dtype))],
                          call.attrs, call.ty_args)  # fmt: skip
