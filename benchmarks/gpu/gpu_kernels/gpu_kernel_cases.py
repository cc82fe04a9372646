"""The kernels of `benchmarks.gpu_kernels`: each a graph of Relax, and the same in torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tvm import relax, tirx

nn, op = relax.op.nn, relax.op
MIB = 1 << 20
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Kernel:
    """``build(emit, *inputs)`` in Relax and ``torch(F, *inputs)``; ``kind`` groups the table."""

    kind: str
    name: str
    build: Callable[..., Any]
    torch: Callable[..., Any]
    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...] = ()
    types: tuple[str, ...] = ("float16",)
    symbolic: bool = False  # the size of the first axis is known at run time only

    @property
    def label(self) -> str:
        return f"{self.name} {'x'.join(map(str, self.shapes[0]))}"


def _norm(x: Any, w: Any, b: Any) -> Any:
    return nn.layer_norm(x, w, b, axes=[-1], epsilon=1e-5)


def _group(layout: str) -> Callable[..., Any]:
    channel, axes = (1, [2, 3]) if layout == "NCHW" else (3, [1, 2])

    def build(e: Any, x: Any, w: Any, b: Any) -> Any:
        return e(nn.group_norm(x, w, b, num_groups=32, channel_axis=channel, axes=axes,
                               epsilon=1e-5))  # fmt: skip

    return build


def _pixels(x: Any) -> Any:
    """Channels first, as a view."""
    return x.permute(0, 3, 1, 2)


def _last(x: Any) -> Any:
    return x.permute(0, 2, 3, 1)


def _depthwise(k: int, stride: int) -> Callable[..., Any]:
    """With the bias and the activation of EfficientNet, in float32 as exporters write it."""

    def build(e: Any, x: Any, w: Any, b: Any) -> Any:
        dtype = str(x.ty.dtype)
        y = e(nn.conv2d(x, w, strides=stride, padding=k // 2, groups=int(x.ty.shape[-1]),
                        data_layout="NHWC", kernel_layout="HWOI", out_dtype="float32"))  # fmt: skip
        y = e(op.add(y, b))
        return e(op.astype(e(nn.silu(y)), dtype))

    return build


def _depthwise_in_torch(k: int, stride: int) -> Callable[..., Any]:
    def torch(F: Any, x: Any, w: Any, b: Any) -> Any:
        y = F.conv2d(
            _pixels(x), w.permute(2, 3, 0, 1), b.to(x.dtype), stride, k // 2, groups=x.shape[-1]
        )
        return F.silu(_last(y))

    return torch


KERNELS: list[Kernel] = []


def _add(kind: str, name: str, build: Any, torch: Any, *shapes: Shape, **more: Any) -> None:
    KERNELS.append(Kernel(kind, name, build, torch, shapes, **more))


ALL = ("float16", "bfloat16", "float32")


BIG = (8192, 2048)


def _types(shape: Shape) -> tuple[str, ...]:
    return ALL if shape in (BIG, (16384, 1024), (8, 2048, 1024)) else ("float16",)


s: Shape
for s in (BIG, (32, 197, 3072), (197, 3072), (4096, 3072)):
    _add("elementwise", "bias, GELU", lambda e, x, b: e(nn.gelu(e(op.add(x, b)))),
         lambda F, x, b: F.gelu(x + b), s, s[-1:], types=_types(s))  # fmt: skip
_add("elementwise", "SiLU, product", lambda e, x, y: e(op.multiply(e(nn.silu(x)), y)),
     lambda F, x, y: F.silu(x) * y, BIG, BIG)  # fmt: skip
for s in (BIG, (32, 56, 56, 256), (1, 56, 56, 256)):
    _add("elementwise", "residual, ReLU", lambda e, x, y: e(nn.relu(e(op.add(x, y)))),
         lambda F, x, y: F.relu(x + y), s, s, types=_types(s))  # fmt: skip
_add("elementwise", "cast to float32", lambda e, x: e(op.astype(x, "float32")),
     lambda F, x: x.float(), BIG)  # fmt: skip
_add("elementwise", "scale of channels", lambda e, x, s: e(op.multiply(x, e(op.sigmoid(s)))),
     lambda F, x, s: x * F.sigmoid(s), (32, 56, 56, 144), (32, 1, 1, 144))  # fmt: skip
for s in (BIG, (32, 197, 768), (197, 768), (4096, 768), (128, 768), (4096, 4096)):
    _add("norm", "layer norm", lambda e, x, w, b: e(_norm(x, w, b)),
         lambda F, x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-5),
         s, s[-1:], s[-1:], types=_types(s))  # fmt: skip
for s in (BIG, (32, 197, 768)):
    _add("norm", "residual, layer norm", lambda e, x, r, w, b: e(_norm(e(op.add(x, r)), w, b)),
         lambda F, x, r, w, b: F.layer_norm(x + r, x.shape[-1:], w, b, 1e-5),
         s, s, s[-1:], s[-1:])  # fmt: skip
for s in (BIG, (4096, 4096), (1, 4096)):
    _add("norm", "RMS norm", lambda e, x, w: e(nn.rms_norm(x, w, axes=[-1], epsilon=1e-5)),
         lambda F, x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5), s, s[-1:])  # fmt: skip
_add("norm", "group norm NCHW", _group("NCHW"), lambda F, x, w, b: F.group_norm(x, 32, w, b),
     (16, 320, 64, 64), (320,), (320,))  # fmt: skip
_add("norm", "group norm NHWC", _group("NHWC"),
     lambda F, x, w, b: _last(F.group_norm(_pixels(x), 32, w, b)),
     (16, 64, 64, 320), (320,), (320,))  # fmt: skip
_add("norm", "group norm NHWC", _group("NHWC"),
     lambda F, x, w, b: _last(F.group_norm(_pixels(x), 32, w, b)),
     (1, 64, 64, 320), (320,), (320,))  # fmt: skip
_add("norm", "instance norm NHWC", lambda e, x, w, b: e(nn.instance_norm(
        x, w, b, channel_axis=3, axes=[1, 2], epsilon=1e-5)),
     lambda F, x, w, b: _last(F.instance_norm(_pixels(x), None, None, w, b)),
     (16, 128, 128, 64), (64,), (64,))  # fmt: skip
for s in ((32, 64, 56, 56), (2, 64, 56, 56)):
    _add("norm", "layer norm of images", lambda e, x, w, b: e(nn.layer_norm(
            x, w, b, axes=[1, 2, 3], epsilon=1e-5)),
         lambda F, x, w, b: F.layer_norm(x, x.shape[1:], w, b, 1e-5), s, s[1:], s[1:])  # fmt: skip
for s in ((16384, 1024), (32, 12, 197, 197), (12, 197, 197), (32, 12, 128, 128)):
    _add("softmax", "softmax", lambda e, x: e(nn.softmax(x)), lambda F, x: F.softmax(x, -1), s,
         types=_types(s))  # fmt: skip
_add("softmax", "mask, softmax", lambda e, x, m: e(nn.softmax(e(op.add(x, m)))),
     lambda F, x, m: F.softmax(x + m, -1), (32, 12, 128, 128), (32, 1, 1, 128))  # fmt: skip
for s in ((64, 128, 2048), (8, 21, 512, 512)):
    _add("softmax", "softmax, other axis", lambda e, x: e(nn.softmax(x, axis=1)),
         lambda F, x: F.softmax(x, 1), s)  # fmt: skip
_add("softmax", "log softmax", lambda e, x: e(nn.log_softmax(x)),
     lambda F, x: F.log_softmax(x, -1), (512, 32000))  # fmt: skip
_add("softmax", "log softmax, other axis", lambda e, x: e(nn.log_softmax(x, axis=1)),
     lambda F, x: F.log_softmax(x, 1), (8, 21, 512, 512))  # fmt: skip
for s in ((8, 2048, 1024), (32, 197, 768), (32, 3136, 256)):
    _add("transpose", "permute 0, 2, 1", lambda e, x: e(op.permute_dims(x, [0, 2, 1])),
         lambda F, x: x.permute(0, 2, 1).contiguous(), s, types=_types(s))  # fmt: skip
_add("transpose", "heads", lambda e, x: e(op.permute_dims(x, [0, 2, 1, 3])),
     lambda F, x: x.permute(0, 2, 1, 3).contiguous(), (32, 197, 12, 64))  # fmt: skip
_add("transpose", "NCHW to NHWC", lambda e, x: e(op.permute_dims(x, [0, 2, 3, 1])),
     lambda F, x: _last(x).contiguous(), (32, 256, 56, 56))  # fmt: skip
_add("transpose", "image to NHWC", lambda e, x: e(op.permute_dims(x, [0, 2, 3, 1])),
     lambda F, x: _last(x).contiguous(), (32, 3, 224, 224))  # fmt: skip
_add("transpose", "image to NHWC, 4 channels", lambda e, x: e(nn.pad(
        e(op.permute_dims(x, [0, 2, 3, 1])), [0, 0, 0, 0, 0, 0, 0, 1])),
     lambda F, x: F.pad(_last(x), (0, 1)), (32, 3, 224, 224))  # fmt: skip
_add("transpose", "patches", lambda e, x: e(op.permute_dims(e(op.reshape(
        x, (32, 3, 14, 16, 14, 16))), [0, 2, 4, 1, 3, 5])),
     lambda F, x: x.reshape(32, 3, 14, 16, 14, 16).permute(0, 2, 4, 1, 3, 5).contiguous(),
     (32, 3, 224, 224))  # fmt: skip
for s in (BIG, (32, 2048)):
    _add("reduction", "sum of rows", lambda e, x: e(op.sum(x, [-1])), lambda F, x: x.sum(-1), s,
         types=_types(s))  # fmt: skip
for s in (BIG, (65536, 320)):
    _add("reduction", "sum of columns", lambda e, x: e(op.sum(x, [0])), lambda F, x: x.sum(0), s,
         types=_types(s))  # fmt: skip
_add("reduction", "max of all", lambda e, x: e(op.max(x)), lambda F, x: x.max(), BIG, types=ALL)
_add("reduction", "sum of all", lambda e, x: e(op.sum(x)), lambda F, x: x.sum(), BIG,
     types=("float32",))  # fmt: skip
_add("reduction", "variance of all", lambda e, x: e(op.variance(x)),
     lambda F, x: x.var(correction=0), BIG, types=("float32",))  # fmt: skip
_add("reduction", "sum of rows", lambda e, x: e(op.sum(x, [-1])), lambda F, x: x.sum(-1),
     (16, 1 << 20), types=("float32",))  # fmt: skip
_add("reduction", "mean of a batch NCHW", lambda e, x: e(op.mean(x, [0, 2, 3])),
     lambda F, x: x.mean((0, 2, 3)), (32, 64, 112, 112), types=("float32",))  # fmt: skip
_add("reduction", "mean of a batch NHWC", lambda e, x: e(op.mean(x, [0, 1, 2])),
     lambda F, x: x.mean((0, 1, 2)), (32, 112, 112, 64), types=("float32",))  # fmt: skip
for b in (32, 1):
    for size, channels in ((7, 2048), (56, 144)):
        _add("reduction", "mean of pixels NHWC", lambda e, x: e(op.mean(x, [1, 2])),
             lambda F, x: x.mean((1, 2)), (b, size, size, channels))  # fmt: skip
for s in ((32, 2048, 7, 7), (32, 256, 56, 56)):
    _add("reduction", "mean of pixels NCHW", lambda e, x: e(op.mean(x, [2, 3])),
         lambda F, x: x.mean((2, 3)), s)  # fmt: skip
for b in (32, 1):
    _add("window", "max pool NHWC", lambda e, x: e(nn.max_pool2d(
            x, (3, 3), (2, 2), padding=(1, 1), layout="NHWC")),
         lambda F, x: _last(F.max_pool2d(_pixels(x), 3, 2, 1)), (b, 112, 112, 64))  # fmt: skip
for k, stride, s in ((3, 1, (32, 56, 56, 144)), (3, 2, (32, 112, 112, 96)),
                     (5, 1, (32, 14, 14, 672)), (5, 2, (32, 56, 56, 144)),
                     (5, 1, (32, 28, 28, 240)), (7, 1, (32, 56, 56, 96)),
                     (7, 1, (32, 14, 14, 384))):  # fmt: skip
    _add(
        "window",
        f"depthwise {k}x{k}, stride {stride} NHWC",
        _depthwise(k, stride),
        _depthwise_in_torch(k, stride),
        s,
        (k, k, s[-1], 1),
        s[-1:],
        dtypes=("", "", "float32"),
        types=ALL if k == 5 and stride == 1 else ("float16",),
    )
_add("movement", "embedding", lambda e, i, t: e(op.take(t, i, axis=0)),
     lambda F, i, t: t[i], (32, 512), (30522, 768), dtypes=("int64", ""))  # fmt: skip
_add("movement", "concat of tokens", lambda e, x, y: e(op.concat([x, y], axis=1)),
     lambda F, x, y: F.cat([x, y], 1), (32, 1, 768), (32, 196, 768))  # fmt: skip
_add("movement", "pad NHWC", lambda e, x: e(nn.pad(x, [0, 0, 1, 1, 1, 1, 0, 0])),
     lambda F, x: F.pad(x, (0, 0, 1, 1, 1, 1)), (32, 56, 56, 256))  # fmt: skip
_add("movement", "slice of last axis", lambda e, x: e(op.strided_slice(x, [2], [768], [1536])),
     lambda F, x: x[..., 768:1536].contiguous(), (32, 197, 2304))  # fmt: skip
for s in ((512, 32000), (1, 128256)):
    _add("search", "argmax of rows", lambda e, x: e(op.argmax(x, -1)),
         lambda F, x: x.argmax(-1), s)  # fmt: skip
_add("search", "argmax of all", lambda e, x: e(op.argmax(x)), lambda F, x: x.argmax(), BIG)
_add("search", "argmax of classes", lambda e, x: e(op.argmax(x, 1)), lambda F, x: x.argmax(1),
     (8, 21, 512, 512))  # fmt: skip


for name, kind in (("residual, ReLU", "elementwise"), ("bias, GELU", "elementwise"),
                   ("residual, layer norm", "norm"), ("softmax", "softmax"),
                   ("permute 0, 2, 1", "transpose"), ("argmax of rows", "search")):  # fmt: skip
    of = next(k for k in KERNELS if (k.kind, k.name) == (kind, name))
    KERNELS.append(replace(of, name=f"{name}, symbolic", types=("float16",), symbolic=True))


def module(kernel: Kernel, dtype: str) -> Any:
    """The Relax module of a kernel; inputs are of ``dtype`` where the kernel says nothing else."""
    types = [t or dtype for t in kernel.dtypes] or [dtype] * len(kernel.shapes)
    rows = tirx.Var("n", "int64")
    xs = []
    for k, (s, t) in enumerate(zip(kernel.shapes, types, strict=True)):
        symbolic = kernel.symbolic and len(s) > 1
        xs.append(relax.Var(f"x{k}", relax.TensorType((rows, *s[1:]) if symbolic else s, t)))
    builder = relax.BlockBuilder()
    with builder.function("main", xs):
        with builder.dataflow():
            out = builder.emit_output(kernel.build(builder.emit, *xs))
        builder.emit_func_output(out)
    return builder.get()
