"""Images to images: segmentation, super-resolution, style, and a block of a diffusion model."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.common.nets.convnets import conv


class SegmentationUNet(nn.Module):
    """Ronneberger et al., U-Net (2015), padded; up by transposed convolutions."""

    def __init__(self, width: int = 32, levels: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [width << level for level in range(levels + 1)]
        before = (3, *widths[:-1])
        self.down = nn.ModuleList(
            nn.Sequential(conv(a, b, 3), conv(b, b, 3)) for a, b in zip(before, widths, strict=True)
        )
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs)
        self.merge = nn.ModuleList(nn.Sequential(conv(a, b, 3), conv(b, b, 3)) for a, b in pairs)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        skips: list[Tensor] = []
        x = image
        for k, block in enumerate(self.down):
            x = block(x if k == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for up, merge, skip in zip(self.up, self.merge, skips[-2::-1], strict=True):
            x = merge(torch.cat([skip, up(x)], 1))
        out: Tensor = self.head(x)
        return out


class SubPixel(nn.Module):
    """Shi et al., ESPCN (2016): three convolutions and a pixel shuffle."""

    def __init__(self, factor: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
            nn.Conv2d(32, factor * factor, 3, padding=1), nn.PixelShuffle(factor),
        )  # fmt: skip

    def forward(self, luminance: Tensor) -> Tensor:
        out: Tensor = self.body(luminance)
        return out


class _Reflected(nn.Sequential):
    """Reflection padding and a convolution."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(
            nn.ReflectionPad2d(kernel // 2), nn.Conv2d(inputs, outputs, kernel, stride)
        )


class _StyleBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _Reflected(width, width, 3), nn.InstanceNorm2d(width, affine=True), nn.ReLU(),
            _Reflected(width, width, 3), nn.InstanceNorm2d(width, affine=True),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.body(x)
        return out


class StyleTransfer(nn.Module):
    """Johnson et al., Perceptual losses (2016), with instance norms and nearest upsampling."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for a, b, kernel, stride in ((3, width, 9, 1), (width, 2 * width, 3, 2),
                                     (2 * width, 4 * width, 3, 2)):  # fmt: skip
            layers += [_Reflected(a, b, kernel, stride), nn.InstanceNorm2d(b, affine=True)]
            layers.append(nn.ReLU())
        layers += [_StyleBlock(4 * width) for _ in range(5)]
        for a, b in ((4 * width, 2 * width), (2 * width, width)):
            layers += [nn.Upsample(scale_factor=2), _Reflected(a, b, 3)]
            layers += [nn.InstanceNorm2d(b, affine=True), nn.ReLU()]
        self.body = nn.Sequential(*layers, _Reflected(width, 3, 9))

    def forward(self, image: Tensor) -> Tensor:
        out: Tensor = self.body(image)
        return out


class _CrossAttention(nn.Module):
    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(context, width, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(context)), split(self.v(context))
        y = F.scaled_dot_product_attention(q, k, v)
        out: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return out


class _GatedFeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.up(x).chunk(2, -1)
        out: Tensor = self.down(value * F.gelu(gate))
        return out


class DiffusionBlock(nn.Module):
    """Rombach et al., Latent diffusion (2022): a ResBlock and a transformer block of its UNet."""

    def __init__(self, width: int = 320, context: int = 768, heads: int = 8) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(32, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)
        )
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(4 * width, width))
        self.second = nn.Sequential(
            nn.GroupNorm(32, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)
        )
        self.norm, self.enter = nn.GroupNorm(32, width, eps=1e-6), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own = _CrossAttention(width, width, heads)
        self.cross = _CrossAttention(width, context, heads)
        self.feed, self.leave = _GatedFeedForward(width), nn.Conv2d(width, width, 1)

    def forward(self, latent: Tensor, time: Tensor, context: Tensor) -> Tensor:
        y = self.first(latent) + self.time(time)[:, :, None, None]
        x = latent + self.second(y)
        rows = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        own = self.norms[0](rows)
        rows = rows + self.own(own, own)
        rows = rows + self.cross(self.norms[1](rows), context)
        rows = rows + self.feed(self.norms[2](rows))
        out: Tensor = x + self.leave(rows.transpose(1, 2).reshape(x.shape))
        return out
