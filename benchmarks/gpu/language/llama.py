"""A Llama-like module by `relax.frontend.nn`, as MLC-LLM builds its models, and in torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op, spec
from tvm.relax.frontend.nn.core import wrap_nested

#: Four bits in groups of 32, eight values in a word, as in q4f16_1.
BITS, GROUP, WORD, MIDDLE = 4, 32, 8, 7
HALF = "float16"


@dataclass(frozen=True)
class Sizes:
    """The sizes of Llama 8B, with fewer layers and words."""

    layers: int = 8
    width: int = 4096
    inner: int = 14336
    heads: int = 32
    shared: int = 8
    head: int = 128
    vocabulary: int = 32000
    base: float = 5e5
    epsilon: float = 1e-5


class Linear(nn.Module):
    """A product with a matrix of shape (columns, depth), of float16 or of four bits."""

    def __init__(self, columns: int, depth: int, four_bits: bool) -> None:
        self.four_bits, self.shape = four_bits, (columns, depth)
        if four_bits:
            self.words = nn.Parameter((columns, depth // WORD), "uint32")
            self.scale = nn.Parameter((columns, depth // GROUP), HALF)
        else:
            self.weight = nn.Parameter((columns, depth), HALF)

    def forward(self, x: Any) -> Any:
        if not self.four_bits:
            return op.matmul(x, op.permute_dims(self.weight))
        weight = op.tensor_expr_op(_dequantize, "dequantize", [self.words, self.scale])
        return op.matmul(x, op.permute_dims(weight))


def _dequantize(words: Any, scale: Any) -> Any:
    def value(n: Any, k: Any) -> Any:
        digit = words[n, k // WORD] >> tirx.Cast("uint32", k % WORD * BITS)
        digit = tirx.bitwise_and(digit, tirx.const((1 << BITS) - 1, "uint32"))
        return (tirx.Cast(HALF, digit) - tirx.const(MIDDLE, HALF)) * scale[n, k // GROUP]

    return te.compute((words.shape[0], words.shape[1] * WORD), value, name="dequantize")


class Layer(nn.Module):
    """Attention with shared keys over a cache, and a SwiGLU."""

    def __init__(self, sizes: Sizes, four_bits: bool) -> None:
        self.sizes = s = sizes
        self.qkv = Linear((s.heads + 2 * s.shared) * s.head, s.width, four_bits)
        self.out = Linear(s.width, s.heads * s.head, four_bits)
        self.gate_up = Linear(2 * s.inner, s.width, four_bits)
        self.down = Linear(s.width, s.inner, four_bits)
        self.norms = nn.ModuleList([nn.RMSNorm(s.width, -1, s.epsilon, bias=False, dtype=HALF)
                                    for _ in range(2)])  # fmt: skip

    def forward(self, x: Any, past: Any) -> tuple[Any, Any, Any]:
        read, keys, values = self.attention(self.norms[0](x), past)
        x = x + read
        gate, up = op.split(self.gate_up(self.norms[1](x)), 2, axis=-1)
        return x + self.down(op.silu(gate) * up), keys, values

    def attention(self, x: Any, past: Any) -> tuple[Any, Any, Any]:
        s, count = self.sizes, x.shape[1]
        qkv = op.reshape(self.qkv(x), (1, count, s.heads + 2 * s.shared, s.head))
        q, k, v = op.split(qkv, [s.heads, s.heads + s.shared], 2)
        at = 0 if past is None else past[0].shape[1]
        q, k = self.rotated(q, at), self.rotated(k, at)
        if past is not None:
            k, v = op.concat([past[0], k], 1), op.concat([past[1], v], 1)
        every = [
            op.permute_dims(op.repeat(t, s.heads // s.shared, 2), (0, 2, 1, 3)) for t in (k, v)
        ]
        turned = op.permute_dims(every[0], (0, 1, 3, 2))
        scores = op.matmul(op.permute_dims(q, (0, 2, 1, 3)), turned, out_dtype="float32")
        scores = scores * s.head**-0.5
        if past is None:
            hidden = np.triu(np.full((count, count), np.finfo("float32").min, "float32"), 1)
            scores = scores + wrap_nested(relax.const(hidden), "mask")
        read = op.matmul(op.astype(op.softmax(scores, axis=-1), HALF), every[1])
        read = op.permute_dims(read, (0, 2, 1, 3))
        return self.out(op.reshape(read, (1, count, s.heads * s.head))), k, v

    def rotated(self, x: Any, past: int) -> Any:
        half, head, base = self.sizes.head // 2, self.sizes.head, self.sizes.base

        def rotate(x: Any) -> Any:
            def element(b: Any, s: Any, h: Any, d: Any) -> Any:
                power = tirx.Cast("float32", d % half * 2) / tirx.const(head, "float32")
                angle = tirx.Cast("float32", s + past) / tirx.pow(
                    tirx.const(base, "float32"), power
                )
                other = tirx.if_then_else(d < half, -x[b, s, h, d + half], x[b, s, h, d - half])
                out = tirx.cos(angle) * tirx.Cast("float32", x[b, s, h, d])
                return tirx.Cast(HALF, out + tirx.sin(angle) * tirx.Cast("float32", other))

            return te.compute(x.shape, element, name="rope")

        return op.tensor_expr_op(rotate, "rope", [x])


class Llama(nn.Module):
    """Hidden states to the logits of the last token, and the keys and values of all tokens."""

    def __init__(self, sizes: Sizes, four_bits: bool) -> None:
        self.sizes = sizes
        self.layers = nn.ModuleList([Layer(sizes, four_bits) for _ in range(sizes.layers)])
        self.norm = nn.RMSNorm(sizes.width, -1, sizes.epsilon, bias=False, dtype=HALF)
        self.head = Linear(sizes.vocabulary, sizes.width, four_bits)

    def forward(self, hidden: Any, past: Any) -> Any:
        new = []
        for k, layer in enumerate(self.layers):
            pair = None if past is None else (past[2 * k], past[2 * k + 1])
            hidden, keys, values = layer(hidden, pair)
            new += [keys, values]

        def last(x: Any) -> Any:
            _, count, width = x.shape
            return te.compute((1, 1, width), lambda b, _, k: x[b, count - 1, k], "last")

        return self.head(self.norm(op.tensor_expr_op(last, "last", [hidden]))), tuple(new)

    def prefill(self, hidden: Any) -> Any:
        return self.forward(hidden, None)

    def decode(self, hidden: Any, past: Any) -> Any:
        return self.forward(hidden, past)


def module(sizes: Sizes, four_bits: bool, tokens: int, past: int) -> tuple[Any, list[Any]]:
    """Return a module with a function `main`, and the name, shape and dtype of each weight.

    With a ``past``, `main` takes one token and the keys and values of each layer before it.
    """
    pair = spec.Tensor([1, past, sizes.shared, sizes.head], HALF)
    inputs: dict[str, Any] = {"hidden": spec.Tensor([1, tokens, sizes.width], HALF)}
    if past:
        inputs["past"] = [pair] * (2 * sizes.layers)
    name = "decode" if past else "prefill"
    plain = {"param_mode": "plain", "effect_mode": "none"}
    mod, params = Llama(sizes, four_bits).export_tvm({name: {**inputs, "$": plain}})
    func = mod[name].with_attr("global_symbol", "main")
    others = {g: f for g, f in mod.functions_items() if g.name_hint != name}
    import tvm

    mod = tvm.IRModule({**others, tvm.ir.GlobalVar("main"): func}, attrs=mod.attrs)
    return mod, [(n, tuple(map(int, p.shape)), str(p.dtype)) for n, p in params]
