"""Inputs other than tensors of real numbers, and where refusals of them point."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from opinfo.frontend.checks.notes import without_notes
from opinfo.frontend.formats.from_torch import from_program
from opinfo.frontend.formats.importer import at_node

from .test_torch_programs import check, imported


class Optional(nn.Module):
    def forward(
        self, x: Any, scale: Any = None, adds: bool = True, k: int = 3, mode: str = "a",
        rest: Any = None
    ) -> Any:  # fmt: skip
        y = x * k + (1 if adds and mode == "b" else 0)
        return y if rest is None else y + rest


def test_inputs_that_the_export_fixes_are_dropped() -> None:
    x = torch.randn(2, 3)
    program = torch.export.export(Optional(), (x, None, True, 5, "b", x), strict=False)
    mod, notes = without_notes(from_program(program))
    assert [v.name for v in mod["main"].params] == ["x", "rest"]
    assert notes == ["the input adds is True, as the program was exported",
                     "the input k is 5, as the program was exported",
                     "the input mode is 'b', as the program was exported"]  # fmt: skip


def test_an_input_that_is_a_size_is_refused() -> None:
    program = torch.export.export(
        Optional(), (torch.randn(2, 3),), {"k": 4},
        dynamic_shapes={"x": {}, "k": torch.export.Dim.DYNAMIC}, strict=False)  # fmt: skip
    with pytest.raises(NotImplementedError, match=r"input k is a number that may vary.*a tensor"):
        from_program(program)


class Rotating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(9.0), torch.rand(4))
        self.register_buffer("rotations", torch.polar(torch.ones(9, 4), angles).conj())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(z * self.rotations[: x.shape[0]]).flatten(-2)


def test_complex_buffers_become_pairs() -> None:
    torch.manual_seed(0)
    runs = [(torch.randn(n, 8),) for n in (5, 2, 9)]
    check(Rotating(), *runs, shapes=({0: torch.export.Dim("n", max=9)},))


@pytest.mark.parametrize(
    ("function", "x", "message"),
    [
        (torch.view_as_complex, torch.randn(3, 2), r"test_\w+\.py:\d+ is complex.*view_as_real"),
        (torch.view_as_real, torch.ones(3) * 1j, "is complex64, expected real.*view_as_complex"),
    ],
    ids=["result", "input"],
)
def test_complex_inputs_and_results_are_refused(function: Any, x: Any, message: str) -> None:
    with pytest.raises(NotImplementedError, match=message):
        imported(lambda x: function(x), (x,))


def test_an_operator_in_a_branch_is_refused_with_the_line_of_the_program() -> None:
    def branches(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x.digamma(), lambda x: x.cos(), (x,))

    with pytest.raises(NotImplementedError, match=r"digamma\.default has no lowering") as error:
        imported(branches, (torch.randn(3),))
    assert "test_torch_" in at_node(error.value)
