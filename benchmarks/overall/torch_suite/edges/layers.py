"""Layers of models, and what is refused."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from .inputs import INF, Edges, mask, real, whole


def _attention(q: Any, k: Any, v: Any, mask: Any, bias: Any) -> Any:
    attend = F.scaled_dot_product_attention
    return (attend(q, k, v), attend(q, k, v, is_causal=True), attend(q, k, v, mask),
            attend(q, k, v, bias, scale=0.3),
            attend(q, k[:, :2], v[:, :2], enable_gqa=True))  # fmt: skip


EDGES: Edges = {
    "norms": (
        lambda x, w: (
            F.layer_norm(x, (5,)),
            F.layer_norm(x, (4, 5), x[0, 0], x[0, 1], 1e-3),
            F.group_norm(x.transpose(1, 2), 2),
            F.instance_norm(x),
            F.batch_norm(x, w[:3], w[:3].abs(), w[1:], w[:3]),
            F.rms_norm(x, (5,)),
            F.normalize(x, dim=1),
            F.local_response_norm(x, 3),
            F.batch_norm(x, None, None, training=True),
            F.cosine_similarity(x, x.flip(1), -1),
        ),
        lambda: (real(2, 3, 4, 5)[:, :, :, :], real(4)),
    ),
    "norms in float16": (
        lambda x: (
            F.layer_norm(x, (6,)),
            F.group_norm(x, 2),
            F.rms_norm(x, (6,)),
            F.instance_norm(x),
            F.softmax(x, 1),
            F.log_softmax(x, -1),
        ),
        lambda: (real(2, 4, 6).half(),),
    ),
    "norms in float64": (
        lambda x: (
            F.layer_norm(x, (6,)),
            F.group_norm(x, 2),
            F.instance_norm(x),
            F.batch_norm(x, x[0, :, 0], x[0, :, 1].abs()),
        ),
        lambda: (real(2, 4, 6).double(),),
    ),
    "softmax of infinities": (
        lambda x: (x.softmax(-1), x.log_softmax(-1), F.softmin(x, -1), x.softmax(0)),
        lambda: (torch.tensor([[0.0, -INF, 1.0], [200.0, -200.0, 0.0]]),),
    ),
    "embeddings": (
        lambda i, w: (
            F.embedding(i, w),
            F.embedding(i, w, padding_idx=1),
            F.embedding_bag(i, w),
            F.embedding_bag(i, w, mode="sum"),
            F.embedding_bag(i, w, mode="max"),
            F.one_hot(i, 7),
        ),
        lambda: (whole(0, 7, 2, 5), real(7, 3)),
    ),
    "embedding bags of offsets": (
        lambda i, o, w: (
            F.embedding_bag(i, w, o),
            F.embedding_bag(i, w, o, mode="sum"),
            F.embedding_bag(i, w, o, mode="max"),
        ),
        lambda: (whole(0, 7, 10), torch.tensor([0, 3, 3, 8]), real(7, 3)),
    ),
    "attention": (
        _attention,
        lambda: (
            real(2, 4, 5, 8),
            real(2, 4, 6, 8),
            real(2, 4, 6, 8),
            mask(5, 6) | torch.eye(5, 6).bool(),
            real(2, 1, 5, 6),
        ),
    ),
    "attention in float16": (
        lambda q, k, v: (
            F.scaled_dot_product_attention(q, k, v),
            F.scaled_dot_product_attention(q, k, v, is_causal=True),
        ),
        lambda: (real(2, 2, 5, 8).half(), real(2, 2, 6, 8).half(), real(2, 2, 6, 8).half()),
    ),
    "attention to nothing": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        lambda: (
            real(1, 2, 3, 4),
            real(1, 2, 3, 4),
            real(1, 2, 3, 4),
            torch.tensor([[True, False, True], [False] * 3, [True] * 3]),
        ),
    ),
    "products": (
        lambda x, y, v: (
            x @ y,
            x @ v,
            v @ x.t()[:, :3],
            torch.einsum("ij,jk->ik", x, y),
            torch.einsum("ij->ji", x),
            torch.einsum("ij,ij->i", x, x),
            torch.outer(v, v),
            torch.dot(v, v),
            torch.addmm(x @ y, x, y, beta=0.5, alpha=2),
            torch.baddbmm(x[None] @ y, x[None], y[None], beta=0),
            torch.tensordot(x, y, 1),
            torch.cdist(x, x + 1),
            torch.cdist(x, x + 1, p=1),
            torch.cdist(x, x.flip(0) * 2, p=INF),
            torch.linalg.vector_norm(x, 3, 1),
            torch.cross(x[:, :3], x[:, 1:], dim=1),
        ),
        lambda: (real(3, 4), real(4, 3), real(4)),
    ),
    "products of integers": (
        lambda x, y: (
            x @ y,
            x.int() @ y.int(),
            torch.einsum("ij,jk->ik", x, y),
            torch.mm(x, y).sum(),
            x.to(torch.int8) @ y.to(torch.int8),
        ),
        lambda: (whole(-9, 9, 3, 4), whole(-9, 9, 4, 3)),
    ),
    "products in halves": (
        lambda x, y: (
            x @ y,
            torch.addmm(x @ y, x, y, beta=0.5, alpha=2),
            F.linear(x, y.t()),
            torch.bmm(x[None], y[None]),
        ),
        lambda: (real(3, 64).half(), real(64, 3).half()),
    ),
    "losses": (
        lambda x, y, i: (
            F.mse_loss(x, y),
            F.l1_loss(x, y, reduction="sum"),
            F.smooth_l1_loss(x, y),
            F.cross_entropy(x, i),
            F.nll_loss(x.log_softmax(1), i),
            F.binary_cross_entropy_with_logits(x, y.sigmoid()),
            F.kl_div(x, y.softmax(1), reduction="batchmean"),
            F.huber_loss(x, y),
            F.cross_entropy(x, y.softmax(1)),
            F.cross_entropy(x, i, ignore_index=1, label_smoothing=0.1),
        ),
        lambda: (real(4, 5), real(4, 5), whole(0, 5, 4)),
    ),
    "complex": (lambda x: torch.fft.rfft(x).abs(), lambda: (real(2, 8),)),
    "complex sums": (lambda x: torch.view_as_real(torch.fft.fft(x)), lambda: (real(2, 8),)),
    "random": (
        lambda x: F.dropout(x, 0.5, training=True) + torch.rand_like(x) * 0,
        lambda: (real(4),),
    ),
    "linear algebra": (
        lambda x: (
            torch.linalg.inv(x),
            torch.linalg.det(x),
            torch.linalg.cholesky(x @ x.t()),
            torch.trace(x),
            torch.linalg.solve(x, x),
        ),
        lambda: (torch.eye(3) + 0.1 * real(3, 3),),
    ),
    "matrix powers": (
        lambda x: (
            torch.linalg.matrix_power(x, 3),
            torch.trace(x),
            torch.linalg.vander(x[0]),
            torch.linalg.norm(x),
            torch.linalg.norm(x, 1),
            x.trapezoid(),
            torch.linalg.multi_dot([x, x, x]),
            torch.chain_matmul(x, x),
        ),
        lambda: (real(3, 3),),
    ),
}
