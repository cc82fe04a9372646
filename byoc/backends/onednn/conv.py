"""Convolutions: factors by channel go into the weights, terms into the bias."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

from ...backend.region import Array, Call, Tensor
from ..common.fold_channels import Folded, fold
from ..common.region_source import ints
from .post import lines
from .source import OneDnnFunction, moved, permuted


def convolution(frame: OneDnnFunction) -> list[str]:
    """conv1d, conv2d, conv3d and their transposes; any permutation of axes, groups, dilation."""
    call = frame.region.calls[0]
    attrs = call.attrs
    spatial = spatial_of(call)
    layouts = [str(attrs[k]) for k in ("data_layout", "kernel_layout", "out_layout")]
    data, kernel, out = layouts[0], layouts[1], layouts[2] or layouts[0]
    groups = int(attrs["groups"])
    transposed = call.op.endswith("_transpose")
    folded = _folded(frame, out, kernel, groups, transposed)
    frame.rounds += folded.rounds

    def turned(tensor: Tensor) -> str:
        rank = len(frame.region.result.shape)
        return f"{frame.view(tensor)}.expanded({rank}){permuted(out, 'NC' + spatial)}"

    first, second = call.operands[:2]
    assert isinstance(first, Tensor) and isinstance(second, Tensor)
    src = f"{frame.view(first)}{permuted(data, 'NC' + spatial)}"
    weights = _weights(frame, second, folded, kernel)
    order = "IO" if transposed else "OI"
    weights += f"{permuted(kernel, order + spatial)}.grouped({groups})"
    if transposed:  # a group's inputs, then its outputs
        swap = [0, 2, 1] if groups > 1 else [1, 0]
        weights += moved([*swap, *range(len(swap), len(swap) + len(spatial))])
    bias = "nullptr"
    body = [f"const View src = {src};", f"const View weights = {weights};",
            f"const View dst = {frame.result}{permuted(out, 'NC' + spatial)};"]  # fmt: skip
    if folded.shift is not None:
        body.append(f"const View bias = {frame.constant(folded.shift)};")
        bias = "&bias"
    body += ["Post post;", *lines(folded.epilogue, turned)]
    name = "deconvolution" if transposed else "convolution"
    sizes = ints(chain.from_iterable(sizes_of(attrs, len(spatial), transposed)))
    return [*body, f"static const int64_t sizes[] = {{{sizes}}};",
            f"return {name}(src, weights, {bias}, dst, sizes, post);"]  # fmt: skip


def spatial_of(call: Call) -> str:
    return {"1": "W", "2": "HW", "3": "DHW"}[call.op.split("conv")[1][0]]


def sizes_of(attrs: Any, rank: int, transposed: bool) -> list[list[int]]:
    """Strides, dilation - 1, padding before, padding after."""
    padding = [int(p) for p in attrs["padding"]]
    before, after = padding[:rank], padding[rank:]
    if transposed:
        after = [r - int(o) for r, o in zip(after, attrs["output_padding"], strict=True)]
    return [list(attrs["strides"]), [int(d) - 1 for d in attrs["dilation"]], before, after]


def _folded(frame: OneDnnFunction, out: str, kernel: str, groups: int, transposed: bool) -> Folded:
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


def _weights(frame: OneDnnFunction, tensor: Tensor, folded: Folded, kernel: str) -> str:
    if folded.scale is None:
        return frame.view(tensor)
    array = frame.region.constants[tensor.index]
    shape = [-1 if c == "O" else 1 for c in kernel]
    scaled = array.astype("float32") * folded.scale.reshape(shape)
    return frame.constant(scaled.astype(array.dtype))
