"""A step of a Llama-like model, written once for Relax, ONNX and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.backends.weight_only.nbits_peers import (
    Array,
    Weights,
    onnx_session,
)
from benchmarks.backends.weight_only.step_operators import OnnxOps, RelaxOps, TorchOps
from benchmarks.common.resources import Call

LAYERS, TOKENS, PAST = 18, 32000, 128


@dataclass(frozen=True)
class Sizes:
    """The sizes of a layer: heads of queries, heads of keys that these share, elements of a head.

    ``biased``: queries, keys and values have a bias.
    """

    width: int
    inner: int
    heads: int
    shared: int
    size: int
    biased: bool = False

    @property
    def queries(self) -> int:
        """The heads of queries that share one of keys."""
        return self.heads // self.shared


#: 502 million weights in products with `LAYERS` layers.
LLAMA = Sizes(1536, 4096, 24, 8, 64)


@dataclass(frozen=True)
class DecodeRow:
    """Milliseconds of a step, and how far its logits are apart, relative to the largest."""

    parameters: int
    ours: float
    read: float
    copy: float
    nbits: float
    nbits_4: float
    torch: float
    apart: float
    apart_nbits: float
    apart_nbits_4: float
    summary: str

    def as_line(self) -> str:
        return (f"{self.parameters / 1e6:.0f} million weights: {self.ours:.2f} ms a token, "
                f"{self.read / self.ours:.0%} of the bandwidth of reading ({self.read:.2f} ms), "
                f"{self.copy / self.ours:.0%} of that of copying ({self.copy:.2f} ms); "
                f"{self.ours / self.torch:.2f} × torch, {self.ours / self.nbits:.2f} × nbits, "
                f"{self.ours / self.nbits_4:.2f} × nbits at level 4; apart from torch "
                f"{self.apart:.1e}, nbits {self.apart_nbits:.1e}, at level 4 "
                f"{self.apart_nbits_4:.1e}; {self.summary}")  # fmt: skip


@dataclass
class Net:
    """The weights and inputs of the model."""

    rng: np.random.Generator
    layers: int = LAYERS
    tokens: int = TOKENS
    sizes: Sizes = LLAMA
    past: int = PAST

    @cached_property
    def products(self) -> list[Weights]:
        s = self.sizes
        shapes = [(s.width + 2 * s.shared * s.size, s.width), (s.width, s.width),
                  (2 * s.inner, s.width), (s.width, s.inner)] * self.layers  # fmt: skip
        shapes.append((self.tokens, s.width))
        return [Weights.random(n, k, self.rng) for n, k in shapes]

    @cached_property
    def inputs(self) -> list[Array]:
        """The embedding of the token, then keys and values of each layer."""
        s = self.sizes
        caches = [(s.shared, s.size, self.past), (s.shared, self.past, s.size)]
        shapes = [(1, s.width), *caches * self.layers]
        return [self.rng.standard_normal(s).astype("float32") for s in shapes]

    def joint(self, ops: Any, hidden: Any, layer: int) -> list[Any]:
        """Queries, keys and values of all heads."""
        s = self.sizes
        joint = ops.product(ops.norm(hidden, self.sizes.width), 4 * layer)
        parts = [s.width, s.shared * s.size, s.shared * s.size]
        if s.biased:
            bias = np.cos(np.arange(sum(parts), dtype="float32") + layer).reshape(1, -1)
            joint = ops.add(joint, ops.constant(bias))
        return list(ops.split(joint, parts, 1))

    def turned(self, ops: Any, x: Any, positions: Array) -> Any:
        """Heads of shape (heads, positions, size), rotated by their positions."""
        half = self.sizes.size // 2
        angle = positions[:, None] / 10000 ** (np.arange(half) / half)
        cos, sin = (np.tile(f(angle), 2).astype("float32")[None] for f in (np.cos, np.sin))
        low, high = ops.split(x, [half] * 2, 2)
        minus = ops.constant(-np.ones((1, 1, 1), "float32"))
        other = ops.multiply(ops.concat([ops.multiply(high, minus), low], 2), ops.constant(sin))
        return ops.add(ops.multiply(x, ops.constant(cos)), other)

    def after_attention(self, ops: Any, hidden: Any, read: Any, layer: int) -> Any:
        """The result of a layer from what its heads read."""
        hidden = ops.add(hidden, ops.product(read, 4 * layer + 1))
        both = ops.product(ops.norm(hidden, self.sizes.width), 4 * layer + 2)
        gate, up = ops.split(both, [self.sizes.inner] * 2, 1)
        inner = ops.multiply(ops.multiply(gate, ops.sigmoid(gate)), up)
        return ops.add(hidden, ops.product(inner, 4 * layer + 3))

    def step(self, ops: Any, inputs: Sequence[Any]) -> list[Any]:
        """The logits, then the new key and value of each layer."""
        hidden, *caches = inputs
        s, new = self.sizes, []
        for layer in range(self.layers):
            keys, values = caches[2 * layer : 2 * layer + 2]
            q, k, v = self.joint(ops, hidden, layer)
            q, k = (self.turned(ops, ops.reshape(x, [s.shared, count, s.size]),
                                np.asarray([self.past]))
                    for x, count in ((q, s.queries), (k, 1)))  # fmt: skip
            v = ops.reshape(v, [s.shared, 1, s.size])
            new += [k, v]
            own = ops.matmul(q, ops.reshape(k, [s.shared, s.size, 1]))
            scores = ops.concat([ops.matmul(q, keys), own], 2)
            scale = ops.constant(np.full((1, 1, 1), s.size**-0.5, "float32"))
            weights = ops.softmax(ops.multiply(scores, scale))
            past, last = ops.split(weights, [self.past, 1], 2)
            read = ops.add(ops.matmul(past, values), ops.multiply(last, v))
            hidden = self.after_attention(ops, hidden, ops.reshape(read, [1, s.width]), layer)
        return [ops.product(ops.norm(hidden, self.sizes.width), 4 * self.layers), *new]


def decode_row(
    threads: int, rounds: int, timed: Callable[[Sequence[Call], int, int], list[float]]
) -> DecodeRow:
    from benchmarks.backends.weight_only.read_bytes import loops

    net = Net(np.random.default_rng(0))
    size = sum(w.size for w in net.products)
    ours, summary = relax_step(net, lambda emit: RelaxOps(emit, net.products), threads)
    read, copy = (make(np.ones(size // 8, "uint64")) for make in loops(threads))
    nbits, nbits_4 = (onnx_step(net, OnnxOps(net.products, level), threads) for level in (0, 4))
    torch = torch_step(net, TorchOps([w.floats for w in net.products]))
    calls = {"ours": ours, "read": read, "copy": copy, "nbits": nbits, "nbits_4": nbits_4,
             "torch": torch}  # fmt: skip
    times = dict(zip(calls, timed(list(calls.values()), rounds, threads), strict=True))
    logits = {name: call() for name, call in calls.items() if name not in ("read", "copy")}
    exact = logits["torch"]

    def apart(name: str) -> float:
        return float(abs(logits[name] - exact).max() / abs(exact).max())

    count = sum(w.values.size for w in net.products)
    return DecodeRow(count, **times, apart=apart("ours"), apart_nbits=apart("nbits"),
                     apart_nbits_4=apart("nbits_4"), summary=summary)  # fmt: skip


def relax_step(net: Net, ops: Callable[[Any], RelaxOps], threads: int) -> tuple[Call, str]:
    """A call of the model as opinfo compiles it for some threads, and what goes where."""
    import tvm
    from tvm import relax

    import opinfo
    from opinfo.byoc.codegen.host_target import native_target

    names = [relax.Var(f"x{k}", relax.TensorType(x.shape, "float32"))
             for k, x in enumerate(net.inputs)]  # fmt: skip
    builder = relax.BlockBuilder()
    with builder.function("main", names):
        with builder.dataflow():
            results = net.step(ops(builder.emit), names)
            out = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(out)
    compiled = opinfo.compile(builder.get(), target=native_target(threads))
    library = tvm.runtime.load_module(str(compiled.library))
    machine = relax.VirtualMachine(library, tvm.cpu())
    arguments = [tvm.runtime.tensor(x) for x in net.inputs]
    assert compiled.dispatched is not None
    summary = "; ".join(filter(None, (compiled.dispatched.summary(), compiled.kept)))
    return lambda: machine["main"](*arguments)[0].numpy(), summary


def onnx_step(net: Net, ops: OnnxOps, threads: int) -> Call:
    from onnx import TensorProto, helper

    names = [f"x{k}" for k in range(len(net.inputs))]
    results = net.step(ops, names)
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape)
              for n, x in zip(names, net.inputs, strict=True)]  # fmt: skip
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results]
    session = onnx_session(ops.nodes, ops.constants, inputs, outputs, threads)
    feed = dict(zip(names, net.inputs, strict=True))
    return lambda: session.run(None, feed)[0]


def torch_step(net: Net, ops: TorchOps) -> Call:
    import torch

    torch._dynamo.reset()  # after eight models, the lambda would run without being compiled
    compiled = torch.compile(lambda *inputs: net.step(ops, inputs))
    arguments = list(map(torch.from_numpy, net.inputs))

    def run() -> Any:
        with torch.inference_mode():
            return compiled(*arguments)[0].numpy()

    return run
