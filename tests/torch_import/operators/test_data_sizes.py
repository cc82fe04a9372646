"""Sizes of torch programs that are data: numbers of tensors, and how many elements are chosen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opinfo
from opinfo.frontend.checks.normalise_module import tidy
from tests.torch_import.test_torch_edges import agrees, machine
from tests.torch_import.test_torch_programs import imported

NAN = float("nan")
ROWS = {0: torch.export.Dim("rows", min=1, max=64)}


def test_elements_that_a_mask_chooses() -> None:
    def chosen(x: Any, mask: Any, rows: Any) -> Any:
        return (x[mask].cumsum(0), torch.masked_select(x, rows[:, None]) * 2, x[rows].softmax(-1),
                x[:, mask[0]] + 1, x.nonzero(), (x > 0).nonzero(), x[rows] @ x.T)  # fmt: skip

    torch.manual_seed(0)
    x = torch.tensor([[0.0, -0.0, NAN], [1, 0, -2], [0, 3, 0], [-1, 2, 0]])
    mask, rows = x > 0, torch.tensor([True, False, True, True])
    more = torch.randn(7, 3)
    runs = [(x, mask, rows), (x, mask & False, ~rows), (x, mask | True, rows | True),
            (more, more > 0, more[:, 0] > 0)]  # fmt: skip
    agrees(chosen, *runs, shapes=(ROWS, ROWS, ROWS))


def test_repeats_and_masks_of_as_many_frames_as_the_data_says() -> None:
    """As text to speech does: durations decide how many frames there are."""

    class Frames(nn.Module):
        def forward(self, x: Any, durations: Any) -> Any:
            count = durations.sum().item()
            torch._check(count >= 0)
            places = torch.arange(count)
            ends = durations.cumsum(0)
            path = (places[:, None] < ends) & (places[:, None] >= ends - durations)
            again = torch.repeat_interleave(x, durations, 0)
            return path.to(x.dtype) @ x, again * 2, torch.zeros(2 * count + 1).cumsum(0) + 1

    torch.manual_seed(0)
    runs = [(torch.randn(len(d), 3), torch.tensor(d)) for d in ([1, 0, 3, 2], [0, 0], [5])]
    agrees(Frames(), *runs, shapes=(ROWS, ROWS))
    compiled = opinfo.compile(tidy(imported(Frames(), runs[0], (ROWS, ROWS))), [])
    for x, durations in runs:
        for got, expected in zip(compiled.run(x.numpy(), durations.numpy()),
                                 Frames()(x, durations), strict=True):  # fmt: skip
            torch.testing.assert_close(torch.from_numpy(got), expected)


def test_a_size_that_is_negative_fails() -> None:
    def less(x: Any) -> Any:
        count = x.item()
        torch._check(count >= 2)
        return (torch.ones(count - 2).cumsum(0),)

    call = machine(less, (torch.tensor(5),))
    torch.testing.assert_close(call(torch.tensor(3))[0], torch.ones(1))
    for number in (-1, 1):
        with pytest.raises(Exception, match="match_cast"):
            call(torch.tensor(number))


def test_a_view_takes_the_size_that_the_program_declares() -> None:
    """TVM's quotient for -1 was not simplified, and what read it had no shape."""

    def heads(x: Any) -> Any:
        y = F.conv1d(x[:, None], torch.ones(4, 1, 20), stride=10)
        n = y.shape[2]
        scores = y.transpose(1, 2) @ y
        gated = (y.transpose(1, 2)[..., :1] * torch.ones(n)).view(-1, n, n)
        return (gated + scores + 1,)

    runs = [(torch.randn(2, n),) for n in (400, 640)]
    agrees(heads, *runs, shapes=({1: torch.export.Dim.DYNAMIC},))


def test_operands_of_one_size_in_other_forms() -> None:
    """As scans over chunks have them: 8 * (m // 8) and m, a multiple of 8."""

    def chunks(x: Any) -> Any:
        n = x.shape[0]
        padded = F.pad(x, (0, -n % 8))
        sums = padded.view(-1, 8).cumsum(1)
        again = sums.reshape(sums.shape[0] * (padded.shape[0] // sums.shape[0]))
        return (again * padded[:, None].sum(1) + padded.abs(), again[:n] + x)

    agrees(chunks, *((torch.randn(n),) for n in (13, 16, 25)),
           shapes=({0: torch.export.Dim.DYNAMIC},))  # fmt: skip


SLICES = {
    "behind an end": lambda x: x[5:9], "each other": lambda x: x[1::2] + x[1::2],
    "a late start": lambda x: x[3::2], "from both ends": lambda x: x[-7:-2],
    "steps before an end": lambda x: x[2:-1:3],
    "both halves": lambda x: torch.cat([x[::2], x[1::2]]),
}  # fmt: skip


@pytest.mark.parametrize("name", SLICES)
def test_a_slice_of_too_few_chosen_elements_is_empty(name: str) -> None:
    rows = torch.arange(8)
    x = torch.arange(24.0).reshape(8, 3)
    runs = [(x, rows < count) for count in (8, 0, 1, 2, 4, 6)]
    agrees(lambda x, mask: (SLICES[name](x[mask]) * 2,), *runs, shapes=(ROWS, ROWS))


def test_tensors_of_sizes_that_the_program_says_are_equal_are_joined() -> None:
    def joined(left: Any, right: Any) -> Any:
        a, b = left.nonzero(), right.nonzero()
        torch._check(a.shape[0] == b.shape[0])
        return torch.cat([a, b], 1), torch.stack([a, b])

    even, odd = torch.arange(8) % 2 == 0, torch.arange(8) % 2 == 1
    agrees(joined, (even, odd), (even & False, odd & False), shapes=(ROWS, ROWS))
    call = machine(joined, (even, odd), (ROWS, ROWS))
    with pytest.raises(Exception, match="match_cast"):
        call(even, odd | True)
