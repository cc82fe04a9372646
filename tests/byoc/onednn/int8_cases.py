"""Regions of int8, and what they compute in exact arithmetic: integers, then float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from tvm import relax, tirx

from opinfo.byoc.backends.onednn.cpu import has_int8

nn, op = relax.op.nn, relax.op
Array = np.ndarray[Any, Any]
N = tirx.Var("n", "int64")
BATCH = 3


@dataclass(frozen=True)
class Q:
    """Integers of a type, and what they stand for; one scale, or some along an axis."""

    dtype: str
    scale: float | tuple[float, ...]
    zero: int = 0
    axis: int = -1

    def parameters(self) -> tuple[Any, Any]:
        scale = np.asarray(self.scale, "float32")
        return relax.const(scale), relax.const(np.full(scale.shape, self.zero, self.dtype))

    def real(self, q: Array) -> Array:
        """In float64, with the scale that float32 has."""
        scale = np.asarray(self.scale, "float32").astype("float64")
        if scale.ndim:
            scale = scale.reshape([-1 if k == self.axis % q.ndim else 1 for k in range(q.ndim)])
        return np.asarray((q.astype("int64") - self.zero) * scale)


X8, XU = Q("int8", 0.02, 3), Q("uint8", 0.03, 117)
Y8, YU = Q("int8", 0.41, -5), Q("uint8", 0.37, 9)
EVEN = Q("int8", 0.41, -6)


@dataclass(frozen=True)
class Case:
    """``inputs`` of these shapes; ``build`` and ``exact`` are given them dequantized.

    ``out``: what the result is quantised to; None: it is float32. ``ops``: all of the region.
    """

    inputs: tuple[tuple[tuple[Any, ...], Q], ...]
    build: Callable[..., Any]
    exact: Callable[..., Array]
    out: Q | None
    ops: str


#: Where the CPU has no instructions for products of int8, oneDNN sums two of them in 16 bits, and
#: halves weights of signed data for that: even integers, of half the range, are exact.
PART = 1 if has_int8() else 2


def _ints(shape: tuple[int, ...], q: Q, seed: int) -> Array:
    info = np.iinfo(q.dtype)
    low, high = info.min // PART**2, info.max // PART**2
    rng = np.random.default_rng(seed)
    return (PART * rng.integers(low, high, shape, endpoint=True)).astype(q.dtype)


def _floats(*shape: int) -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype("float32")


def dequantized(emit: Any, q: Q, x: Any) -> Any:
    scale, zero = q.parameters()
    return emit(op.dequantize(x, scale, zero, axis=q.axis, out_dtype="float32"))


def convolved(x: Array, w: Array, stride: int, pad: int, dilation: int, groups: int) -> Array:
    """N…C with O…I, as the sum that it is."""
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), *[(pad, pad)] * n, (0, 0)])
    size = [dilation * (k - 1) + 1 for k in w.shape[1:-1]]
    at = sliding_window_view(x, size, axis=tuple(range(1, n + 1)))
    step = (slice(None), *[slice(None, None, stride)] * n, slice(None))
    inside = [slice(None, None, dilation)] * n
    at = at[(*step, *inside)]  # N, …, C, window
    at = at.reshape(*at.shape[: n + 1], groups, -1, *w.shape[1:-1])
    kernel = w.reshape(groups, -1, *w.shape[1:])
    window = "xyz"[:n]
    found = np.einsum(f"...gi{window},go{window}i->...go", at, kernel)
    return np.asarray(found.reshape(*found.shape[:-2], -1))


SPATIAL = ("W", "HW", "DHW")


def _conv(
    shape: tuple[Any, ...], outputs: int, kernel: int = 3, q: Q = X8, out: Q | None = Y8,
    each: bool = True, stride: int = 1, pad: int = 1, dilation: int = 1, groups: int = 1,
    then: Callable[..., Any] | None = None, after: Callable[..., Array] | None = None,
    more: tuple[tuple[tuple[Any, ...], Q], ...] = (), ops: str = "",
) -> Case:  # fmt: skip
    n = len(shape) - 2
    scale = tuple(np.linspace(0.01, 0.05, outputs)) if each else 0.02
    wq = Q("int8", scale, 0, 0)
    w = _ints((outputs, *[kernel] * n, shape[-1] // groups), wq, 5)
    spatial = SPATIAL[n - 1]
    f = (nn.conv1d, nn.conv2d, nn.conv3d)[n - 1]

    def build(emit: Any, x: Any, *others: Any) -> Any:
        y = emit(f(x, dequantized(emit, wq, relax.const(w)), strides=stride, padding=pad,
                   dilation=dilation, groups=groups, data_layout=f"N{spatial}C",
                   kernel_layout=f"O{spatial}I"))  # fmt: skip
        return y if then is None else then(emit, y, *others)

    def exact(x: Array, *others: Array) -> Array:
        y = convolved(x, wq.real(w), stride, pad, dilation, groups)
        return y if after is None else after(y, *others)

    names = ["dequantize", "dequantize", f"conv{n}d", *ops.split(), *["quantize"] * bool(out)]
    return Case(((shape, q), *more), build, exact, out, " ".join(names))


def _matmul(
    one: tuple[Any, ...], two: tuple[int, ...], q: Q = X8, out: Q | None = Y8, each: bool = False,
) -> Case:  # fmt: skip
    scale = tuple(np.linspace(0.01, 0.05, two[-1])) if each else 0.02
    wq = Q("int8", scale, 0, -1)
    w, bias = _ints(two, wq, 5), _floats(two[-1])

    def build(emit: Any, x: Any) -> Any:
        y = emit(op.matmul(x, dequantized(emit, wq, relax.const(w))))
        return emit(nn.relu(emit(op.add(y, relax.const(bias)))))

    def exact(x: Array) -> Array:
        return np.asarray(np.maximum(x @ wq.real(w) + bias, 0))

    last = " quantize" if out else ""
    return Case(((one, q),), build, exact, out, f"dequantize dequantize matmul add relu{last}")


def _biased(emit: Any, y: Any) -> Any:
    return emit(nn.relu(emit(op.add(y, relax.const(_floats(8))))))


def _summed(emit: Any, y: Any, z: Any) -> Any:
    return emit(nn.relu(emit(op.add(z, emit(op.add(y, relax.const(_floats(8))))))))


def _bounded(emit: Any, y: Any) -> Any:
    factor = relax.const(np.linspace(-1, 2, 8).astype("float32"))
    return emit(op.clip(emit(op.multiply(y, factor)), -3.0, 4.0))


def _bounded_exact(y: Array) -> Array:
    return np.asarray(np.clip(y * np.linspace(-1, 2, 8).astype("float32"), -3, 4))


def _two(build: Callable[..., Any], exact: Callable[..., Array], ops: str) -> Case:
    """Of two activations of one shape."""
    shape = (2, 5, 6, 8)
    return Case(((shape, X8), (shape, XU)), build, exact, YU,
                f"dequantize dequantize {ops} quantize")  # fmt: skip


def _attention() -> Case:
    a, b = Q("uint8", 0.02, 120), Q("int8", 0.03)
    return Case((((2, 4, 6), a), ((2, 6, 5), b)), lambda e, x, y: e(op.matmul(x, y)),
                lambda x, y: x @ y, None, "dequantize dequantize matmul")  # fmt: skip


IMAGE = (2, 7, 6, 4)
CASES: dict[str, Case] = {
    "int8": _conv(IMAGE, 8),
    "uint8": _conv(IMAGE, 8, q=XU, out=YU),
    "one scale": _conv(IMAGE, 8, q=Q("uint8", 0.03), out=Q("uint8", 0.4), each=False),
    "to float32": _conv(IMAGE, 8, q=XU, out=None, then=_biased,
                        after=lambda y: np.maximum(y + _floats(8), 0), ops="add relu"),
    "1x1, strided": _conv(IMAGE, 16, 1, stride=2, pad=0),
    "dilated": _conv(IMAGE, 8, q=XU, dilation=2, pad=2),
    "depthwise": _conv((2, 7, 6, 16), 16, q=XU, groups=16),
    "grouped": _conv((2, 7, 6, 8), 12, groups=4),
    "conv1d": _conv((2, 9, 4), 8, q=XU),
    "conv3d": _conv((1, 4, 5, 6, 4), 8),
    "batch known at run time": _conv((N, 7, 6, 4), 8),
    "bias, relu": _conv(IMAGE, 8, q=XU, then=_biased,
                        after=lambda y: np.maximum(y + _floats(8), 0), ops="add relu"),
    "factor by channel, bounds": _conv(IMAGE, 8, then=_bounded, after=_bounded_exact,
                                       ops="multiply clip"),
    "residual": _conv(IMAGE, 8, then=_summed, more=(((2, 7, 6, 8), XU),),
                      after=lambda y, z: np.maximum(y + _floats(8) + z, 0),
                      ops="add dequantize add relu"),
    "dense": _matmul((5, 12), (12, 8)),
    "dense, a scale for each column": _matmul((N, 12), (12, 8), XU, YU, True),
    "dense of a batch, to float32": _matmul((2, N, 12), (12, 8), XU, None, True),
    "attention": _attention(),
    "sum": _two(lambda e, x, y: e(nn.relu(e(op.add(x, y)))), lambda x, y: np.maximum(x + y, 0),
                "add relu"),
    "joined": Case((((2, 5, 4), XU), ((2, 3, 4), YU)), lambda e, x, y: e(op.concat([x, y], 1)),
                   lambda x, y: np.concatenate([x, y], 1), EVEN, "concat"),
    "to other steps": Case((((2, 5, 7), XU),), lambda e, x: x, lambda x: x, EVEN,
                           "dequantize quantize"),
    "largest": Case((((2, 7, 6, 8), XU),), lambda e, x: e(
        nn.max_pool2d(x, (2, 2), (2, 2), layout="NHWC")), lambda x: sliding_window_view(
        x, (2, 2), axis=(1, 2))[:, ::2, ::2].max((-1, -2)), None, "max_pool2d"),
}  # fmt: skip


def module() -> Any:
    """All cases in one function: an input for each shape, a tuple of the results."""
    given = {name: [relax.Var(f"x{k}_{j}", relax.TensorType(s, q.dtype))
                    for j, (s, q) in enumerate(c.inputs)]
             for k, (name, c) in enumerate(CASES.items())}  # fmt: skip
    bb = relax.BlockBuilder()
    with bb.function("main", [v for vs in given.values() for v in vs]):
        with bb.dataflow():
            out = bb.emit_output(
                relax.Tuple([made(bb.emit, CASES[k], x) for k, x in given.items()])
            )
        bb.emit_func_output(out)
    return bb.get()


def made(emit: Any, case: Case, inputs: list[Any]) -> Any:
    real = [dequantized(emit, q, x) for (_, q), x in zip(case.inputs, inputs, strict=True)]
    y = case.build(emit, *real)
    if case.out is None:
        return y
    scale, zero = case.out.parameters()
    return emit(op.quantize(y, scale, zero, axis=-1, out_dtype=case.out.dtype))


def inputs() -> list[Array]:
    pairs = [given for c in CASES.values() for given in c.inputs]
    return [_ints(tuple(e if isinstance(e, int) else BATCH for e in s), q, k)
            for k, (s, q) in enumerate(pairs)]  # fmt: skip
