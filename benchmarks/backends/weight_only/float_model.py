"""A Llama-like model in float32 that reads a prompt or makes a step: opinfo and its peers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.backends.weight_only.decode import (
    LLAMA,
    Net,
    Sizes,
    onnx_step,
    relax_step,
    torch_step,
)
from benchmarks.backends.weight_only.nbits_peers import Array
from benchmarks.backends.weight_only.read_bytes import loops
from benchmarks.backends.weight_only.step_operators import OnnxOps, RelaxOps, TorchOps
from benchmarks.common.resources import Call

LAYERS, TOKENS = 4, 8000
#: Models by name; the first has 107 million parameters.
MODELS = {
    "llama": LLAMA,
    "qwen": Sizes(896, 4864, 14, 2, 64, biased=True),
    "gemma": Sizes(1536, 6144, 6, 1, 256),
}


@dataclass(frozen=True)
class FloatRow:
    """Milliseconds, and how far the results are apart from torch's, relative to the largest."""

    what: str
    ours: float
    read: float
    onnx: float
    torch: float
    apart: float
    summary: str

    def as_line(self) -> str:
        return (f"{self.what}: {self.ours:.2f} ms (reading the weights {self.read:.2f}), "
                f"{self.ours / self.onnx:.2f} × ONNX Runtime, "
                f"{self.ours / self.torch:.2f} × torch; apart from torch {self.apart:.1e}; "
                f"{self.summary}")  # fmt: skip


@dataclass
class Prompt(Net):
    """The model with a prompt instead of a token, and an empty cache."""

    @cached_property
    def inputs(self) -> list[Array]:
        """The embeddings of the tokens."""
        return [self.rng.standard_normal((self.past, self.sizes.width)).astype("float32")]

    def step(self, ops: Any, inputs: Sequence[Any]) -> list[Any]:
        """The logits of all tokens, then the keys and values of each layer."""
        (hidden,) = inputs
        s, length, new = self.sizes, self.past, []
        mask = np.triu(np.full((length, length), -1e9, "float32"), 1)[None, None]

        def heads(x: Any, count: int) -> Any:
            return ops.transpose(ops.reshape(x, [length, count, s.size]), [1, 0, 2])

        for layer in range(self.layers):
            q, k, v = self.joint(ops, hidden, layer)
            q, k = (self.turned(ops, heads(x, count), np.arange(length))
                    for x, count in ((q, s.heads), (k, s.shared)))  # fmt: skip
            v = heads(v, s.shared)
            new += [k, v]
            q = ops.reshape(q, [s.shared, s.queries, length, s.size])
            k, v = (ops.reshape(x, [s.shared, 1, length, s.size]) for x in (k, v))
            read = ops.reshape(ops.attention(q, k, v, mask, s.size), [s.heads, length, s.size])
            read = ops.reshape(ops.transpose(read, [1, 0, 2]), [length, s.width])
            hidden = self.after_attention(ops, hidden, read, layer)
        return [ops.product(ops.norm(hidden, self.sizes.width), 4 * self.layers), *new]


def _attention(ops: Any, q: Any, k: Any, v: Any, mask: Array, size: int) -> Any:
    scores = ops.matmul(q, ops.transpose(k, [0, 1, 3, 2]))
    scale = ops.constant(np.full((1, 1, 1, 1), size**-0.5, "float32"))
    return ops.matmul(ops.softmax(ops.add(ops.multiply(scores, scale), ops.constant(mask))), v)


class FloatRelax(RelaxOps):
    attention = _attention

    def product(self, x: Any, k: int) -> Any:
        weights = self.emit(self.op.permute_dims(self.relax.const(self.products[k])))
        return self.emit(self.op.matmul(x, weights))

    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        return self.emit(self.op.permute_dims(x, list(axes)))


class FloatOnnx(OnnxOps):
    attention = _attention

    def product(self, x: str, k: int) -> str:
        return str(self.node("MatMul", x, self.constant(np.ascontiguousarray(self.products[k].T))))

    def transpose(self, x: str, axes: Sequence[int]) -> str:
        return str(self.node("Transpose", x, perm=list(axes)))


class FloatTorch(TorchOps):
    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        return x.permute(*axes)

    def attention(self, q: Any, k: Any, v: Any, mask: Array, size: int) -> Any:
        function = self.torch.nn.functional.scaled_dot_product_attention
        k, v = (x.expand(-1, q.shape[1], -1, -1) for x in (k, v))
        return function(q, k, v, attn_mask=self.torch.from_numpy(mask), scale=size**-0.5)


def float_rows(
    threads: int, rounds: int, timed: Callable[[Sequence[Call], int, int], list[float]],
    tokens: Sequence[int] = (128,), models: Sequence[str] = ("llama",),
) -> list[FloatRow]:  # fmt: skip
    """Rows for a step and for a prompt of each length, which are printed as they come."""
    out = []
    for name, count in itertools.product(models, tokens):
        for what, kind in ((f"a step after {count} tokens", Net), (f"{count} tokens", Prompt)):
            net = kind(np.random.default_rng(0), LAYERS, TOKENS, MODELS[name], count)
            out.append(float_row(f"{name}, {what} in float32", net, threads, rounds, timed))
            print(out[-1].as_line(), flush=True)
    return out


def float_row(
    what: str, net: Net, threads: int, rounds: int,
    timed: Callable[[Sequence[Call], int, int], list[float]],
) -> FloatRow:  # fmt: skip
    weights = [w.floats for w in net.products]
    ours, summary = relax_step(net, lambda emit: FloatRelax(emit, weights), threads)
    read = loops(threads)[0](np.ones(sum(w.nbytes for w in weights) // 8, "uint64"))
    calls = {"ours": ours, "read": read, "onnx": onnx_step(net, FloatOnnx(weights), threads),
             "torch": torch_step(net, FloatTorch(weights))}  # fmt: skip
    times = dict(zip(calls, timed(list(calls.values()), rounds, threads), strict=True))
    actual, expected = ours(), calls["torch"]()
    apart = float(abs(actual - expected).max() / abs(expected).max())
    return FloatRow(what, **times, apart=apart, summary=summary)
