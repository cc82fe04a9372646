"""Values and repeats whose number the program knows: a call fails if the data has another one.

Sums, norms, sorted integers, and views of memory.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from opinfo.frontend.formats.from_torch import from_program

from .test_torch_edges import INF, agrees, machine


def test_a_mask_chooses_as_many_elements_as_are_written() -> None:
    def written(x: torch.Tensor, rows: torch.Tensor, mask: torch.Tensor) -> Any:
        by_row, by_element, columns = x.clone(), x.clone(), x.clone()
        by_row[rows] = torch.tensor([[1.0], [2.0]])
        by_element[mask] = torch.arange(3.0)
        columns[:, mask[0]] = torch.tensor([5.0, 6.0])
        added = torch.index_put(x, (rows,), x[:2], accumulate=True)
        return by_row, by_element, columns, added

    x = torch.randn(4, 3)
    rows = torch.tensor([False, True, False, True])
    mask = torch.zeros(4, 3, dtype=torch.bool)
    mask[0, 0] = mask[0, 2] = mask[3, 1] = True
    agrees(written, (x, rows, mask), (x, rows.flip(0), mask))
    with pytest.raises(Exception, match="a mask chooses another number of elements than 2, the"):
        machine(written, (x, rows, mask))(x, ~rows | rows, mask)


def test_a_mask_chooses_no_more_elements_than_the_source_has() -> None:
    x, few = torch.randn(3, 4), torch.arange(12).view(3, 4) % 2 == 0
    call = machine(lambda x, mask, y: (x.masked_scatter(mask, y),), (x, few, torch.arange(7.0)))
    for y in (torch.arange(7.0), -torch.arange(7.0)):
        torch.testing.assert_close(call(x, few, y)[0], x.masked_scatter(few, y))
    with pytest.raises(Exception, match="chooses more elements than masked_scatter's source has"):
        call(x, few | (x > -9), torch.arange(7.0))


def test_repeats_of_a_known_sum() -> None:
    def repeated(x: torch.Tensor, repeats: torch.Tensor) -> Any:
        return (torch.repeat_interleave(x, repeats, 0, output_size=6),)

    x, repeats = torch.randn(4, 3), torch.tensor([1, 0, 3, 2])
    call = machine(repeated, (x, repeats))
    for counts in (repeats, torch.tensor([0, 6, 0, 0]), torch.tensor([2, 2, 2, 0])):
        torch.testing.assert_close(call(x, counts)[0], repeated(x, counts)[0])
    for counts in (repeats + 1, torch.tensor([7, -1, 0, 0])):
        with pytest.raises(Exception, match="the repeats are not 6 in all, or one is below 0"):
            call(x, counts)


def test_elements_are_put_and_reduced_by_index() -> None:
    def put(x: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> Any:
        modes = ("prod", "mean", "amax", "amin")
        return (x.put(places, rows[0]), x.put(places, rows[0], accumulate=True),
                *(x.index_reduce(-1, places.abs(), rows, mode) for mode in modes),
                x.index_reduce(1, places.abs(), rows, "mean", include_self=False))  # fmt: skip

    agrees(put, (torch.randn(2, 5), torch.tensor([1, -4, 2]), torch.randn(2, 3)))


def test_whether_all_or_any_are_true() -> None:
    ops = torch.ops.aten

    def truths(x: torch.Tensor) -> Any:
        return ops._is_all_true(x), ops._is_any_true(x)

    call = machine(truths, (torch.ones(3, dtype=torch.bool),))
    for values in ([True] * 3, [False] * 3, [True, False, True]):
        assert [bool(t) for t in call(torch.tensor(values))] == [all(values), any(values)]


def test_a_condition_may_be_a_value() -> None:
    def chosen(mask: torch.Tensor, x: torch.Tensor) -> Any:
        return torch.where(mask, mask, x), torch.where(mask, x, mask), torch.where(mask, mask, mask)

    agrees(chosen, (torch.tensor([True, False, True]), torch.tensor([5, -3, 2**40])))


def test_repeats_as_often_as_an_axis_is_long() -> None:
    n = {0: torch.export.Dim("n", min=2, max=64)}
    agrees(lambda x, y: (x.repeat(y.shape[0], 2, 1), x[0].repeat(1, y.shape[0])),
           *((torch.randn(2, 3), torch.randn(n)) for n in (4, 7)), shapes=(None, n))  # fmt: skip


def test_sums_are_of_the_type_that_is_asked_for() -> None:
    def sums(x: torch.Tensor, y: torch.Tensor) -> Any:
        wide = y.cumsum(0, dtype=torch.float64)
        return ((x > 3).cumsum(0, dtype=torch.float32), x.cumsum(0, dtype=torch.float32),
                x.cumprod(0, dtype=torch.float32), wide == y.double().cumsum(0))  # fmt: skip

    x = torch.tensor([2**30, 2**30, 2**30, 7], dtype=torch.int32)
    agrees(sums, (x, torch.tensor([1.0, 2.0**-30, 2.0**-30, 3.0])))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16])
def test_short_integers_are_sorted(dtype: torch.dtype) -> None:
    """TVM's sort for CPUs takes none of these dtypes."""
    torch.manual_seed(0)
    x = torch.randint(0, 9, (3, 5)).to(dtype)
    agrees(lambda x: (*x.sort(dim=1, stable=True), *x.sort(descending=True)), (x,))


def test_norms_of_all_orders_along_axes() -> None:
    norm = torch.linalg.vector_norm

    def norms(x: torch.Tensor) -> Any:
        apart = norm(x, 2, 1, dtype=torch.float64) - norm(x.double(), 2, 1)
        several = [norm(x, p, (0, -1), keepdim=True) for p in (0, 0.5, 1, 2, 3, -1, INF, -INF)]
        whole = [norm(x), norm(x, 0), norm(x[0, 0], -INF), x.norm(0, 1)]
        return [*whole, apart.abs() < 1e-12, *several]

    agrees(norms, (torch.tensor([[[0.0, 3.0], [-4.0, 0.1]], [[0.3, 1e-3], [7.0, -2.0]]]),))
    agrees(lambda x: (norm(x, -INF, 0),), (torch.tensor([INF, -INF]),))


def test_views_by_strides() -> None:
    def views(x: torch.Tensor) -> Any:
        n = x.shape[0]
        return (x.as_strided((4, n), (1, 4)), x.as_strided((n - 1, 5), (4, 1), 1),
                x.as_strided((n, 4), (4, 1)),
                x.mT.contiguous().as_strided((n, 4), (1, n)))  # fmt: skip

    agrees(
        views, *((torch.randn(n, 4),) for n in (5, 3, 8)), shapes=({0: torch.export.Dim.DYNAMIC},)
    )


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (lambda x: x.t().as_strided((3, 2), (2, 1)), "the memory of a view"),
        (lambda x: x[1:].as_strided((3,), (1,), 0), "the memory of a view"),
        (lambda x: x[:1].as_strided((6,), (1,)), "reads up to element 5"),
    ],
)
def test_views_of_memory_that_is_not_the_operands_are_refused(view: Any, reason: str) -> None:
    program = torch.export.export(_Viewed(view), (torch.randn(2, 3),), strict=False)
    with pytest.raises(NotImplementedError, match=reason):
        from_program(program)


class _Viewed(torch.nn.Module):
    def __init__(self, view: Any) -> None:
        super().__init__()
        self.view = view

    def forward(self, x: torch.Tensor) -> Any:
        return self.view(x) * 2
