"""Convolutional networks as torch modules, after their papers; each from an input of 64 x 64.

Widths are the papers', except ConvNeXt's (half of ConvNeXt-T's) and the U-Net's (a quarter).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def conv(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: Any = nn.ReLU
) -> nn.Sequential:
    """Convolution, batch normalisation, activation."""
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Module):
    """``act(body(x) + shortcut(x))``."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None, act: Any = None) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut or nn.Identity()
        self.act = act() if act else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.act(self.body(x) + self.shortcut(x))
        return out


def head(width: int, classes: int = 100) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def resnet18() -> nn.Module:
    """He et al., Deep residual learning (2016), basic blocks 2-2-2-2."""
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for step in (stride, 1):
            body = nn.Sequential(conv(before, width, 3, step), conv(width, width, 3, act=None))
            same = step == 1 and before == width
            shortcut = None if same else conv(before, width, 1, step, act=None)
            layers.append(Residual(body, shortcut, nn.ReLU))
            before = width
    return nn.Sequential(*layers, head(512))


def resnet50() -> nn.Module:
    """The same paper's bottleneck blocks 3-4-6-3."""
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(count):
            step, out = stride if k == 0 else 1, 4 * width
            parts = conv(before, width), conv(width, width, 3, step), conv(width, out, act=None)
            shortcut = None if k else conv(before, out, 1, step, act=None)
            layers.append(Residual(nn.Sequential(*parts), shortcut, nn.ReLU))
            before = out
    return nn.Sequential(*layers, head(2048))


def mobilenet_v2() -> nn.Module:
    """Sandler et al., Inverted residuals and linear bottlenecks (2018), width 1."""
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
            (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
    layers: list[nn.Module] = [conv(3, 32, 3, 2, act=nn.ReLU6)]
    before = 32
    for expand, width, count, stride in rows:
        for k in range(count):
            wide, step = before * expand, stride if k == 0 else 1
            first = [conv(before, wide, act=nn.ReLU6)] if expand > 1 else []
            body = nn.Sequential(
                *first, conv(wide, wide, 3, step, wide, nn.ReLU6), conv(wide, width, act=None)
            )
            layers.append(Residual(body) if step == 1 and before == width else body)
            before = width
    return nn.Sequential(*layers, conv(320, 1280, act=nn.ReLU6), head(1280))


class Squeeze(nn.Module):
    """Squeeze and excitation: channels scaled by a function of their means."""

    def __init__(self, width: int, inner: int, gate: Any = nn.Hardsigmoid) -> None:
        super().__init__()
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, inner, 1), nn.ReLU(),
            nn.Conv2d(inner, width, 1), gate(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale(x)


def mobilenet_v3() -> nn.Module:
    """Howard et al., Searching for MobileNetV3 (2019), MobileNetV3-Large."""
    h, r = nn.Hardswish, nn.ReLU
    rows = (  # kernel, expanded, output, squeeze, activation, stride
        (3, 16, 16, 0, r, 1), (3, 64, 24, 0, r, 2), (3, 72, 24, 0, r, 1),
        (5, 72, 40, 24, r, 2), (5, 120, 40, 32, r, 1), (5, 120, 40, 32, r, 1),
        (3, 240, 80, 0, h, 2), (3, 200, 80, 0, h, 1), (3, 184, 80, 0, h, 1),
        (3, 184, 80, 0, h, 1), (3, 480, 112, 120, h, 1), (3, 672, 112, 168, h, 1),
        (5, 672, 160, 168, h, 2), (5, 960, 160, 240, h, 1), (5, 960, 160, 240, h, 1),
    )  # fmt: skip
    layers: list[nn.Module] = [conv(3, 16, 3, 2, act=h)]
    before = 16
    for kernel, wide, width, inner, act, stride in rows:
        first = [conv(before, wide, act=act)] if wide != before else []
        squeeze = [Squeeze(wide, inner)] if inner else []
        body = nn.Sequential(
            *first,
            conv(wide, wide, kernel, stride, wide, act),
            *squeeze,
            conv(wide, width, act=None),
        )
        layers.append(Residual(body) if stride == 1 and before == width else body)
        before = width
    top = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280), h(), nn.Linear(1280, 100)]
    return nn.Sequential(*layers, conv(160, 960, act=h), *top)


