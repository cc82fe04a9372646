"""Nets of the proxies: transformers, a tagger, a face mesh, a graph net, at small sizes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """softmax(q kᵀ / √d + mask) v over heads; keys and values of another sequence."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(size, size) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self._split(self.q(x)), self._split(self.k(memory)), self._split(self.v(memory))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        weights = (scores if mask is None else scores + mask).softmax(-1)
        joined: Tensor = self.out((weights @ v).transpose(1, 2).reshape(x.shape))
        return joined

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)


def feed_forward(size: int) -> nn.Module:
    """Two products with a GELU between them, four times as wide inside."""
    return nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))


class Encoder(nn.Module):
    """Tokens to states, norms behind sums; padding is masked by -10000."""

    def __init__(self, words: int = 500, size: int = 256, heads: int = 4, layers: int = 4) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(words, size), nn.LayerNorm(size)
        self.places = nn.Parameter(torch.randn(128, size) * 0.02)
        self.attend = nn.ModuleList(Attention(size, heads) for _ in range(layers))
        self.feed = nn.ModuleList(feed_forward(size) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2 * layers))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x: Tensor = self.norm(self.words(ids) + self.places[: ids.shape[1]])
        hidden = (1.0 - mask[:, None, None, :].float()) * -10000.0
        for k, (attend, feed) in enumerate(zip(self.attend, self.feed, strict=True)):
            x = self.norms[2 * k](x + attend(x, x, hidden))
            x = self.norms[2 * k + 1](x + feed(x))
        return x


class Decoder(nn.Module):
    """Tokens and the states of an encoder to words, norms before sums."""

    def __init__(self, words: int = 500, size: int = 256, heads: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(words, size), nn.Linear(size, words)
        self.places = nn.Parameter(torch.randn(64, size) * 0.02)
        self.own = nn.ModuleList(Attention(size, heads) for _ in range(layers))
        self.cross = nn.ModuleList(Attention(size, heads) for _ in range(layers))
        self.feed = nn.ModuleList(feed_forward(size) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(3 * layers + 1))

    def forward(self, ids: Tensor, memory: Tensor) -> Tensor:
        count = ids.shape[1]
        x = self.words(ids) + self.places[:count]
        later = torch.triu(torch.full((count, count), float("-inf")), 1)
        for k, (own, cross, feed) in enumerate(zip(self.own, self.cross, self.feed, strict=True)):
            y = self.norms[3 * k](x)
            x = x + own(y, y, later)
            x = x + cross(self.norms[3 * k + 1](x), memory)
            x = x + feed(self.norms[3 * k + 2](x))
        words: Tensor = self.out(self.norms[-1](x))
        return words


class Tagger(nn.Module):
    """Two LSTMs in both directions over 32 words."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(300, 64), nn.Linear(256, 20)
        self.layers = nn.LSTM(64, 128, 2, bidirectional=True, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        tags: Tensor = self.out(self.layers(self.words(ids))[0])
        return tags


class Blaze(nn.Module):
    """A depthwise and a 1x1 convolution beside a pool whose channels are padded."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.stride, self.more = stride, outputs - inputs
        self.depthwise = nn.Conv2d(inputs, inputs, 3, stride, 2 - stride, groups=inputs)
        self.pointwise, self.active = nn.Conv2d(inputs, outputs, 1), nn.PReLU(outputs)

    def forward(self, x: Tensor) -> Tensor:
        inside = x if self.stride == 1 else functional.pad(x, (0, 1, 0, 1))
        x = x if self.stride == 1 else functional.max_pool2d(x, 2)
        x = functional.pad(x, (0, 0, 0, 0, 0, self.more)) if self.more else x
        out: Tensor = self.active(self.pointwise(self.depthwise(inside)) + x)
        return out


class FaceMesh(nn.Module):
    """468 points and a score of an image with channels last."""

    def __init__(self) -> None:
        super().__init__()
        widths = ((16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2),
                  (64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 128, 1),
                  (128, 128, 2), (128, 128, 1))  # fmt: skip
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.PReLU(16))
        self.body = nn.Sequential(*(Blaze(*w) for w in widths))
        self.neck = nn.Sequential(nn.Conv2d(128, 32, 1), nn.PReLU(32), Blaze(32, 32))
        self.points, self.score = nn.Conv2d(32, 1404, 3), nn.Conv2d(32, 1, 3)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.pad(image.permute(0, 3, 1, 2), (0, 1, 0, 1))
        x = self.neck(self.body(self.stem(x)))
        return self.points(x).flatten(1), self.score(x).flatten(1).sigmoid()


class GraphAttention(nn.Module):
    """Three layers of attention over an edge list, with gathers and scattered sums."""

    def __init__(self) -> None:
        super().__init__()
        self.states = nn.ModuleList(nn.Linear(n, 64, bias=False) for n in (16, 64, 64))
        self.weights = nn.ParameterList(torch.randn(2, 4, 16) * 0.1 for _ in range(3))
        self.norms, self.out = (
            nn.ModuleList(nn.BatchNorm1d(64) for _ in range(3)),
            nn.Linear(64, 12),
        )

    def forward(self, nodes: Tensor, source: Tensor, target: Tensor) -> Tensor:
        x, count = nodes, nodes.shape[0]
        for state, weight, norm in zip(self.states, self.weights, self.norms, strict=True):
            h = state(x).view(count, 4, 16)
            ends = (h * weight[0]).sum(-1)[source] + (h * weight[1]).sum(-1)[target]
            scores = functional.leaky_relu(ends, 0.2).exp()
            total = torch.zeros(count, 4).scatter_add(0, target[:, None].expand(-1, 4), scores)
            shares = scores / total[target].clamp(min=1e-6)
            parts = (h[source] * shares[..., None]).flatten(1)
            x = torch.zeros(count, 64).scatter_add(0, target[:, None].expand(-1, 64), parts)
            x = functional.elu(norm(x))
        classes: Tensor = self.out(x.mean(0))
        return classes
