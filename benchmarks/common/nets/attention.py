"""Transformers: CoAtNet as a torch module after its paper, the others from `transformers`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .convnets import Residual, Squeeze, conv, head

VOCABULARY, TOKENS = 97, 16


class RelativeAttention(nn.Module):
    """Self-attention over the pixels of NCHW, with a bias for each pair of them."""

    def __init__(self, before: int, width: int, pixels: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.norm, self.qkv = nn.LayerNorm(before), nn.Linear(before, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(heads, pixels, pixels))

    def forward(self, x: Tensor) -> Tensor:
        n, _, h, w = x.shape
        rows = self.norm(x.flatten(2).transpose(1, 2))
        q, k, v = (
            y.reshape(n, h * w, self.heads, -1).permute(0, 2, 1, 3)
            for y in self.qkv(rows).chunk(3, -1)
        )
        scores = q @ k.transpose(-1, -2) * (self.width // self.heads) ** -0.5 + self.bias
        y = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(n, h * w, self.width)
        out: Tensor = self.out(y).transpose(1, 2).reshape(n, self.width, h, w)
        return out


class FeedForward(nn.Module):
    """Two linear layers on each pixel of NCHW."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        y = self.down(F.gelu(self.up(self.norm(x.flatten(2).transpose(1, 2)))))
        out: Tensor = y.transpose(1, 2).reshape(n, c, h, w)
        return out


def mbconv(before: int, width: int, stride: int) -> nn.Module:
    wide, act = 4 * before, nn.GELU
    body = nn.Sequential(
        nn.BatchNorm2d(before), conv(before, wide, 1, stride, act=act),
        conv(wide, wide, 3, 1, wide, act), Squeeze(wide, before // 4, nn.Sigmoid),
        nn.Conv2d(wide, width, 1),
    )  # fmt: skip
    if stride == 1 and before == width:
        return Residual(body)
    return Residual(body, nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.Conv2d(before, width, 1)))


def transformer(before: int, width: int, side: int, down: bool) -> nn.Module:
    attention: nn.Module = RelativeAttention(before, width, side * side, width // 32)
    if down:
        pool = nn.MaxPool2d(3, 2, 1)
        shortcut = nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.Conv2d(before, width, 1))
        first = Residual(nn.Sequential(pool, attention), shortcut)
    else:
        first = Residual(attention)
    return nn.Sequential(first, Residual(FeedForward(width)))


def coatnet() -> nn.Module:
    """Dai et al., CoAtNet (2021): the blocks 2-2-3-5-2 of CoAtNet-0, half its width, 64 x 64."""
    stem = [conv(3, 32, 3, 2, act=nn.GELU), conv(32, 32, 3, act=nn.GELU)]
    layers: list[nn.Module] = [*stem]
    before = 32
    for width, count in ((48, 2), (96, 3)):
        for k in range(count):
            layers.append(mbconv(before, width, 2 if k == 0 else 1))
            before = width
    for width, count, side in ((192, 5, 4), (384, 2, 2)):
        for k in range(count):
            layers.append(transformer(before, width, side, k == 0))
            before = width
    return nn.Sequential(*layers, head(384))


#: Config class, model class, options.
CONFIGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "vit": ("ViTConfig", "ViTModel", dict(
        hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768,
        image_size=64, patch_size=16, attn_implementation="eager")),
    "swin": ("SwinConfig", "SwinModel", dict(
        image_size=64, patch_size=2, embed_dim=32, depths=[2, 2, 2], num_heads=[1, 2, 4],
        window_size=4)),
    "bert": ("BertConfig", "BertModel", dict(
        hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512,
        vocab_size=VOCABULARY, max_position_embeddings=64, attn_implementation="eager")),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", dict(
        n_embd=128, n_layer=3, n_head=4, vocab_size=VOCABULARY, n_positions=64, use_cache=False,
        bos_token_id=0, eos_token_id=0, attn_implementation="eager")),
    "llama": ("LlamaConfig", "LlamaForCausalLM", dict(
        hidden_size=128, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=352, vocab_size=VOCABULARY, max_position_embeddings=64,
        use_cache=False, attn_implementation="eager")),
}  # fmt: skip


def pretrained(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return a model of `transformers` in a small configuration, and its keyword inputs."""
    import transformers

    config, model, options = CONFIGS[name]
    network = getattr(transformers, model)(getattr(transformers, config)(**options))
    if name in ("vit", "swin"):
        return network, {"pixel_values": torch.randn(1, 3, 64, 64)}
    return network, {"input_ids": torch.randint(0, VOCABULARY, (1, TOKENS))}