class ShuffleUnit(nn.Module):
    """Two branches, concatenated, their channels interleaved."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.half = half = width // 2
        self.left = nn.Sequential(
            conv(before, before, 3, 2, before, None), conv(before, half)
        ) if stride == 2 else None  # fmt: skip
        inputs = before if stride == 2 else half
        self.right = nn.Sequential(
            conv(inputs, half), conv(half, half, 3, stride, half, None), conv(half, half)
        )

    def forward(self, x: Tensor) -> Tensor:
        a, b = (self.left(x), x) if self.left is not None else x.split(self.half, 1)
        y = torch.cat([a, self.right(b)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet() -> nn.Module:
    """Ma et al., ShuffleNet V2 (2018), width 1."""
    layers: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    before = 24
    for width, count in ((116, 4), (232, 8), (464, 4)):
        for k in range(count):
            layers.append(ShuffleUnit(before, width, 2 if k == 0 else 1))
            before = width
    return nn.Sequential(*layers, conv(464, 1024), head(1024))


class ChannelNorm(nn.Module):
    """Layer normalisation over the channels of NCHW, through NHWC."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return y


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.ones(width, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(F.gelu(self.up(y))).permute(0, 3, 1, 2)
        return x + self.scale * y


def convnext() -> nn.Module:
    """Liu et al., A ConvNet for the 2020s (2022), blocks 3-3-9-3, half the width of ConvNeXt-T."""
    widths = (48, 96, 192, 384)
    layers: list[nn.Module] = [nn.Conv2d(3, 48, 4, 4), ChannelNorm(48)]
    for k, (width, count) in enumerate(zip(widths, (3, 3, 9, 3), strict=True)):
        if k:
            layers += [ChannelNorm(widths[k - 1]), nn.Conv2d(widths[k - 1], width, 2, 2)]
        layers += [ConvNeXtBlock(width) for _ in range(count)]
    top = [nn.AdaptiveAvgPool2d(1), ChannelNorm(384), nn.Flatten(), nn.Linear(384, 100)]
    return nn.Sequential(*layers, *top)


class UNet(nn.Module):
    """Ronneberger et al., U-Net (2015): transposed convolutions up, skips concatenated."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64, 128)) -> None:
        super().__init__()
        pairs = list(zip((3, *widths), widths, strict=False))
        self.down = nn.ModuleList(nn.Sequential(conv(i, o, 3), conv(o, o, 3)) for i, o in pairs)
        back = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, 2) for i, o in back)
        self.join = nn.ModuleList(nn.Sequential(conv(i, o, 3), conv(o, o, 3)) for i, o in back)
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for k, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if k else x)
            skips.append(x)
        for up, join, skip in zip(self.up, self.join, skips[-2::-1], strict=True):
            x = join(torch.cat([skip, up(x)], 1))
        out: Tensor = self.last(x)
        return out


class Yolo(nn.Module):
    """A one-stage detector: cross-stage blocks, pooled pyramid, two scales of anchors."""

    def __init__(self, anchors: int = 3, outputs: int = 15) -> None:
        super().__init__()
        self.anchors, self.outputs = anchors, outputs
        self.stem = nn.Sequential(conv(3, 16, 3, 2, act=nn.SiLU), conv(16, 32, 3, 2, act=nn.SiLU))
        self.middle = nn.Sequential(CrossStage(32, 32), conv(32, 64, 3, 2, act=nn.SiLU))
        self.fine = CrossStage(64, 64, 2)
        self.coarse = nn.Sequential(conv(64, 128, 3, 2, act=nn.SiLU), CrossStage(128, 128))
        self.pool, self.squeeze = conv(512, 128, act=nn.SiLU), conv(128, 64, act=nn.SiLU)
        self.join = CrossStage(128, 64)
        self.heads = nn.ModuleList(nn.Conv2d(w, anchors * outputs, 1) for w in (64, 128))

    def detect(self, head: nn.Module, x: Tensor) -> Tensor:
        n, _, h, w = x.shape
        y = head(x).view(n, self.anchors, self.outputs, h, w).permute(0, 1, 3, 4, 2)
        return y.sigmoid().reshape(n, -1, self.outputs)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.fine(self.middle(self.stem(x)))
        pyramid = [self.coarse(fine)]
        for _ in range(3):
            pyramid.append(F.max_pool2d(pyramid[-1], 5, 1, 2))
        coarse = self.pool(torch.cat(pyramid, 1))
        up = F.interpolate(self.squeeze(coarse), scale_factor=2.0, mode="nearest")
        joined = self.join(torch.cat([up, fine], 1))
        detections = [self.detect(h, y) for h, y in zip(self.heads, (joined, coarse), strict=True)]
        return torch.cat(detections, 1)


class CrossStage(nn.Module):
    """Half of the channels through residual blocks, half past them."""

    def __init__(self, before: int, width: int, count: int = 1) -> None:
        super().__init__()
        half, act = width // 2, nn.SiLU
        self.past, self.enter = conv(before, half, act=act), conv(before, half, act=act)
        self.blocks = nn.Sequential(*(
            Residual(nn.Sequential(conv(half, half, act=act), conv(half, half, 3, act=act)))
            for _ in range(count)
        ))  # fmt: skip
        self.leave = conv(width, width, act=act)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.leave(torch.cat([self.blocks(self.enter(x)), self.past(x)], 1))
        return out
