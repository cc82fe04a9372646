"""Regions of models for NVIDIA's libraries, as graphs of Relax and as functions of torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import relax

from benchmarks.backends.nvidia_graphs import GRAPHS
from benchmarks.gpu.attention_graphs import attention_graph

op = relax.op


@dataclass(frozen=True)
class RegionCase:
    """A graph whose first tensors are inputs and whose others are weights.

    Attributes:
        name: The case, without the dtype.
        kind: ``attention``, or the key of `GRAPHS`.
        dtype: Of all tensors.
        shapes: Of all tensors.
        inputs: How many of them are inputs.
        build: Emits the graph.
        options: What `torch` needs to do the same.
    """

    name: str
    kind: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    inputs: int
    build: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)

    def arrays(self) -> list[Any]:
        """The tensors as float32 arrays; values of results are about 1."""
        rng = np.random.default_rng(0)
        return [rng.standard_normal(s).astype("float32") / np.float32(s[-1] ** 0.5)
                for s in self.shapes]  # fmt: skip


def convolutions() -> Iterator[RegionCase]:
    """Convolutions of real nets, from ResNet-50 to ViT, at batch sizes 1 and 32."""
    for dtype in ("float16", "float32"):
        for name, kind, x, w, more in _convolutions():
            if dtype == "float32" and kind not in ("conv", "residual"):
                continue
            bias = (1, w[0 if kind != "transposed" else 1], 1, 1) if more == "NCHW" else (w[0],)
            residual = ((*x[:3], w[0]),) if kind == "residual" else ()
            shapes = (x, *residual, w, bias)
            yield RegionCase(name, kind, dtype, shapes, len(shapes) - 2, _reordered(kind))


def _convolutions() -> Iterator[tuple[str, str, tuple[int, ...], tuple[int, ...], str]]:
    for n in (1, 32):
        yield f"3x3, 64 of 56x56, batch {n}", "conv", (n, 56, 56, 64), (64, 3, 3, 64), ""
        yield f"3x3, 256 of 14x14, batch {n}", "conv", (n, 14, 14, 256), (256, 3, 3, 256), ""
        yield f"1x1, 256 to 1024, batch {n}", "conv", (n, 14, 14, 256), (1024, 1, 1, 256), ""
        yield (f"1x1 with residual, batch {n}", "residual", (n, 56, 56, 64), (256, 1, 1, 64), "")
        yield f"stem 7x7, batch {n}", "stem", (n, 224, 224, 3), (64, 7, 7, 3), ""
        yield f"patches 16x16, batch {n}", "patches", (n, 224, 224, 3), (768, 16, 16, 3), ""
        yield f"1x1 and SiLU, batch {n}", "silu", (n, 56, 56, 96), (24, 1, 1, 96), ""
        yield (f"1x1 and hard swish, batch {n}", "hard swish", (n, 14, 14, 112),
               (672, 1, 1, 112), "")  # fmt: skip
        yield (f"depthwise 3x3, batch {n}", "depthwise", (n, 56, 56, 128), (128, 3, 3, 1), "")
        yield (f"depthwise 7x7, batch {n}", "depthwise", (n, 56, 56, 96), (96, 7, 7, 1), "")
        for size, groups, channels in ((56, 32, 4), (28, 32, 8), (28, 9, 24), (14, 24, 24),
                                       (14, 32, 32), (56, 1, 18), (28, 1, 36)):  # fmt: skip
            yield (f"3x3, {groups} groups of {channels}, {size}x{size}, batch {n}", "grouped",
                   (n, size, size, groups * channels), (groups * channels, 3, 3, channels),
                   "")  # fmt: skip
        yield (f"transposed 4x4, batch {n}", "transposed", (n, 256, 32, 32), (256, 128, 4, 4),
               "NCHW")  # fmt: skip


def _reordered(kind: str) -> Callable[..., Any]:
    """The graph of inputs before weights."""
    if kind == "residual":
        return lambda emit, x, z, w, b: GRAPHS[kind](emit, x, w, b, z)
    return GRAPHS[kind]


def products() -> Iterator[RegionCase]:
    """Linear layers of transformers: the rows of batch sizes 1 and 32 with 128 tokens."""
    for rows, (k, n) in itertools.product((128, 4096), ((768, 2304), (768, 3072), (3072, 768))):
        for residual in (False, True):
            if residual != (n == 768):
                continue
            shapes = ((rows, k), *[(rows, n)] * residual, (k, n), (n,))
            name = f"{rows}x{k}x{n}{' with residual' * residual}"
            yield RegionCase(name, "product", "float16", shapes, len(shapes) - 2, _product)


def _product(emit: Any, x: Any, *rest: Any) -> Any:
    *residual, w, bias = rest
    y = emit(op.matmul(x, w, out_dtype="float32"))
    y = emit(op.astype(emit(op.add(y, emit(op.astype(bias, "float32")))), "float16"))
    for z in residual:
        wide = [emit(op.astype(t, "float32")) for t in (y, z)]
        y = emit(op.astype(emit(op.add(*wide)), "float16"))
    return y


def attentions() -> Iterator[RegionCase]:
    """Attention of BERT, ViT, GPT-2 and Llama; heads are views of one tensor."""
    for b, (s, kind) in itertools.product((1, 32), ((128, ""), (197, ""), (128, "mask"),
                                                    (1024, "causal"))):  # fmt: skip
        yield _attention(attention_graph, b, 12, 12, s, 64, kind)
    for b in (1, 4):
        yield _attention(attention_graph, b, 32, 8, 1024, 128, "causal")


def _attention(graph: Any, b: int, h: int, kv: int, s: int, d: int, kind: str) -> RegionCase:
    heads = f"{h}" if h == kv else f"{h}/{kv}"
    name = f"{b} x {heads} heads, {s} positions of {d}{', ' * bool(kind)}{kind}"
    options = {"b": b, "h": h, "kv": kv, "s": s, "d": d, "kind": kind}
    build = graph("float16", **options)
    shapes = ((b * s, (h + 2 * kv) * d),)
    return RegionCase(name, "attention", "float16", shapes, 1, build, options)


def cases() -> list[RegionCase]:
    """All cases."""
    return [*convolutions(), *products(), *attentions()]
