"""Modules in torch that no package ships: a U-Net, a detector like YOLO, a decode step."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn


def _block(before: int, after: int, kernel: int = 3, stride: int = 1, act: Any = nn.SiLU) -> Any:
    conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(after), act())


class UNet(nn.Module):
    """Ronneberger et al., 2015, with padding; half as wide."""

    def __init__(self, width: int = 32, depth: int = 4) -> None:
        super().__init__()
        widths = [width << k for k in range(depth + 1)]

        def pair(before: int, after: int) -> Any:
            return nn.Sequential(
                _block(before, after, act=nn.ReLU), _block(after, after, act=nn.ReLU)
            )

        ins = [3, *widths[:-1]]
        self.down = nn.ModuleList(pair(a, b) for a, b in zip(ins, widths, strict=True))
        falling = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in falling)
        self.join = nn.ModuleList(pair(a, b) for a, b in falling)
        self.head = nn.Conv2d(width, 4, 1)

    def forward(self, x: Any) -> Any:
        kept = []
        for k, down in enumerate(self.down):
            x = down(x if k == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([up(x), skip], 1))
        return self.head(x)


class _Csp(nn.Module):
    """Two branches, one of them through residual blocks."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        half = width // 2
        self.first = _block(width, width, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(_block(half, half), _block(half, half)) for _ in range(blocks)
        )
        self.last = _block(width + half * blocks, width, 1)

    def forward(self, x: Any) -> Any:
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """A backbone of CSP blocks, pooling of three sizes, a neck that goes up, three heads."""

    def __init__(self, width: int = 32, outputs: int = 64 + 80) -> None:
        super().__init__()
        widths = [width << k for k in range(5)]
        self.stem = _block(3, width, 3, 2)
        self.stages = nn.ModuleList(
            nn.Sequential(_block(a, b, 3, 2), _Csp(b, n))
            for a, b, n in zip(widths, widths[1:], (1, 2, 2, 1), strict=False)
        )
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.mix = _block(4 * widths[-1], widths[-1], 1)
        self.neck = nn.ModuleList(
            nn.Sequential(_block(a + b, b, 1), _Csp(b, 1))
            for a, b in ((widths[4], widths[3]), (widths[3], widths[2]))
        )
        self.heads = nn.ModuleList(
            nn.Sequential(_block(w, w), nn.Conv2d(w, outputs, 1))
            for w in (widths[2], widths[3], widths[4])
        )

    def forward(self, x: Any) -> Any:
        x, maps = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        pools = [x]
        for _ in range(3):
            pools.append(self.pool(pools[-1]))
        top = self.mix(torch.cat(pools, 1))
        middle = self.neck[0](torch.cat([self._larger(top), maps[2]], 1))
        low = self.neck[1](torch.cat([self._larger(middle), maps[1]], 1))
        out = [h(m).flatten(2) for h, m in zip(self.heads, (low, middle, top), strict=True)]
        return torch.cat(out, 2)

    @staticmethod
    def _larger(x: Any) -> Any:
        return nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")


class Decoder(nn.Module):
    """One token through Llama's layers: caches of a static length come in, nothing is appended."""

    WIDTH: ClassVar[int] = 2048
    HEADS: ClassVar[int] = 32
    KV_HEADS: ClassVar[int] = 8
    HEAD: ClassVar[int] = 64

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_DecoderLayer() for _ in range(layers))
        self.norm = nn.RMSNorm(self.WIDTH)

    def forward(self, x: Any, *caches: Any) -> Any:
        for k, layer in enumerate(self.layers):
            x = layer(x, caches[2 * k], caches[2 * k + 1])
        return self.norm(x)


class _DecoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        w, kv, inner = Decoder.WIDTH, Decoder.KV_HEADS * Decoder.HEAD, 5632
        self.norms = nn.ModuleList(nn.RMSNorm(w) for _ in range(2))
        self.q, self.k, self.v = (nn.Linear(w, n, bias=False) for n in (w, kv, kv))
        self.o = nn.Linear(w, w, bias=False)
        self.gate, self.up = (nn.Linear(w, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, w, bias=False)

    def forward(self, x: Any, keys: Any, values: Any) -> Any:
        y = self.norms[0](x)
        b, n, _ = y.shape
        q = self.q(y).view(b, n, Decoder.HEADS, Decoder.HEAD).transpose(1, 2)
        k, v = (p(y).view(b, n, Decoder.KV_HEADS, Decoder.HEAD).transpose(1, 2)
                for p in (self.k, self.v))  # fmt: skip
        k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        repeats = Decoder.HEADS // Decoder.KV_HEADS
        k, v = (t.repeat_interleave(repeats, 1) for t in (k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, Decoder.WIDTH))
        y = self.norms[1](x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class AnyResolutionViT(nn.Module):
    """ViT-B/16 for images of any size up to `SIDE` patches a side; positions are sliced."""

    SIDE: ClassVar[int] = 32

    def __init__(self, depth: int = 12, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        from benchmarks.zoo.models.timm_models import timm

        block = timm().models.vision_transformer.Block
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.positions = nn.Parameter(torch.randn(1, self.SIDE, self.SIDE, width) / 50)
        self.token = nn.Parameter(torch.randn(1, 1, width) / 50)
        self.blocks = nn.ModuleList(block(width, heads, qkv_bias=True) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, image: Any) -> Any:
        x = self.patches(image).permute(0, 2, 3, 1)
        x = x + self.positions[:, : x.shape[1], : x.shape[2]]
        x = x.flatten(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)[:, 0]
