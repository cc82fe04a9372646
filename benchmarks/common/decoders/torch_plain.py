"""Networks of plain torch that `transformers` has not, in small sizes.

gat           attention of a graph: a softmax over the edges of each node, by scatters
pointnet2     farthest points, the points in a ball around each, their largest features
unet          a residual block of diffusion with time, attention over a text, and a skip
detection     boxes of anchors, the best of them, and suppression of those that overlap
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .torch_programs import Dim, Program


class GraphAttention(nn.Module):
    """Two heads of attention over edges: new features, and how many edges reach each node."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8, bias=False)
        self.source, self.sink = (nn.Parameter(torch.randn(2, 4)) for _ in range(2))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> Any:
        source, sink = edges[0], edges[1]
        z = self.project(x).view(-1, 2, 4)
        score = (z * self.source).sum(-1)[source] + (z * self.sink).sum(-1)[sink]
        score = F.leaky_relu(score, 0.2)
        places = sink[:, None].expand(-1, 2)
        lowest = score.new_full((x.shape[0], 2), -math.inf)
        largest = lowest.scatter_reduce(0, places, score, "amax", include_self=False)
        weight = torch.exp(score - largest[sink])
        weight = weight / torch.zeros_like(lowest).index_add(0, sink, weight)[sink]
        out = torch.zeros_like(z).scatter_add(
            0, places[..., None].expand(-1, -1, 4), weight[..., None] * z[source]
        )
        ones = torch.ones_like(sink)
        return out.flatten(1), torch.zeros_like(x[:, 0], dtype=ones.dtype).scatter_add(
            0, sink, ones
        )


class BallQuery(nn.Module):
    """Three far points of a cloud; the features of at most four points in a ball around each."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(6, 8, 1), nn.BatchNorm2d(8), nn.ReLU())

    def forward(self, points: torch.Tensor) -> Any:
        count, clouds = points.shape[1], torch.arange(points.shape[0])
        at, chosen = torch.zeros_like(clouds), []
        distance = torch.full(points.shape[:2], 1e10)
        for _ in range(3):
            chosen.append(at)
            centre = points[clouds, at].unsqueeze(1)
            distance = torch.minimum(distance, ((points - centre) ** 2).sum(-1))
            at = distance.max(-1)[1]
        places = torch.stack(chosen, 1)
        centres = points.gather(1, places[..., None].expand(-1, -1, 3))
        near = torch.arange(count).repeat(points.shape[0], 3, 1)
        near[torch.cdist(centres, points) > 0.8] = count
        near = near.sort(-1)[0][..., :4]
        near = torch.where(near == count, near[..., :1], near)
        local = points[clouds.view(-1, 1, 1).expand_as(near), near]
        both = torch.cat([local - centres[:, :, None], local], -1)
        return self.features(both.permute(0, 3, 2, 1)).amax(2), near


class Denoiser(nn.Module):
    """A residual block with the time, attention over a text, one level down and up."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.down = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3, 2, 1)
        self.time = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 8))
        self.norm, self.conv = nn.GroupNorm(4, 8), nn.Conv2d(8, 8, 3, padding=1)
        self.query, self.keys = nn.Linear(8, 8), nn.Linear(12, 16)
        self.up, self.out = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, step: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        angles = step[:, None].float() * torch.exp(-torch.arange(8.0))
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        x = self.into(x)
        skip = x + self.conv(F.silu(self.norm(x))) + time[..., None, None]
        low = self.down(skip)
        query = self.query(low.flatten(2).mT).unflatten(-1, (2, 4)).transpose(1, 2)
        keys, values = (k.unflatten(-1, (2, 4)).transpose(1, 2)
                        for k in self.keys(text).chunk(2, -1))  # fmt: skip
        read = F.scaled_dot_product_attention(query, keys, values).transpose(1, 2).flatten(2)
        low = self.up(F.interpolate(low + read.mT.unflatten(-1, low.shape[2:]), scale_factor=2.0))
        return self.out(torch.cat([low, skip], 1))


class Detection(nn.Module):
    """The best eight boxes of three anchors at each place, and which of them stay."""

    def __init__(self) -> None:
        super().__init__()
        self.classes, self.boxes = (nn.Conv2d(8, 12, 3, padding=1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> Any:
        classes, boxes = (head(x).unflatten(1, (3, 4)).permute(0, 3, 4, 1, 2).flatten(1, 3)
                          for head in (self.classes, self.boxes))  # fmt: skip
        rows, columns = torch.meshgrid(*map(torch.arange, x.shape[2:]), indexing="ij")
        grid = torch.stack([columns, rows], -1).flatten(0, 1).repeat_interleave(3, 0) + 0.5
        size = boxes[..., 2:].clamp(max=4.0).exp()
        middle = grid + boxes[..., :2] * size
        score, label = classes.sigmoid().max(-1)
        score, best = score.topk(8, dim=1)
        label = label.gather(1, best)
        low, high = (edge.clamp(0, 8).gather(1, best[..., None].expand(-1, -1, 2))
                     for edge in (middle - size / 2, middle + size / 2))  # fmt: skip
        shared = (torch.minimum(high[:, :, None], high[:, None])
                  - torch.maximum(low[:, :, None], low[:, None])).clamp(min=0).prod(-1)  # fmt: skip
        area = (high - low).prod(-1)
        overlap = shared / (area[:, :, None] + area[:, None] - shared + 1e-9)
        overlap = overlap * (label[:, :, None] == label[:, None])
        return torch.cat([low, high], -1), score, label, overlap.triu(1).amax(1) <= 0.5


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def _edges(nodes: int, count: int) -> torch.Tensor:
    return torch.randint(0, nodes, (2, count), generator=torch.Generator().manual_seed(count))


_FIRST = {0: Dim.DYNAMIC}
#: The module of each network, its dynamic dimensions, and the arguments of its runs.
PLAIN: dict[str, tuple[Callable[[], nn.Module], Any, Sequence[tuple[torch.Tensor, ...]]]] = {
    "gat": (GraphAttention, (_FIRST, {1: Dim.DYNAMIC}),
            [(_random(n, 8), _edges(n, m)) for n, m in ((6, 15), (4, 3), (9, 40), (3, 0))]),
    "pointnet2": (BallQuery, ({1: Dim.DYNAMIC},), [(_random(2, n, 3),) for n in (12, 9)]),
    "unet": (Denoiser, (_FIRST, _FIRST, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}),
             [(_random(n, 4, 8, 8), torch.tensor([7, 400][:n]), _random(n, m, 12))
              for n, m in ((2, 5), (1, 3))]),
    "detection": (Detection, (_FIRST,), [(_random(n, 8, 6, 8),) for n in (2, 1)]),
}  # fmt: skip


def plain_programs(name: str) -> Iterator[Program]:
    """Yield the program of a network."""
    build, shapes, runs = PLAIN[name]
    torch.manual_seed(0)
    yield Program(f"{name}.all", build().eval(), shapes, runs)
