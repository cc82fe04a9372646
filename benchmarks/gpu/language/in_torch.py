"""The model of `.llama` in torch: a reference in float32, and a peer with a static cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from .llama import BITS, GROUP, MIDDLE, WORD, Sizes

Weights = Mapping[str, torch.Tensor]


def random_weights(params: list[Any]) -> dict[str, torch.Tensor]:
    """Seeded weights on the GPU by name; matrices have entries of about depth**-0.5."""
    torch.manual_seed(0)
    out = {}
    for name, shape, dtype in params:
        if dtype == "uint32":
            low, high = torch.iinfo(torch.int32).min, torch.iinfo(torch.int32).max
            words = torch.randint(low, high, shape, device="cuda", dtype=torch.int32)
            out[name] = words.view(torch.uint32)
        elif name.endswith("scale"):
            depth = shape[1] * GROUP
            out[name] = ((0.5 + torch.rand(shape, device="cuda")) * depth**-0.5 / 5).half()
        elif len(shape) == 2:
            out[name] = (torch.randn(shape, device="cuda") * shape[1] ** -0.5).half()
        else:
            out[name] = (1 + 0.1 * torch.randn(shape, device="cuda")).half()
    return out


def matrix(weights: Weights, name: str) -> torch.Tensor:
    """A matrix in float32."""
    if f"{name}.weight" in weights:
        return weights[f"{name}.weight"].float()
    words, scale = weights[f"{name}.words"].view(torch.int32), weights[f"{name}.scale"].float()
    shifts = torch.arange(WORD, device=words.device, dtype=torch.int32) * BITS
    digits = (words[..., None] >> shifts) & ((1 << BITS) - 1)
    values = digits.reshape(words.shape[0], -1).float() - MIDDLE
    return values * scale.repeat_interleave(GROUP, 1)


def angles(sizes: Sizes, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of shape (positions, head), in float32."""
    powers = torch.arange(0, sizes.head, 2, device=positions.device).float() / sizes.head
    turns = positions.float()[:, None] / sizes.base**powers
    turns = torch.cat([turns, turns], -1)
    return turns.cos(), turns.sin()


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Heads of shape (1, heads, tokens, head), rotated."""
    first, second = x.float().chunk(2, -1)
    return (x.float() * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)


def norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """The RMS norm, computed in float32."""
    wide = x.float()
    scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return (scaled * weight.float()).to(x.dtype)


def reference(
    sizes: Sizes, weights: Weights, hidden: torch.Tensor, past: list[torch.Tensor]
) -> torch.Tensor:
    """The logits of the last token, all in float32."""
    s, x = sizes, hidden.float()
    count, before = x.shape[1], past[0].shape[1] if past else 0
    cos, sin = angles(s, torch.arange(before, before + count, device=x.device))

    def product(name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ matrix(weights, name).T

    for k in range(s.layers):
        at = f"layers.{k}."
        y = norm(x, weights[f"{at}norms.0.weight"], s.epsilon)
        qkv = product(f"{at}qkv", y).reshape(1, count, s.heads + 2 * s.shared, s.head)
        q, k_, v = qkv.transpose(1, 2).split([s.heads, s.shared, s.shared], 1)
        q, k_ = rotated(q, cos, sin), rotated(k_, cos, sin)
        if past:
            k_ = torch.cat([past[2 * k].float().transpose(1, 2), k_], 2)
            v = torch.cat([past[2 * k + 1].float().transpose(1, 2), v], 2)
        read = F.scaled_dot_product_attention(q, k_, v, is_causal=not past, enable_gqa=True)
        x = x + product(f"{at}out", read.transpose(1, 2).reshape(1, count, -1))
        gate, up = product(f"{at}gate_up", norm(x, weights[f"{at}norms.1.weight"], s.epsilon)).chunk(2, -1)  # fmt: skip # noqa: E501
        x = x + product(f"{at}down", F.silu(gate) * up)
    return product("head", norm(x[:, -1:], weights["norm.weight"], s.epsilon))


class StaticDecode(torch.nn.Module):
    """One token of the float16 model over a cache of fixed length, which is updated in place.

    As in `transformers` with a `StaticCache`: the keys and values of a token are written at its
    position, and attention reads the whole cache with a mask.
    """

    def __init__(self, sizes: Sizes, weights: Weights, past: list[torch.Tensor], room: int) -> None:
        super().__init__()
        self.sizes, self.weights, self.cache = sizes, dict(weights), []
        for tensor in past:
            whole = tensor.new_zeros(1, sizes.shared, room, sizes.head)
            whole[:, :, : tensor.shape[1]] = tensor.transpose(1, 2)
            self.cache.append(whole)

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        s = self.sizes
        cos, sin = angles(s, position)
        room = self.cache[0].shape[2]
        mask = (torch.arange(room, device=x.device) <= position[:, None])[None, None]
        for k in range(s.layers):
            at = f"layers.{k}."
            w = self.weights
            y = norm(x, w[f"{at}norms.0.weight"], s.epsilon)
            qkv = F.linear(y, w[f"{at}qkv.weight"]).reshape(1, 1, -1, s.head)
            q, k_, v = qkv.transpose(1, 2).split([s.heads, s.shared, s.shared], 1)
            q, k_ = rotated(q, cos, sin), rotated(k_, cos, sin)
            keys, values = self.cache[2 * k], self.cache[2 * k + 1]
            keys.index_copy_(2, position, k_)
            values.index_copy_(2, position, v)
            read = F.scaled_dot_product_attention(q, keys, values, mask, enable_gqa=True)
            x = x + F.linear(read.transpose(1, 2).reshape(1, 1, -1), w[f"{at}out.weight"])
            y = norm(x, w[f"{at}norms.1.weight"], s.epsilon)
            gate, up = F.linear(y, w[f"{at}gate_up.weight"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, w[f"{at}down.weight"])
        return F.linear(
            norm(x, self.weights["norm.weight"], s.epsilon), self.weights["head.weight"]
        )


def static_decode(
    sizes: Sizes, weights: Weights, hidden: torch.Tensor, past: list[torch.Tensor]
) -> Callable[[], torch.Tensor]:
    """The peer, compiled with CUDA graphs."""
    before = past[0].shape[1]
    model = torch.compile(StaticDecode(sizes, weights, past, before + 1), mode="reduce-overhead")
    position = torch.tensor([before], device="cuda")
    return lambda: model(hidden, position)
