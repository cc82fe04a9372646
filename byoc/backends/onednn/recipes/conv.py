"""Convolutions: factors by channel go into the weights, terms into the bias."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

from ....backend.region import Array, Call, Tensor
from ...common.fold_channels import Folded, fold, multiplied
from .post import follow
from .recipe import OperandView, Recipe
from .source import OneDnnFunction, order

CONV = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
CONV_TRANSPOSE = ("relax.nn.conv1d_transpose", "relax.nn.conv2d_transpose",
                  "relax.nn.conv3d_transpose")  # fmt: skip


def convolution(frame: OneDnnFunction) -> Recipe:
    """conv1d, conv2d, conv3d and their transposes; any permutation of axes, groups, dilation."""
    call = frame.region.calls[0]
    attrs = call.attrs
    spatial = spatial_of(call)
    layouts = [str(attrs[k]) for k in ("data_layout", "kernel_layout", "out_layout")]
    data, kernel, out = layouts[0], layouts[1], layouts[2] or layouts[0]
    groups, axes = int(attrs["groups"]), "NC" + spatial
    transposed = call.op.endswith("_transpose")
    folded = _folded(frame, out, groups, transposed)
    frame.rounds += folded.rounds
    first, second = call.operands[:2]
    assert isinstance(first, Tensor) and isinstance(second, Tensor)
    weights = _weights(frame, second, folded, kernel)
    weights = weights.permuted(order(kernel, ("IO" if transposed else "OI") + spatial))
    weights = weights.grouped(groups)
    if transposed:  # a group's inputs, then its outputs
        swap = [0, 2, 1] if groups > 1 else [1, 0]
        weights = weights.permuted([*swap, *range(len(swap), len(swap) + len(spatial))])

    def turned(tensor: Tensor) -> OperandView:
        return frame.of(tensor).expanded(len(out)).permuted(order(out, axes))

    recipe = Recipe("deconvolution" if transposed else "convolution")
    recipe.views(src=frame.of(first).permuted(order(data, axes)), weights=weights,
                 dst=frame.out.permuted(order(out, axes)),
                 bias=None if folded.shift is None else frame.fixed(folded.shift))  # fmt: skip
    recipe.numbers(chain.from_iterable(sizes_of(attrs, len(spatial), transposed)))
    return follow(recipe, folded.epilogue, turned)


def spatial_of(call: Call) -> str:
    return {"1": "W", "2": "HW", "3": "DHW"}[call.op.split("conv")[1][0]]


def sizes_of(attrs: Any, rank: int, transposed: bool) -> list[list[int]]:
    """Strides, dilation - 1, padding before, padding after."""
    padding = [int(p) for p in attrs["padding"]]
    before, after = padding[:rank], padding[rank:]
    if transposed:
        after = [r - int(o) for r, o in zip(after, attrs["output_padding"], strict=True)]
    return [list(attrs["strides"]), [int(d) - 1 for d in attrs["dilation"]], before, after]


def _folded(frame: OneDnnFunction, out: str, groups: int, transposed: bool) -> Folded:
    weights = frame.region.calls[0].operands[1]
    assert isinstance(weights, Tensor)
    count = frame.region.result.shape[out.index("C")]
    scalable = weights.source == "constant" and not (transposed and groups > 1)
    folded = fold(frame.region, out.index("C"), count, scalable)
    if folded.shift is None:
        return folded
    return replace(folded, shift=_full(folded.shift, count))


def _full(array: Array, count: int) -> Array:
    import numpy as np

    return np.ascontiguousarray(np.broadcast_to(array, (count,)))


def _weights(frame: OneDnnFunction, tensor: Tensor, folded: Folded, kernel: str) -> OperandView:
    if folded.scale is None:
        return frame.of(tensor)
    array = frame.region.constants[tensor.index]
    shape = [-1 if c == "O" else 1 for c in kernel]
    return frame.fixed(multiplied(array, folded.scale.reshape(shape)))
