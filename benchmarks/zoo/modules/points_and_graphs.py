"""Point clouds, graphs and tables of categories."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_WIDTHS = (64, 128, 1024)


def _pointwise(before: int, widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Conv1d(before, width, 1), nn.BatchNorm1d(width), nn.ReLU()]
        before = width
    return nn.Sequential(*layers)


class _Aligned(nn.Module):
    """PointNet's T-net: a matrix for each cloud, added to the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.points = width, _pointwise(width, _WIDTHS)
        self.matrix = nn.Sequential(
            nn.Linear(1024, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 256),
            nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, width * width),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        matrix = self.matrix(self.points(x).amax(2)).view(-1, self.width, self.width)
        matrix = matrix + torch.eye(self.width)
        return (x.transpose(1, 2) @ matrix).transpose(1, 2)


class PointNet(nn.Module):
    """Qi et al., PointNet (2017), classification with both T-nets."""

    def __init__(self, classes: int = 40) -> None:
        super().__init__()
        self.input, self.feature = _Aligned(3), _Aligned(64)
        self.first, self.rest = _pointwise(3, (64,)), _pointwise(64, (128, 1024))
        self.head = nn.Sequential(
            nn.Linear(1024, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 256),
            nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, classes),
        )  # fmt: skip

    def forward(self, points: Tensor) -> Tensor:
        x = self.feature(self.first(self.input(points)))
        return F.log_softmax(self.head(self.rest(x).amax(2)), -1)


class MessagePassing(nn.Module):
    """Xu et al., GIN (2019): five layers that add the features of neighbours by an edge list."""

    def __init__(self, features: int = 9, width: int = 64, layers: int = 5) -> None:
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(),
                          nn.Linear(width, width), nn.ReLU())
            for _ in range(layers)
        )  # fmt: skip
        self.epsilon = nn.Parameter(torch.zeros(layers))
        self.head = nn.Linear(width, 1)

    def forward(self, nodes: Tensor, source: Tensor, target: Tensor) -> Tensor:
        x = self.enter(nodes)
        for k, layer in enumerate(self.layers):
            summed = torch.zeros_like(x).index_add(0, target, x[source])
            x = layer((1 + self.epsilon[k]) * x + summed)
        out: Tensor = self.head(x.sum(0))
        return out


class GraphConvolution(nn.Module):
    """Kipf and Welling, GCN (2017), on a dense adjacency matrix."""

    def __init__(self, features: int = 1433, width: int = 16, classes: int = 7) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(features, width), nn.Linear(width, classes)

    def forward(self, nodes: Tensor, adjacency: Tensor) -> Tensor:
        degree = adjacency.sum(-1).clamp(min=1).rsqrt()
        propagate = degree[:, None] * adjacency * degree[None, :]
        x = F.relu(propagate @ self.enter(nodes))
        return F.log_softmax(propagate @ self.leave(x), -1)


class Recommender(nn.Module):
    """Naumov et al., DLRM (2019): embeddings, pairwise products, two perceptrons."""

    def __init__(self, tables: int = 26, rows: int = 1000, width: int = 16) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(
            nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, width),
            nn.ReLU(),
        )  # fmt: skip
        count = tables + 1
        row, column = torch.tril_indices(count, count, -1)
        self.register_buffer("pairs", row * count + column)
        self.top = nn.Sequential(
            nn.Linear(width + count * (count - 1) // 2, 512), nn.ReLU(), nn.Linear(512, 256),
            nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        x = self.bottom(dense)
        parts = [table(sparse[:, k]) for k, table in enumerate(self.tables)]
        rows = torch.stack([x, *parts], 1)
        products = (rows @ rows.transpose(1, 2)).flatten(1)[:, self.pairs]
        out: Tensor = self.top(torch.cat([x, products], 1))
        return out
