"""What the time of a call depends on: the kind of work, its sizes, its arithmetic and its bytes.

conv2d of 64 channels over 56 x 56 in NHWC, 3 x 3     conv2d last dense window
softmax whose axis is not the last one                softmax outer
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ...analysis.composites.products import TRANSPOSED_MATMUL
from ...layout.model.buffer_bytes import extent, size_of
from ..backend.flops import elements, moved, products
from ..backend.region import Call, Region, Tensor

#: Elementwise functions that take several instructions for each element.
TRANSCENDENTAL = frozenset(
    f"relax.{name}"
    for name in (
        "exp", "log", "sin", "cos", "tan", "tanh", "sinh", "cosh", "atan", "erf", "sigmoid",
        "power", "nn.gelu", "nn.gelu_tanh", "nn.silu", "nn.softplus", "nn.selu",
    )
)  # fmt: skip
#: Elementwise functions of one or two instructions.
SIMPLE = frozenset(
    f"relax.{name}"
    for name in (
        "add", "subtract", "multiply", "divide", "maximum", "minimum", "negative", "abs", "sqrt",
        "rsqrt", "square", "floor", "ceil", "round", "sign", "clip", "where", "astype", "equal",
        "not_equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_or",
        "logical_not", "nn.relu", "nn.relu6", "nn.leakyrelu", "nn.prelu", "nn.hardswish",
        "nn.hardsigmoid", "hard_swish",
    )
)  # fmt: skip
REDUCTIONS = frozenset(
    f"relax.{name}" for name in ("mean", "sum", "max", "min", "prod", "variance", "std", "argmax",
                                 "argmin")
)  # fmt: skip
NORMS = frozenset(f"relax.nn.{n}_norm" for n in ("layer", "group", "instance", "rms"))
#: Operators whose result is the memory of their operand.
VIEWS = frozenset(f"relax.{n}" for n in ("reshape", "expand_dims", "squeeze", "flatten"))
COPIES = frozenset(
    f"relax.{name}"
    for name in (
        "concat", "split", "stack", "strided_slice", "dynamic_strided_slice", "nn.pad", "take",
        "tile", "repeat", "broadcast_to", "flip", "gather_elements", "gather_nd", "full", "zeros",
    )
)  # fmt: skip
TRANSPOSES = frozenset(("relax.permute_dims", "relax.layout_transform"))
#: The kind of an operator that has none.
OTHER = "other"
VIEW = "view"
ELEMENTWISE = ("elementwise", "transcendental")
#: The kind of two products around a softmax that are one loop nest; the names of such kernels begin
#: so. Its sizes are those of the first product.
ATTENTION = "attention"
#: The first word of the kinds of what a library runs as reference code, of convolutions that it
#: runs by Winograd, and of products for which it has tiles; the names of such kernels begin so.
REFERENCE, WINOGRAD, TILED = "ref", "winograd", "tiled"
KERNELS = (REFERENCE, WINOGRAD, TILED)
#: Products with a matrix of weights, and those whose first operand is the constant.
WEIGHTS, WEIGHTS_FIRST = "matmul weights", "matmul weights-first"
#: The families of kinds, with the number of their sizes.
SIZES = {
    **{f"conv{n}d{t}": 7 for n in (1, 2, 3) for t in ("", "_transpose")}, "matmul": 4,
    "softmax": 2, "norm": 2, "pool": 2, "reduce": 2, "transpose": 2, "copy": 1, "resize": 1,
    "elementwise": 1, "transcendental": 1, OTHER: 1,
    ATTENTION: 4,
}  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """What the time of a call depends on.

    Attributes:
        kind: The kind; its first word is its family.
        sizes: Positive sizes that the speed depends on, in an order fixed for the kind.
        work: The number of multiplications, or of elements.
        moved: The bytes that are read and written.
    """

    kind: str
    sizes: tuple[int, ...]
    work: int
    moved: int

    @property
    def family(self) -> str:
        return self.kind.partition(" ")[0]


def implemented(load: Workload, kernel: str | None) -> Workload:
    """The workload as run by a library's kernel; those of `KERNELS` are kinds of their own."""
    first = next((k for k in KERNELS if kernel is not None and kernel.startswith(k)), None)
    return load if first is None else replace(load, kind=f"{first} {load.kind}")


