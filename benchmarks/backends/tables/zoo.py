"""Small graphs, one for each pattern of TVM's tables, which the pattern should match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from tvm import relax

nn, op = relax.op.nn, relax.op
Build = Callable[..., Any]
Case = tuple[tuple[Any, ...], str, Build]
"""Shapes of the parameters, their dtype, and the graph: `build(emit, *params)`."""


def module(cases: Mapping[str, Case]) -> Any:
    """Return a module whose `main`, which TVM partitions, returns the results of all cases."""
    params = {
        name: [relax.Var(f"{name}_{k}", relax.TensorType(s, dtype)) for k, s in enumerate(shapes)]
        for name, (shapes, dtype, _) in cases.items()
    }
    bb = relax.BlockBuilder()
    with bb.function("main", [p for ps in params.values() for p in ps]):
        with bb.dataflow():
            results = [build(bb.emit, *params[name]) for name, (_, _, build) in cases.items()]
            out = bb.emit_output(relax.Tuple(results))
        bb.emit_func_output(out)
    return bb.get()


def _after(bias: bool, act: str, residual: str, last: bool) -> Build:
    """Return a builder of what may follow an anchor: bias, activation, residual, relu."""

    def build(emit: Any, y: Any, bias_value: Any, residual_value: Any) -> Any:
        y = emit(op.add(y, bias_value)) if bias else y
        y = emit(getattr(nn, act)(y)) if act else y
        y = emit(getattr(op, residual)(y, residual_value)) if residual else y
        return emit(nn.relu(y)) if last else y

    return build


def _names(anchor: str, acts: tuple[str, ...]) -> Iterator[tuple[str, Build]]:
    yield anchor, _after(False, "", "", False)
    for act in ("", *acts):
        base = f"{anchor}_bias" + (f"_{act}" if act else "")
        yield base, _after(True, act, "", False)
        for combine in ("add", "multiply"):
            for last in (False, True):
                yield (
                    f"{base}_residual_{combine}" + "_relu" * last,
                    _after(True, act, combine, last),
                )


def convs(layout: str = "NHWC", dtype: str = "float16") -> dict[str, Case]:
    """Return convolutions with a bias, an activation and a residual."""
    out: dict[str, Case] = {}
    shapes = {"x": (2, 16, 8, 8), "w": (8, 16, 3, 3), "b": (1, 8, 1, 1), "r": (2, 8, 8, 8)}
    if layout == "NHWC":
        shapes = {k: tuple(np.array(s)[[0, 2, 3, 1]].tolist()) for k, s in shapes.items()}
    kernel = "OHWI" if layout == "NHWC" else "OIHW"
    for name, after in _names("conv2d", ("relu", "silu")):

        def build(
            emit: Any, x: Any, weight: Any, bias: Any, residual: Any, after: Build = after
        ) -> Any:
            y = emit(nn.conv2d(x, weight, padding=1, data_layout=layout, kernel_layout=kernel))
            return after(emit, y, bias, residual)

        out[name] = tuple(shapes.values()), dtype, build
    return out


def matmuls(dtype: str = "float16") -> dict[str, Case]:
    """Return products, the second operand transposed or not, with the same epilogues."""
    out: dict[str, Case] = {}
    for transposed in (False, True):
        shapes = ((32, 64), (128, 64) if transposed else (64, 128), (128,), (32, 128))
        for name, after in _names("matmul" + "_transposed" * transposed, ("relu", "gelu")):

            def build(
                emit: Any, x: Any, weight: Any, bias: Any, residual: Any, after: Build = after,
                transposed: bool = transposed,
            ) -> Any:  # fmt: skip
                weight = emit(op.permute_dims(weight)) if transposed else weight
                return after(emit, emit(op.matmul(x, weight)), bias, residual)

            out[name] = shapes, dtype, build
    return out


def norms() -> dict[str, Case]:
    def layer(emit: Any, x: Any, scale: Any, bias: Any) -> Any:
        return emit(nn.layer_norm(x, scale, bias, axes=[-1]))

    def rms(emit: Any, x: Any, scale: Any) -> Any:
        return emit(nn.rms_norm(x, scale, axes=[-1]))

    return {
        "layer_norm": (((2, 8, 64), (64,), (64,)), "float16", layer),
        "rms_norm": (((2, 8, 64), (64,)), "float16", rms),
    }


def _stacked(slices: bool, rank: int, bias: bool) -> Build:
    def build(emit: Any, x: Any, *bs: Any) -> Any:
        if slices:
            cut = [op.strided_slice(x, [2], [256 * k], [256 * (k + 1)], [1]) for k in range(3)]
            parts = [emit(c) for c in cut]
        else:
            split = emit(op.split(x, 3, axis=rank - 1))
            parts = [emit(relax.TupleGetItem(split, k)) for k in range(3)]
        if rank == 4:
            q, k, v = (emit(op.permute_dims(p, [1, 0, 2, 3])) for p in parts)
        else:
            q, k, v = (emit(op.reshape(p, (2, 16, 4, 64))) for p in parts)
        y = emit(nn.attention(q, k, v, bs[0] if bias else None))
        return emit(op.permute_dims(y, [1, 0, 2, 3])) if rank == 4 else y

    return build


def _written_out(cast: bool, bias: bool) -> Build:
    """Return a builder of attention as importers emit it: two products and a softmax."""

    def build(emit: Any, q: Any, k: Any, v: Any, *bs: Any) -> Any:
        def heads(x: Any) -> Any:
            x = emit(op.permute_dims(x, [0, 2, 1, 3]))
            return emit(op.reshape(x, (8, 16, 64)))

        s = emit(op.matmul(heads(q), emit(op.permute_dims(heads(k), [0, 2, 1]))))
        scale = relax.const(np.float16(0.125)) if not cast else relax.const(np.float32(0.125))
        s = emit(op.multiply(s, emit(op.astype(scale, "float16")) if cast else scale))
        s = emit(op.add(s, bs[0])) if bias else s
        s = emit(op.astype(s, "float32")) if cast else s
        s = emit(nn.softmax(s, -1))
        s = emit(op.astype(s, "float16")) if cast else s
        y = emit(op.matmul(s, heads(v)))
        y = emit(op.reshape(y, (2, 4, 16, 64)))
        return emit(op.permute_dims(y, [0, 2, 1, 3]))

    return build


def attentions() -> dict[str, Case]:
    """Return attention as one operator, over stacked operands, and written out."""
    qkv = ((2, 16, 4, 64),) * 3

    def plain(emit: Any, q: Any, k: Any, v: Any, *bias: Any) -> Any:
        return emit(nn.attention(q, k, v, *bias))

    return {
        "attention": (qkv, "float16", plain),
        "attention_bias": ((*qkv, (2, 4, 16, 16)), "float16", plain),
        "attention_split": (((2, 16, 768),), "float16", _stacked(False, 3, False)),
        "attention_split_bias": (
            ((2, 16, 768), (2, 4, 16, 16)), "float16", _stacked(False, 3, True)),
        "attention_slices": (((2, 16, 768),), "float16", _stacked(True, 3, False)),
        "attention_slices_bias": (
            ((2, 16, 768), (2, 4, 16, 16)), "float16", _stacked(True, 3, True)),
        "attention_SBN3H": (((16, 2, 4, 192),), "float16", _stacked(False, 4, False)),
        "attention_written_out": (qkv, "float16", _written_out(False, False)),
        "attention_written_out_bias": (
            (*qkv, (8, 16, 16)), "float16", _written_out(False, True)),
    }  # fmt: skip


def quantized() -> dict[str, Case]:
    """Return the scaled products that cuBLAS supports."""

    def multiplied(emit: Any, x: Any, weight: Any, a: Any, b: Any) -> Any:
        y = emit(op.matmul(x, emit(op.permute_dims(weight)), out_dtype="float32"))
        return emit(op.astype(emit(op.multiply(y, emit(op.multiply(a, b)))), "float16"))

    def dequantized(emit: Any, x: Any, weight: Any) -> Any:
        y = emit(op.matmul(x, emit(op.permute_dims(weight)), out_dtype="int32"))
        return emit(
            op.dequantize(
                y, relax.const(np.float16(0.5)), relax.const(np.float16(0)), out_dtype="float16"
            )
        )

    return {
        "matmul_transposed_multiply": (
            ((32, 64), (128, 64), (1,), (1,)), "float32", multiplied),
        "matmul_transposed_dequantize": (((32, 64), (128, 64)), "int8", dequantized),
    }  # fmt: skip


IMAGE = (1, 4, 8, 8)


def _single(func: Callable[..., Any], *shapes: tuple[int, ...]) -> Case:
    return shapes or (IMAGE,), "float32", lambda emit, *xs: emit(func(*xs))


def singles() -> dict[str, Case]:
    """Return a graph for each operator in TensorRT's table."""
    unary = {n: _single(getattr(op, n)) for n in (
        "sigmoid", "tanh", "exp", "log", "sqrt", "abs", "negative", "sin", "cos", "atan", "ceil",
        "floor", "erf")}  # fmt: skip
    binary = {n: _single(getattr(op, n), IMAGE, IMAGE) for n in (
        "add", "subtract", "multiply", "divide", "power", "maximum", "minimum")}  # fmt: skip
    reduced = {n: _single(lambda x, n=n: getattr(op, n)(x, [2, 3])) for n in
               ("sum", "prod", "max", "min", "mean")}  # fmt: skip
    volume = (1, 4, 6, 8, 8)
    return {
        **unary, **binary, **reduced,
        "relu": _single(nn.relu),
        "silu": _single(nn.silu),
        "softmax": _single(lambda x: nn.softmax(x, 1)),
        "batch_flatten": _single(nn.batch_flatten),
        "expand_dims": _single(lambda x: op.expand_dims(x, 1)),
        "squeeze": _single(lambda x: op.squeeze(x, [0])),
        "permute_dims": _single(lambda x: op.permute_dims(x, [0, 2, 3, 1])),
        "layout_transform": _single(
            lambda x: op.layout_transform(x, lambda n, c, h, w: (n, c // 2, h, w, c % 2))),
        "max_pool2d": _single(lambda x: nn.max_pool2d(x, (3, 3), (2, 2), (1, 1, 1, 1))),
        "avg_pool2d": _single(lambda x: nn.avg_pool2d(x, (2, 2), (2, 2))),
        "max_pool3d": _single(lambda x: nn.max_pool3d(x, (2, 2, 2), (2, 2, 2)), volume),
        "avg_pool3d": _single(lambda x: nn.avg_pool3d(x, (2, 2, 2), (2, 2, 2)), volume),
        "adaptive_avg_pool2d": _single(lambda x: nn.adaptive_avg_pool2d(x, (1, 1))),
        "concat": _single(lambda x, y: op.concat([x, y], 1), IMAGE, IMAGE),
        "split": (((1, 4, 8, 8),), "float32", _halves),
        "resize2d": _single(lambda x: op.image.resize2d(x, (16, 16), method="linear")),
        "conv1d": _single(lambda x, w: nn.conv1d(x, w, padding=1), (1, 4, 9), (6, 4, 3)),
        "conv2d": _single(lambda x, w: nn.conv2d(x, w, padding=1), IMAGE, (6, 4, 3, 3)),
        "conv3d": _single(lambda x, w: nn.conv3d(x, w, padding=1), volume, (6, 4, 3, 3, 3)),
        "conv2d_transpose": _single(
            lambda x, w: nn.conv2d_transpose(x, w, strides=2), IMAGE, (4, 6, 3, 3)),
        "conv3d_transpose": _single(
            lambda x, w: nn.conv3d_transpose(x, w, strides=2), volume, (4, 6, 3, 3, 3)),
        "matmul": _single(op.matmul, (2, 5, 7), (2, 7, 6)),
        "reshape": _single(lambda x: op.reshape(x, (4, 2, 32))),
        "layer_norm": _single(lambda x, g, b: nn.layer_norm(x, g, b, axes=[-1]),
                           (2, 5, 8), (8,), (8,)),
        "clip": _single(lambda x: op.clip(x, 0.0, 6.0)),
        "strided_slice": _single(lambda x: op.strided_slice(x, [2], [1], [7], [2])),
        "strided_slice_of_step_1": _single(lambda x: op.strided_slice(x, [2], [1], [7])),
    }  # fmt: skip


def _halves(emit: Any, x: Any) -> Any:
    parts = emit(op.split(x, 2, axis=1))
    return emit(op.add(emit(relax.TupleGetItem(parts, 0)), emit(relax.TupleGetItem(parts, 1))))


ZOO: Mapping[str, Callable[[], dict[str, Case]]] = {
    "convs NHWC": convs,
    "convs NCHW": lambda: convs("NCHW"),
    "matmuls": matmuls,
    "attentions": attentions,
    "norms": norms,
    "scaled products": quantized,
    "single operators": singles,
}
