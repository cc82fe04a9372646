"""Elements chosen by indices, masks and order."""

from __future__ import annotations

from typing import Any

import torch

from .inputs import INF, Edges, mask, real, whole


def _assigned(x: torch.Tensor, mask: torch.Tensor) -> Any:
    zeros, ones, other = x.clone(), x.clone(), x.clone()
    zeros[mask] = 0
    ones[mask] += 1
    other[mask] = other[mask] * 2
    return zeros, ones, other


def _reduced_scatter(x: torch.Tensor, i: torch.Tensor, s: torch.Tensor) -> Any:
    modes = ("sum", "prod", "mean", "amax", "amin")
    return [x.scatter_reduce(1, i, s, mode, include_self=own)
            for mode in modes for own in (True, False)]  # fmt: skip


EDGES: Edges = {
    "where": (
        lambda m, x, i: (
            torch.where(m, x, 0),
            torch.where(m, 1, i),
            torch.where(m, x, i),
            torch.where(m, 2.5, i),
            torch.where(m, x, -INF),
            torch.where(x > 0, x, x.new_tensor(3)),
            torch.where(m[0], 1, 2),
            torch.where(m, 1.5, 2),
        ),
        lambda: (mask(3, 4), real(3, 4), whole(-5, 5, 4)),
    ),
    "masks": (_assigned, lambda: (real(4, 5), mask(4, 5))),
    "masks of rows": (_assigned, lambda: (real(4, 5), mask(4))),
    "masked": (
        lambda x, m: (
            x.masked_fill(m, -1),
            x.masked_fill(m, -INF),
            x.masked_fill(m[0], x[0, 0]),
            x.masked_fill(~m, 2),
            x.masked_scatter(m, x.flip(0)),
        ),
        lambda: (real(3, 4), mask(3, 4)),
    ),
    "selected by a mask": (lambda x, m: x[m], lambda: (real(3, 4), mask(3, 4))),
    "sum of a mask's choice": (lambda x, m: x[m].sum(), lambda: (real(3, 4), mask(3, 4))),
    "positions of a mask": (lambda m: m.nonzero(), lambda: (mask(3, 4),)),
    "indices": (
        lambda x, i, j: (
            x[i],
            x[:, i],
            x[i, j],
            x[:, i, j],
            x[i, :, j],
            x[..., j],
            x[i][:, None],
            x[None, i],
            x[i[:, None], j],
            x[1],
            x[-1],
            x[..., None],
            x[:, -2:],
            x[::2],
            x[0, i],
            x[i, 0],
            x[:, None, i],
            x[i, 1:3],
            x[[0, 2]],
        ),
        lambda: (real(3, 4, 5), whole(-3, 3, 2), whole(-3, 3, 2)),
    ),
    "indices of integers": (
        lambda x, i: (
            x[i],
            x[i.int()],
            x[i, i],
            x.take(i),
            x.index_select(1, i),
            torch.take_along_dim(x, i[:, None], 1),
        ),
        lambda: (whole(-99, 99, 3, 4), whole(0, 3, 3)),
    ),
    "index_put": (
        lambda x, i, v: (
            x.index_put((i,), v),
            x.index_put((i,), v, accumulate=True),
            x.index_put((i, i), v[:, 0]),
            x.index_put((i,), v[0, 0]),
            x.index_add(0, i, v),
            x.index_add(0, i, v, alpha=2),
            x.index_copy(0, torch.tensor([2, 0, 1]), v),
            x.index_fill(0, i, 4.0),
            x.index_fill(1, i, -1),
        ),
        lambda: (real(3, 4), torch.tensor([0, 1, 1]), real(1, 4).expand(3, 4).contiguous()),
    ),
    "scatters": (
        lambda x, i, s: (
            x.scatter(1, i, s),
            x.scatter(1, i, 2.0),
            x.scatter_add(1, i, s),
            x.scatter(0, i, s, reduce="add"),
            x.scatter(-1, i, 1.5, reduce="multiply"),
            x.scatter(1, i[:2, :2], s),
            x.scatter_add(0, i[:1], s[:1]),
        ),
        lambda: (real(3, 4), torch.stack([torch.randperm(3) for _ in range(3)]), real(3, 3)),
    ),
    "scatter_reduce": (_reduced_scatter, lambda: (real(3, 4), whole(0, 4, 3, 5), real(3, 5))),
    "scatter_reduce integers": (
        _reduced_scatter,
        lambda: (whole(-9, 9, 3, 4), whole(0, 4, 3, 5), whole(-9, 9, 3, 5)),
    ),
    "sorts": (
        lambda x: (
            *x.sort(0),
            *x.sort(1, descending=True),
            *torch.sort(x, stable=True, dim=-1),
            x.argsort(1),
            x.argsort(0, descending=True),
            *x.topk(2),
            *x.topk(2, largest=False),
            *x.topk(3, 0, sorted=True),
            x.msort(),
        ),
        lambda: (real(4, 5),),
    ),
    "sorts of ties": (
        lambda x: (
            *torch.sort(x, stable=True),
            *torch.sort(x, stable=True, descending=True),
            *torch.sort(x, dim=0, stable=True),
        ),
        lambda: (whole(0, 3, 4, 9),),
    ),
    "sorts of one": (
        lambda x: (*x.sort(), *x.topk(1, 0), x.argsort(), *x.max(0), *x.median(0), *x.cummax(0)),
        lambda: (torch.tensor(3.0),),
    ),
    "selections": (
        lambda x: (
            *x.kthvalue(2, 1),
            *x.median(1),
            x.median(),
            *x.mode(1),
            *x.cummax(1),
            *x.cummin(0),
            x.quantile(0.3, 1),
            x.nanmedian(),
            x.diff(),
        ),
        lambda: (real(4, 5),),
    ),
    "searches": (
        lambda x, b: (
            torch.bucketize(x, b),
            torch.bucketize(x, b, right=True),
            torch.searchsorted(b, x),
            torch.searchsorted(b, x, right=True, out_int32=True),
            torch.isin(x, b),
            torch.bucketize(b, b),
        ),
        lambda: (real(3, 4), torch.tensor([-1.0, 0.0, 0.5, 2.0])),
    ),
    "searches by row": (
        lambda x, b: torch.searchsorted(b, x),
        lambda: (real(3, 4), real(3, 5).sort(1)[0]),
    ),
    "counts": (
        lambda i: (torch.bincount(i, minlength=9), torch.histc(i.float(), 5, 0, 9), i.unique()),
        lambda: (whole(0, 9, 12),),
    ),
}