def attention_of(region: Region) -> Workload:
    """The workload of a region with two products that runs as attention."""
    first, second = (workload(c) for c in region.calls if c.op == "relax.matmul")
    return Workload(ATTENTION, first.sizes, first.work + second.work, moved(region))


def straightforward(kind: str) -> str:
    """The kind without the word of its kernel."""
    first, _, rest = kind.partition(" ")
    return rest if first in KERNELS else kind


def workload(call: Call) -> Workload:
    """The workload of a call; symbolic extents count as `layout.model.buffer_bytes` says."""
    tensors = [o for o in call.operands if isinstance(o, Tensor)]
    traffic = sum(size_of(t.shape, t.dtype) for t in (*tensors, call.result))
    kind, sizes, work = _described(call, tensors)
    if call.result.dtype != "float32" and kind not in (VIEW, OTHER):
        kind = f"{kind} {call.result.dtype}"
    return Workload(kind, tuple(max(1, s) for s in sizes), max(1, work), traffic)


Described = tuple[str, Sequence[int], int]


def _described(call: Call, tensors: Sequence[Tensor]) -> Described:
    out = elements(call.result.shape)
    describe = _DESCRIBE.get(call.op)
    if describe is not None and tensors:
        return describe(call, tensors)
    if call.op in VIEWS:
        return VIEW, (), 1
    if call.op in TRANSCENDENTAL:
        return "transcendental", (out,), out
    if call.op in SIMPLE:
        return "elementwise", (out,), out
    return OTHER, (out,), out


def _conv(call: Call, tensors: Sequence[Tensor]) -> Described:
    layout, attrs = str(call.attrs["data_layout"]), call.attrs
    if len(tensors) < 2 or any(c.isdigit() for c in layout):
        return OTHER, (elements(call.result.shape),), elements(call.result.shape)
    data, weight = tensors[:2]
    channels = extent(data.shape[layout.index("C")])
    out_layout = str(attrs.get("out_layout") or "") or layout
    produced = extent(call.result.shape[out_layout.index("C")])
    groups = extent(attrs["groups"])
    window = [extent(e) for e, c in zip(weight.shape, str(attrs["kernel_layout"]), strict=True)
              if c not in "IO"]  # fmt: skip
    pixels = [extent(e) for e, c in zip(call.result.shape, out_layout, strict=True) if c != "C"]
    shape = "pointwise" if prod(window) == 1 else "window"
    kind = (f"{call.op.removeprefix('relax.nn.')} {'last' if layout.endswith('C') else 'first'} "
            f"{_grouping(groups, channels)} {shape}")  # fmt: skip
    strides = prod(map(extent, _listed(attrs["strides"])))
    sizes = (prod(pixels[:-1]), pixels[-1], channels // groups, produced // groups, groups,
             prod(window), strides)  # fmt: skip
    return kind, sizes, products(call)


def _grouping(groups: int, channels: int) -> str:
    if groups == 1:
        return "dense"
    return "depthwise" if groups == channels else "grouped"


def _matmul(call: Call, tensors: Sequence[Tensor]) -> Described:
    out = [extent(e) for e in call.result.shape]
    if len(tensors) < 2 or len(out) < 2 or not tensors[0].shape:
        return OTHER, (prod(out),), prod(out)
    transposed = call.attrs.get("transposed")
    depth = extent(tensors[0].shape[-2 if transposed and transposed[0] else -1])
    if tensors[0].source == "constant" != tensors[1].source and len(out) == 2:
        kind, batch, rows = WEIGHTS_FIRST, 1, out[-2]
    elif len(tensors[1].shape) == 2:  # all rows are one matrix
        kind, batch, rows = WEIGHTS, 1, prod(out[:-1])
    else:
        kind, batch, rows = "matmul batched", prod(out[:-2]), out[-2]
    return kind, (batch, rows, out[-1], depth), prod(out) * depth


