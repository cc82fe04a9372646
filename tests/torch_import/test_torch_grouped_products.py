"""Layers of experts as `transformers` exports them: rows sorted by expert, products of groups.

And products of three tensors.
"""

from __future__ import annotations

import pytest
import torch
import transformers.integrations.moe  # noqa: F401  (it registers an operator)

from opinfo.frontend.formats.importer import at_node

from .test_torch_programs import check, imported

DYNAMIC = ({0: torch.export.Dim.DYNAMIC}, None, None)
#: The row behind each of four groups: an empty one, one without rows behind it, and all in one.
ENDS = ([2, 2, 5, 7], [0, 1, 1, 9], [9, 9, 9, 9])


def _runs(dtype: torch.dtype) -> list[tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    matrices = torch.randn(4, 8, 16).to(dtype)
    return [
        (torch.randn(ends[-1], 8).to(dtype), matrices, torch.tensor(ends, dtype=torch.int32))
        for ends in ENDS
    ]


def test_rows_are_multiplied_by_the_matrix_of_their_group() -> None:
    check(lambda x, w, e: torch._grouped_mm(x, w, offs=e), *_runs(torch.bfloat16), shapes=DYNAMIC)


def test_rows_behind_the_last_group_are_zeros() -> None:
    runs = _runs(torch.float32)
    runs.append((torch.randn(9, 8), *runs[0][1:]))
    op = torch.ops.transformers.grouped_mm_fallback
    check(lambda x, w, e: op(x, w, e), *runs, shapes=DYNAMIC)


def test_groups_of_columns_are_refused() -> None:
    x, w = torch.randn(8, 16).bfloat16(), torch.randn(16, 8).bfloat16()
    with pytest.raises(NotImplementedError, match="expected groups of rows") as error:
        imported(lambda x, w, e: torch._grouped_mm(x, w, offs=e),
                 (x, w, torch.tensor([8, 16], dtype=torch.int32)))  # fmt: skip
    assert "_grouped_mm" in at_node(error.value)


def test_elements_at_the_limits_of_a_histogram_are_in_its_outer_bins() -> None:
    torch.manual_seed(0)
    limits = torch.tensor([-1.0, 2.0, 0.0, 1 / 7, float("nan"), float("inf")])
    x = torch.cat([2 * torch.randn(100), limits])
    check(lambda x: torch.histc(x, bins=7, min=-1, max=2), (x,), (torch.linspace(-1, 2, 106),))
    experts = torch.arange(7).repeat(3).float()
    check(lambda x: torch.histc(x, bins=7, min=0, max=6), (experts,))
    with pytest.raises(NotImplementedError, match="depend on the data"):
        imported(lambda x: torch.histc(x, bins=7), (x,))


def test_views_and_empty_tensors_have_symbolic_extents() -> None:
    def sorted_back(x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1, 2)
        order = torch.arange(flat.shape[0]).flip(0)
        back = torch.empty_like(order)
        back[order] = torch.arange(flat.shape[0])
        return flat.view(x.shape[0] * 2, 2).view(-1, 2)[back] + 1

    x = torch.arange(12.0).reshape(3, 4)
    check(sorted_back, (x,), (x[:2],), shapes=({0: torch.export.Dim.DYNAMIC},))


def test_the_largest_elements_may_be_in_any_order() -> None:
    x = torch.randn(3, 7)
    check(lambda x: torch.topk(x, 2, dim=-1, sorted=False)[0].sum(-1), (x,))


def test_a_bilinear_layer_is_a_product_of_three() -> None:
    layer = torch.nn.Bilinear(4, 5, 3).eval()
    runs = [(torch.randn(n, 2, 4), torch.randn(n, 2, 5)) for n in (3, 1, 6)]
    check(layer, *runs, shapes=({0: torch.export.Dim.DYNAMIC},) * 2)
