"""The same language models by `relax.frontend.nn`, with the weights of those of `transformers`.

A module has three functions: `embed`, `prefill` for any number of tokens, `decode` for one. Batch,
number of tokens and length of the cache are symbolic. Weights are float32 or of four bits. Layers
with a sliding window keep all tokens, or as many as they attend to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op, spec
from tvm.relax.frontend.nn.llm.position_embedding import switch_rope_freq_func

from benchmarks.common.decoders.relax_weights import weights_of

from .group_quantized import GROUP, WORD, dequantize

Array = np.ndarray[Any, Any]
_LOWEST = -1e30


class Weight(nn.Module):
    """A matrix, or one for each expert, of float32 or of four bits."""

    def __init__(self, shape: tuple[int, ...], four_bits: bool) -> None:
        self.four_bits = four_bits
        if four_bits:
            *outer, last = shape
            self.words = nn.Parameter((*outer, last // WORD), "uint32")
            self.scale = nn.Parameter((*outer, last // GROUP), "float32")
        else:
            self.weight = nn.Parameter(shape, "float32")

    def rows(self, index: Any = None) -> Any:
        """Return the matrix, or the entries of an index along the first axis."""
        parts = [self.words, self.scale] if self.four_bits else [self.weight]
        parts = parts if index is None else [op.take(part, index, axis=0) for part in parts]
        return op.tensor_expr_op(dequantize, "dequantize", parts) if self.four_bits else parts[0]


class Linear(Weight):
    def __init__(self, shape: tuple[int, ...], four_bits: bool, bias: bool = False) -> None:
        super().__init__(shape, four_bits)
        self.bias = nn.Parameter((shape[0],), "float32") if bias else None

    def forward(self, x: Any) -> Any:
        out = op.matmul(x, op.permute_dims(self.rows()))
        return out if self.bias is None else out + self.bias


class Attention(nn.Module):
    def __init__(self, config: Any, layer: int, four_bits: bool) -> None:
        self.heads, self.shared = config.num_attention_heads, config.num_key_value_heads
        self.size = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.rope = dict(config.rope_parameters)
        self.turned = int(self.size * self.rope.get("partial_rotary_factor", 1.0))
        scalar = getattr(config, "query_pre_attn_scalar", self.size)
        self.scale, self.cap = scalar**-0.5, getattr(config, "attn_logit_softcapping", None)
        kinds = getattr(config, "layer_types", None)
        slides = kinds is not None and kinds[layer] == "sliding_attention"
        self.window = config.sliding_window if slides else None
        width, joint = config.hidden_size, (self.heads + 2 * self.shared) * self.size
        self.qkv = Linear((joint, width), four_bits, config.model_type == "qwen2")
        self.out = Linear((width, self.heads * self.size), four_bits)

    def forward(
        self, x: Any, keys: Any, values: Any, past: Any, windows: bool
    ) -> tuple[Any, Any, Any]:
        """Return the result and the caches; there are ``past`` tokens before, cached or not."""
        batch, count, _ = x.shape
        kept = keys.shape[1]
        qkv = op.reshape(self.qkv(x), (batch, count, self.heads + 2 * self.shared, self.size))
        q, k, v = op.split(qkv, [self.heads, self.heads + self.shared], 2)
        q, k = self.rotated(q, past), self.rotated(k, past)
        k, v = op.concat([keys, k], 1), op.concat([values, v], 1)
        every_k, every_v = (op.repeat(y, self.heads // self.shared, 2) for y in (k, v))
        if isinstance(count, int) and count == 1 and self.window is None and self.cap is None:
            read = op.scaled_dot_product_attention(q, every_k, every_v, scale=self.scale)
        else:
            read = self.masked(q, every_k, every_v, past, kept)
        if windows and self.window is not None:
            k, v = self.last(k), self.last(v)
        return self.out(op.reshape(read, (batch, count, self.heads * self.size))), k, v

    def last(self, x: Any) -> Any:
        """Return the rows that the next token may attend to."""
        assert self.window is not None
        end = x.shape[1]
        begin = tirx.max(end - (self.window - 1), 0)
        part = relax.op.strided_slice(x._expr, [1], [begin], [end], [1], assume_inbound=True)
        return op.wrap_nested(part, "window")

    def rotated(self, x: Any, past: Any) -> Any:
        """Rotate by the positions after those of the cache; the last elements may stay."""
        scaling = {} if self.rope["rope_type"] == "default" else self.rope
        half, frequency = self.turned // 2, switch_rope_freq_func(scaling)

        def rotate(x: Any, past: Any) -> Any:
            def element(b: Any, s: Any, h: Any, d: Any) -> Any:
                cos, sin, values = frequency(past + s, d, self.turned, self.rope["rope_theta"],
                                             "float32")  # fmt: skip
                other = tirx.if_then_else(d < half, -x[b, s, h, d + half], x[b, s, h, d - half])
                out = cos * x[b, s, h, d] + sin * other
                for variable, value in values.items():
                    out = tirx.Let(variable, value, out)
                return tirx.if_then_else(d < self.turned, out, x[b, s, h, d])

            return te.compute(x.shape, element, name="rope")

        return op.tensor_expr_op(rotate, "rope", [x, past])

    def masked(self, q: Any, k: Any, v: Any, past: Any, kept: Any) -> Any:
        q, v = op.permute_dims(q, (0, 2, 1, 3)), op.permute_dims(v, (0, 2, 1, 3))
        scores = op.matmul(q, op.permute_dims(k, (0, 2, 3, 1))) * self.scale
        if self.cap is not None:
            scores = op.tanh(scores / self.cap) * self.cap

        def mask(x: Any, past: Any, kept: Any) -> Any:
            def element(b: Any, h: Any, i: Any, j: Any) -> Any:
                place = j + past - kept
                visible = place <= past + i
                if self.window is not None:
                    visible = tirx.And(visible, place > past + i - self.window)
                return tirx.Select(visible, x[b, h, i, j], tirx.const(_LOWEST, "float32"))

            return te.compute(x.shape, element, name="mask")

        read = op.matmul(
            op.softmax(op.tensor_expr_op(mask, "mask", [scores, past, kept]), axis=-1), v
        )
        return op.permute_dims(read, (0, 2, 1, 3))


class FeedForward(nn.Module):
    def __init__(self, config: Any, four_bits: bool) -> None:
        width, self.inner = config.hidden_size, config.intermediate_size
        self.gate_up = Linear((2 * self.inner, width), four_bits)
        self.down = Linear((width, self.inner), four_bits)
        self.gelu = config.model_type == "gemma2"

    def forward(self, x: Any) -> Any:
        gate, up = op.split(self.gate_up(x), 2, axis=-1)
        return self.down((op.gelu(gate, "tanh") if self.gelu else op.silu(gate)) * up)


class Experts(nn.Module):
    """The weights of the chosen experts are gathered for each token."""

    def __init__(self, config: Any, four_bits: bool) -> None:
        width, inner, count = config.hidden_size, config.intermediate_size, config.num_local_experts
        self.chosen = config.num_experts_per_tok
        self.router = Linear((count, width), False)
        self.gate_up = Weight((count, 2 * inner, width), four_bits)
        self.down = Weight((count, width, inner), four_bits)

    def forward(self, x: Any) -> Any:
        batch, count, width = x.shape
        tokens = batch * count
        flat = op.reshape(x, (tokens, width))
        shares, index = op.topk(op.softmax(self.router(flat), axis=-1), self.chosen, axis=-1)
        shares = shares / op.sum(shares, -1, keepdims=True)
        index = op.reshape(index, (tokens * self.chosen,))
        rows = op.reshape(op.repeat(flat, self.chosen, 0), (tokens * self.chosen, width, 1))
        gate, up = op.split(op.matmul(self.gate_up.rows(index), rows), 2, axis=1)
        out = op.matmul(self.down.rows(index), op.silu(gate) * up)
        out = op.reshape(out, (tokens, self.chosen, width))
        out = op.sum(out * op.reshape(shares, (tokens, self.chosen, 1)), 1)
        return op.reshape(out, (batch, count, width))


class Layer(nn.Module):
    def __init__(self, config: Any, layer: int, four_bits: bool) -> None:
        self.attention = Attention(config, layer, four_bits)
        moe = config.model_type == "mixtral"
        self.inner = Experts(config, four_bits) if moe else FeedForward(config, four_bits)
        norms = 4 if config.model_type == "gemma2" else 2
        width, epsilon = config.hidden_size, config.rms_norm_eps
        self.norms = nn.ModuleList([nn.RMSNorm(width, -1, epsilon, bias=False)
                                    for _ in range(norms)])  # fmt: skip

    def forward(
        self, x: Any, keys: Any, values: Any, past: Any, windows: bool
    ) -> tuple[Any, Any, Any]:
        read, keys, values = self.attention(self.norms[0](x), keys, values, past, windows)
        if len(self.norms) == 2:
            x = x + read
            return x + self.inner(self.norms[1](x)), keys, values
        x = x + self.norms[1](read)
        return x + self.norms[3](self.inner(self.norms[2](x))), keys, values


class Decoder(nn.Module):
    def __init__(self, config: Any, four_bits: bool, windows: bool = False) -> None:
        width, self.windows = config.hidden_size, windows
        self.config, self.scale = config, width**0.5 if config.model_type == "gemma2" else None
        self.table = nn.Parameter((config.vocab_size, width), "float32")
        self.layers = nn.ModuleList([Layer(config, k, four_bits)
                                     for k in range(config.num_hidden_layers)])  # fmt: skip
        self.norm = nn.RMSNorm(width, -1, config.rms_norm_eps, bias=False)
        self.head = Linear((config.vocab_size, width), four_bits)

    def embed(self, ids: Any) -> Any:
        x = op.reshape(op.take(self.table, op.reshape(ids, (ids.shape[0] * ids.shape[1],)), 0),
                       (*ids.shape, self.config.hidden_size))  # fmt: skip
        return x if self.scale is None else x * self.scale

    def prefill(self, hidden: Any, past: Any) -> Any:
        """Return the logits of the last token, and the keys and values of all tokens."""
        new = []
        full = next(k for k, layer in enumerate(self.layers) if not self.slides(layer))
        count = past[2 * full].shape[1]
        for k, layer in enumerate(self.layers):
            hidden, keys, values = layer(hidden, past[2 * k], past[2 * k + 1], count, self.windows)
            new += [keys, values]

        def last(x: Any) -> Any:
            batch, count, width = x.shape
            return te.compute((batch, 1, width), lambda b, _, k: x[b, count - 1, k], "last")

        logits = self.head(self.norm(op.tensor_expr_op(last, "last", [hidden])))
        cap = getattr(self.config, "final_logit_softcapping", None)
        return (logits if cap is None else op.tanh(logits / cap) * cap), tuple(new)

    def slides(self, layer: Any) -> bool:
        """Return whether a layer keeps a window of tokens."""
        return self.windows and layer.attention.window is not None

    def decode(self, hidden: Any, past: Any) -> Any:
        return self.prefill(hidden, past)


def relax_module(
    model: Any, four_bits: bool = False, bound: bool = True, windows: bool = False
) -> tuple[Any, list[Array]]:
    """Return a module of a model of `transformers`, and its weights, which are bound to it or not.

    With four bits, the weights of the model are replaced by those that its words stand for. With
    ``windows``, layers with a sliding window keep no other tokens; one layer must have none.
    """
    config = model.config
    values = weights_of(model, four_bits)
    decoder = Decoder(config, four_bits, windows)
    size = decoder.layers[0].attention.size
    past = [spec.Tensor(["b", "w" if decoder.slides(layer) else "p", config.num_key_value_heads,
                         size], "float32") for layer in decoder.layers for _ in "kv"]  # fmt: skip
    width, plain = config.hidden_size, {"param_mode": "plain", "effect_mode": "none"}
    mod, params = decoder.export_tvm({
        "embed": {"ids": spec.Tensor(["b", "s"], "int64"), "$": plain},
        "prefill": {"hidden": spec.Tensor(["b", "s", width], "float32"), "past": past, "$": plain},
        "decode": {"hidden": spec.Tensor(["b", 1, width], "float32"), "past": past, "$": plain},
    })  # fmt: skip
    if bound:
        for name in ("embed", "prefill", "decode"):
            func = mod[name]
            count = int(func.attrs["num_input"])
            pairs = {p: tvm.runtime.tensor(values[n])
                     for p, (n, _) in zip(func.params[count:], params, strict=True)}  # fmt: skip
            mod = relax.transform.BindParams(name, {p.name: v for p, v in pairs.items()})(mod)
    return mod, [values[name] for name, _ in params]
