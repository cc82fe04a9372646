"""Waveforms: a vocoder, a source separator, a dilated convolution net, a conformer block."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class _VocoderBlock(nn.Module):
    """HiFi-GAN's residual block with pairs of dilated convolutions."""

    def __init__(self, width: int, kernel: int, dilations: tuple[int, ...]) -> None:
        super().__init__()
        self.wide = nn.ModuleList(
            nn.Conv1d(width, width, kernel, dilation=d, padding=(kernel - 1) * d // 2)
            for d in dilations
        )
        self.narrow = nn.ModuleList(
            nn.Conv1d(width, width, kernel, padding=kernel // 2) for _ in dilations
        )

    def forward(self, x: Tensor) -> Tensor:
        for wide, narrow in zip(self.wide, self.narrow, strict=True):
            x = x + narrow(F.leaky_relu(wide(F.leaky_relu(x, 0.1)), 0.1))
        return x


class Vocoder(nn.Module):
    """Kong et al., HiFi-GAN (2020), generator V2: 80 mels to 256 samples a frame."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.enter = nn.Conv1d(80, width, 7, padding=3)
        self.up, self.blocks = nn.ModuleList(), nn.ModuleList()
        for stride in (8, 8, 2, 2):
            kernel = 2 * stride
            self.up.append(
                nn.ConvTranspose1d(width, width // 2, kernel, stride, (kernel - stride) // 2)
            )
            width //= 2
            self.blocks.append(
                nn.ModuleList(_VocoderBlock(width, k, (1, 3, 5)) for k in (3, 7, 11))
            )
        self.leave = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, mel: Tensor) -> Tensor:
        x = self.enter(mel)
        for up, blocks in zip(self.up, self.blocks, strict=True):
            x = up(F.leaky_relu(x, 0.1))
            total = torch.zeros_like(x)
            for block in blocks:
                total = total + block(x)
            x = total / 3
        return torch.tanh(self.leave(F.leaky_relu(x)))


class _SeparationBlock(nn.Module):
    """1x1 convolution, depthwise dilated convolution, residual and skip outputs."""

    def __init__(self, width: int, wide: int, dilation: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(width, wide, 1), nn.PReLU(), nn.GroupNorm(1, wide, eps=1e-8),
            nn.Conv1d(wide, wide, 3, padding=dilation, dilation=dilation, groups=wide),
            nn.PReLU(), nn.GroupNorm(1, wide, eps=1e-8),
        )  # fmt: skip
        self.residual, self.skip = nn.Conv1d(wide, width, 1), nn.Conv1d(wide, width, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.body(x)
        return x + self.residual(y), self.skip(y)


class ConvTasNet(nn.Module):
    """Luo and Mesgarani, Conv-TasNet (2019): masks on a learned filterbank, one source."""

    def __init__(self, filters: int = 512, width: int = 128, wide: int = 512) -> None:
        super().__init__()
        self.encode = nn.Conv1d(1, filters, 16, 8, bias=False)
        self.norm, self.enter = nn.GroupNorm(1, filters, eps=1e-8), nn.Conv1d(filters, width, 1)
        self.blocks = nn.ModuleList(
            _SeparationBlock(width, wide, 1 << k) for _ in range(3) for k in range(8)
        )
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(width, filters, 1), nn.Sigmoid())
        self.decode = nn.ConvTranspose1d(filters, 1, 16, 8, bias=False)

    def forward(self, wave: Tensor) -> Tensor:
        code = F.relu(self.encode(wave))
        x = self.enter(self.norm(code))
        skips: Tensor | float = 0.0
        for block in self.blocks:
            x, skip = block(x)
            skips = skips + skip
        out: Tensor = self.decode(code * self.mask(skips))
        return out


class WaveNet(nn.Module):
    """van den Oord et al., WaveNet (2016): gated causal convolutions, 20 layers of width 32."""

    def __init__(self, width: int = 32, layers: int = 20, classes: int = 256) -> None:
        super().__init__()
        self.enter = nn.Conv1d(1, width, 1)
        self.steps = [1 << (k % 10) for k in range(layers)]
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=d) for d in self.steps)
        self.mixes = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in self.steps)
        self.head = nn.Sequential(
            nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, classes, 1)
        )

    def forward(self, wave: Tensor) -> Tensor:
        x = self.enter(wave)
        skips: Tensor | float = 0.0
        for step, gate, mix in zip(self.steps, self.gates, self.mixes, strict=True):
            value, control = gate(F.pad(x, (step, 0))).chunk(2, 1)
            residual, skip = mix(torch.tanh(value) * torch.sigmoid(control)).chunk(2, 1)
            x, skips = x + residual, skips + skip
        out: Tensor = self.head(skips)
        return out


class ConformerBlock(nn.Module):
    """Gulati et al., Conformer (2020): the block of Conformer-S, absolute positions."""

    def __init__(self, width: int = 144, heads: int = 4, kernel: int = 31) -> None:
        super().__init__()
        self.feeds = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(),
                          nn.Linear(4 * width, width))
            for _ in range(2)
        )  # fmt: skip
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.before, self.enter = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch, self.leave = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)
        self.after = nn.LayerNorm(width)

    def forward(self, frames: Tensor) -> Tensor:
        x = frames + 0.5 * self.feeds[0](frames)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.enter(self.before(x).transpose(1, 2)), 1)
        y = self.leave(F.silu(self.batch(self.depthwise(y))))
        x = x + y.transpose(1, 2)
        out: Tensor = self.after(x + 0.5 * self.feeds[1](x))
        return out
