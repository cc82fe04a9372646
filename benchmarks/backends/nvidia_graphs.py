"""Graphs of one region each that `benchmarks.nvidia` times against torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax

nn, op = relax.op.nn, relax.op

#: name: backend, type, shapes, graph; `nvidia_run` has the same graph in torch.
SPEED: dict[str, tuple[str, str, tuple[tuple[int, ...], ...], Callable[..., Any]]] = {}


def _speed(name: str, kind: str, dtype: str, *shapes: tuple[int, ...], by: Sequence[str]) -> None:
    for backend in by:
        SPEED[f"{name} {dtype}, {backend}"] = (backend, dtype, shapes, GRAPHS[kind])


def _dense(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    return emit(nn.relu(emit(op.add(emit(op.matmul(x, emit(op.permute_dims(weight)))), bias))))


def _last(x: Any, weight: Any, **attrs: Any) -> Any:
    return nn.conv2d(x, weight, padding=int(weight.ty.shape[1]) // 2, data_layout="NHWC",
                     kernel_layout="OHWI", **attrs)  # fmt: skip


def _conv(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    return emit(nn.relu(emit(op.add(emit(_last(x, weight)), bias))))


def _grouped(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    y = _last(x, weight, groups=int(x.ty.shape[3]) // int(weight.ty.shape[3]))
    return emit(nn.relu(emit(op.add(emit(y), bias))))


def _stem(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    return emit(nn.relu(emit(op.add(emit(_last(x, weight, strides=2)), bias))))


def _patches(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    """Patches of an image, as a ViT embeds them."""
    y = nn.conv2d(
        x, weight, strides=int(weight.ty.shape[1]), data_layout="NHWC", kernel_layout="OHWI"
    )
    return emit(op.add(emit(y), bias))


def _block(emit: Any, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
    y = emit(op.add(emit(op.add(emit(_last(x, weight)), bias)), residual))
    return emit(nn.relu(y))


def _hard_swish(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    y = emit(op.add(emit(_last(x, weight)), bias))
    gate = emit(op.clip(emit(op.add(y, relax.const(3.0, x.ty.dtype))), 0.0, 6.0))
    return emit(op.divide(emit(op.multiply(y, gate)), relax.const(6.0, x.ty.dtype)))


def _silu(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    return emit(nn.silu(emit(op.add(emit(_last(x, weight)), bias))))


def _transposed(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    y = nn.conv2d_transpose(x, weight, strides=2, padding=1)
    return emit(nn.relu(emit(op.add(emit(y), bias))))


def _first(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    return emit(nn.relu(emit(op.add(emit(nn.conv2d(x, weight, padding=1)), bias))))


def _batch(emit: Any, x: Any, y: Any) -> Any:
    return emit(op.matmul(x, y))


GRAPHS: dict[str, Callable[..., Any]] = {
    "dense": _dense, "conv": _conv, "depthwise": _grouped, "grouped": _grouped,
    "conv NCHW": _first, "batch": _batch,
    "stem": _stem, "patches": _patches, "residual": _block, "silu": _silu,
    "hard swish": _hard_swish, "transposed": _transposed,
}  # fmt: skip
GEMMS = ("cublaslt", "cutlass")
for m, k, n in ((128, 768, 3072), (4096, 4096, 4096)):
    for t in ("float16", "bfloat16", "float32"):
        by = GEMMS if t == "float16" or (t, m) == ("float32", 4096) else GEMMS[:1]
        _speed(f"dense {m}x{k}x{n}", "dense", t, (m, k), (n, k), (n,), by=by)
_speed("batch 96x512x64x512", "batch", "float16", (96, 512, 64), (96, 64, 512), by=GEMMS[:1])
for t in ("float16", "float32"):
    _speed("conv 3x3 64 56x56", "conv", t, (32, 56, 56, 64), (64, 3, 3, 64), (64,), by=("cudnn",))
    _speed("conv 1x1 256 14x14", "conv", t, (32, 14, 14, 256), (1024, 1, 1, 256), (1024,),
           by=("cudnn",))  # fmt: skip
    _speed("conv NCHW 3x3 128 28x28", "conv NCHW", t, (32, 128, 28, 28), (128, 128, 3, 3),
           (1, 128, 1, 1), by=("cudnn",))  # fmt: skip
    _speed("residual 1x1 64 56x56", "residual", t, (32, 56, 56, 64), (256, 1, 1, 64), (256,),
           (32, 56, 56, 256), by=("cudnn",))  # fmt: skip
    _speed("residual 1x1 256 14x14, batch 1", "residual", t, (1, 14, 14, 256), (1024, 1, 1, 256),
           (1024,), (1, 14, 14, 1024), by=("cudnn",))  # fmt: skip
    _speed("conv 3x3 256 14x14, batch 1", "conv", t, (1, 14, 14, 256), (256, 3, 3, 256), (256,),
           by=("cudnn",))  # fmt: skip
    for c in (3, 4, 8):
        _speed(f"stem 7x7 {c} 224x224", "stem", t, (32, 224, 224, c), (64, 7, 7, c), (64,),
               by=("cudnn",))  # fmt: skip
        _speed(f"stem 3x3 {c} 224x224", "stem", t, (32, 224, 224, c), (32, 3, 3, c), (32,),
               by=("cudnn",))  # fmt: skip
        _speed(f"patches 16x16 {c} 224x224", "patches", t, (32, 224, 224, c), (768, 16, 16, c),
               (768,), by=("cudnn",))  # fmt: skip
    _speed("silu 1x1 96 56x56", "silu", t, (32, 56, 56, 96), (24, 1, 1, 96), (24,), by=("cudnn",))
    _speed("hard swish 1x1 112 14x14", "hard swish", t, (32, 14, 14, 112), (672, 1, 1, 112), (672,),
           by=("cudnn",))  # fmt: skip
    _speed("transposed 4x4 256 32x32", "transposed", t, (8, 256, 32, 32), (256, 128, 4, 4),
           (1, 128, 1, 1), by=("cudnn",))  # fmt: skip
    _speed("depthwise 3x3 128 56x56", "depthwise", t, (32, 56, 56, 128), (128, 3, 3, 1), (128,),
           by=("cudnn",))  # fmt: skip
    _speed("depthwise 7x7 96 56x56", "depthwise", t, (32, 56, 56, 96), (96, 7, 7, 1), (96,),
           by=("cudnn",))  # fmt: skip
