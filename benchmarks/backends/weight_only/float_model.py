"""A Llama-like model in float32 that reads a prompt or makes a step: opinfo and its peers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.backends.weight_only.decode import (
    HEADS,
    INNER,
    QUERIES,
    SHARED,
    SIZE,
    WIDTH,
    Net,
    OnnxOps,
    RelaxOps,
    TorchOps,
    onnx_step,
    relax_step,
    torch_step,
)
from benchmarks.backends.weight_only.nbits_peers import Array
from benchmarks.backends.weight_only.read_bytes import loops
from benchmarks.common.resources import Call

LAYERS, TOKENS, LENGTH = 4, 8000, 128


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
        return [self.rng.standard_normal((LENGTH, WIDTH)).astype("float32")]

    def step(self, ops: Any, inputs: Sequence[Any]) -> list[Any]:
        """The logits of all tokens, then the keys and values of each layer."""
        (hidden,) = inputs
        angle = np.arange(LENGTH)[:, None] / 10000 ** (np.arange(SIZE // 2) * 2 / SIZE)
        cos, sin = (np.tile(f(angle), 2).astype("float32").reshape(1, LENGTH, SIZE)
                    for f in (np.cos, np.sin))  # fmt: skip
        mask = np.triu(np.full((LENGTH, LENGTH), -1e9, "float32"), 1).reshape(1, 1, LENGTH, LENGTH)

        def heads(x: Any, count: int) -> Any:
            return ops.transpose(ops.reshape(x, [LENGTH, count, SIZE]), [1, 0, 2])

        def turned(x: Any) -> Any:
            low, high = ops.split(x, [SIZE // 2] * 2, 2)
            minus = ops.constant(-np.ones((1, 1, 1), "float32"))
            other = ops.multiply(ops.concat([ops.multiply(high, minus), low], 2), ops.constant(sin))
            return ops.add(ops.multiply(x, ops.constant(cos)), other)

        new = []
        for layer in range(self.layers):
            joint = ops.product(ops.norm(hidden), 4 * layer)
            q, k, v = ops.split(joint, [WIDTH, SHARED * SIZE, SHARED * SIZE], 1)
            q, k, v = turned(heads(q, HEADS)), turned(heads(k, SHARED)), heads(v, SHARED)
            new += [k, v]
            q = ops.reshape(q, [SHARED, QUERIES, LENGTH, SIZE])
            k, v = (ops.reshape(x, [SHARED, 1, LENGTH, SIZE]) for x in (k, v))
            read = ops.reshape(ops.attention(q, k, v, mask), [HEADS, LENGTH, SIZE])
            read = ops.reshape(ops.transpose(read, [1, 0, 2]), [LENGTH, WIDTH])
            hidden = ops.add(hidden, ops.product(read, 4 * layer + 1))
            gate, up = ops.split(ops.product(ops.norm(hidden), 4 * layer + 2), [INNER] * 2, 1)
            inner = ops.multiply(ops.multiply(gate, ops.sigmoid(gate)), up)
            hidden = ops.add(hidden, ops.product(inner, 4 * layer + 3))
        return [ops.product(ops.norm(hidden), 4 * self.layers), *new]


def _attention(ops: Any, q: Any, k: Any, v: Any, mask: Array) -> Any:
    scores = ops.matmul(q, ops.transpose(k, [0, 1, 3, 2]))
    scale = ops.constant(np.full((1, 1, 1, 1), SIZE**-0.5, "float32"))
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

    def attention(self, q: Any, k: Any, v: Any, mask: Array) -> Any:
        function = self.torch.nn.functional.scaled_dot_product_attention
        k, v = (x.expand(-1, QUERIES, -1, -1) for x in (k, v))
        return function(q, k, v, attn_mask=self.torch.from_numpy(mask))


def float_rows(
    threads: int, rounds: int, timed: Callable[[Sequence[Call], int, int], list[float]]
) -> list[FloatRow]:
    """Rows for a step and for a prompt, which are printed as they come."""
    out = []
    for what, kind in (("a step in float32", Net), (f"{LENGTH} tokens in float32", Prompt)):
        net = kind(np.random.default_rng(0), LAYERS, TOKENS)
        weights = [w.floats for w in net.products]
        ours, summary = relax_step(net, lambda emit, w=weights: FloatRelax(emit, w))
        read = loops(threads)[0](np.ones(sum(w.nbytes for w in weights) // 8, "uint64"))
        calls = {"ours": ours, "read": read, "onnx": onnx_step(net, FloatOnnx(weights), threads),
                 "torch": torch_step(net, FloatTorch(weights))}  # fmt: skip
        times = dict(zip(calls, timed(list(calls.values()), rounds, threads), strict=True))
        actual, expected = ours(), calls["torch"]()
        apart = float(abs(actual - expected).max() / abs(expected).max())
        out.append(FloatRow(what, **times, apart=apart, summary=summary))
        print(out[-1].as_line(), flush=True)
    return out