def _softmax(call: Call, tensors: Sequence[Tensor]) -> Described:
    shape = call.result.shape
    axis = int(call.attrs["axis"]) % max(1, len(shape))
    columns, out = extent(shape[axis]), elements(shape)
    place = "inner" if axis == len(shape) - 1 else "outer"
    return f"softmax {place}", (out // max(1, columns), columns), out


def _norm(call: Call, tensors: Sequence[Tensor]) -> Described:
    shape, axes = call.result.shape, call.attrs.get("axes")
    axes = [int(a) % len(shape) for a in axes] if axes is not None else [len(shape) - 1]
    columns, out = prod(extent(shape[a]) for a in axes), elements(shape)
    last = len(shape) - 1 in axes
    return f"norm {'inner' if last else 'outer'}", (out // max(1, columns), columns), out


def _pool(call: Call, tensors: Sequence[Tensor]) -> Described:
    layout = str(call.attrs["layout"])
    taps = prod(map(extent, _listed(call.attrs["pool_size"])))
    out = elements(call.result.shape)
    place = "last" if layout.endswith("C") else "first"
    return f"pool {place}", (out, taps), out * taps


def _adaptive(call: Call, tensors: Sequence[Tensor]) -> Described:
    before, out = elements(tensors[0].shape), elements(call.result.shape)
    inner = not str(call.attrs["layout"]).endswith("C")
    return f"reduce {'inner' if inner else 'outer'}", (out, before // max(1, out)), before


def _reduce(call: Call, tensors: Sequence[Tensor]) -> Described:
    shape, axes = tensors[0].shape, call.attrs.get("axis")
    listed = [int(a) % len(shape) for a in _listed(axes)] if axes is not None else []
    before, out = elements(shape), elements(call.result.shape)
    inner = not listed or len(shape) - 1 in listed
    return f"reduce {'inner' if inner else 'outer'}", (out, before // max(1, out)), before


def _transpose(call: Call, tensors: Sequence[Tensor]) -> Described:
    out, last = elements(call.result.shape), extent((call.result.shape or (1,))[-1])
    axes = call.attrs.get("axes")
    last_stays = axes is not None and int(axes[-1]) % len(axes) == len(axes) - 1
    return ("copy", (out,), out) if last_stays else ("transpose", (out, last), out)


def _copy(call: Call, tensors: Sequence[Tensor]) -> Described:
    out = elements(call.result.shape)
    return "copy", (out,), out


def _resize(call: Call, tensors: Sequence[Tensor]) -> Described:
    out = elements(call.result.shape)
    return f"resize {call.attrs.get('method', '')}", (out,), out


def _listed(value: Any) -> list[Any]:
    return list(value) if hasattr(value, "__iter__") else [value]


_DESCRIBE: dict[str, Callable[[Call, Sequence[Tensor]], Described]] = {
    **{f"relax.nn.conv{n}d{t}": _conv for n in (1, 2, 3) for t in ("", "_transpose")},
    **{f"relax.nn.{kind}_pool{n}d": _pool for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"relax.nn.adaptive_{k}_pool{n}d": _adaptive for k in ("avg", "max") for n in (1, 2, 3)},
    **dict.fromkeys(("relax.matmul", TRANSPOSED_MATMUL), _matmul),
    "relax.nn.softmax": _softmax,
    "relax.nn.log_softmax": _softmax,
    **dict.fromkeys(NORMS, _norm),
    **dict.fromkeys(REDUCTIONS, _reduce),
    **dict.fromkeys(TRANSPOSES, _transpose),
    **dict.fromkeys(COPIES, _copy),
    "relax.image.resize2d": _resize,
}
