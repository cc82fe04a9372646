"""Divisors of integers, scaling by powers of 2, and diagonals that are replaced, as torch does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

import opinfo
from opinfo.frontend.formats.from_torch import from_program
from tests.torch_import.test_torch_edges import INF, agrees, machine

ROWS, MORE = Dim("rows", min=1, max=64), Dim("more", min=1, max=100)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_divisors_and_multiples(dtype: torch.dtype) -> None:
    x, y = torch.tensor([[0], [12], [35], [97]]), torch.tensor([0, 18, 21, 1])
    if dtype != torch.uint8:
        x, y = torch.cat([x, -x]), torch.cat([y, -y])
    x, y = x.to(dtype), y.to(dtype)
    agrees(lambda x, y: (torch.gcd(x, y), torch.gcd(y, x)), (x, y))
    agrees(lambda x, y: (torch.lcm(x, y),), (x // 8, y // 3))


def test_divisors_of_mixed_types_and_of_any_number() -> None:
    x, y = torch.tensor([12, -18, 7], dtype=torch.int8), torch.tensor([[2**40], [6]])
    agrees(lambda x, y: (torch.gcd(x, y),), (x, y))
    many, six = torch.arange(9), torch.tensor([6])
    agrees(
        lambda x, y: (torch.gcd(x, y),),
        (many, six),
        (many[7:].clone(), six),
        shapes=({0: ROWS}, None),
    )
    agrees(lambda x, y: (torch.gcd(x, y),), (torch.tensor(12), torch.tensor(8)))
    agrees(lambda x, y: (torch.gcd(x, y),), (torch.zeros(0, 3, dtype=torch.int64), x.long()))


def test_a_division_of_the_least_integer_by_minus_1_does_not_end_the_process() -> None:
    least = torch.tensor([-(2**63), -(2**63), -(2**63) + 1])
    call = machine(lambda x, y: (torch.gcd(x, y),), (least, least.flip(0)))
    got = call(least, least.flip(0))[0]
    assert [abs(int(v)) for v in got] == [1, 2**63, 1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_powers_of_2_are_exact_where_they_overflow_alone(dtype: torch.dtype) -> None:
    x = torch.tensor([1e-6, -3.0, 0.0, INF, 1.5]).to(dtype)
    by = torch.tensor([140, -120, 300, -5, 3])
    agrees(lambda x, n: (torch.ldexp(x, n),), (x, by), (x, by.flip(0)))
    agrees(lambda x, n: (torch.ldexp(x, n),), (x[:, None], by.to(torch.float16) / 9))


def test_scaled_integers_are_floats() -> None:
    agrees(lambda x, n: (torch.ldexp(x, n),), (torch.tensor([3, 4]), torch.tensor([[-1], [2]])))


@pytest.mark.parametrize(
    ("shape", "source", "offset", "rows", "columns"),
    [((4, 5), (4,), 1, 0, 1), ((4, 5), (2,), -2, 0, 1), ((4, 3, 5), (3, 4), -1, 2, 0),
     ((4, 5), (0,), 5, 0, 1), ((2, 3, 3, 2), (3, 3, 1), 1, -1, 0)],
)  # fmt: skip
def test_a_diagonal_is_replaced(
    shape: Any, source: Any, offset: int, rows: int, columns: int
) -> None:
    def replaced(x: Any, y: Any) -> Any:
        return (torch.diagonal_scatter(x, y, offset, rows, columns),)

    agrees(replaced, (torch.randn(shape), torch.randn(source)))
    agrees(replaced, (torch.randn(shape).half(), torch.randn(source).half()))


def test_a_diagonal_of_any_length_fits_its_source() -> None:
    def replaced(x: Any, y: Any) -> Any:
        return (torch.diagonal_scatter(x, y, 1),)

    shapes = ({0: ROWS, 1: Dim("columns", min=2)}, {0: ROWS})
    good = torch.randn(5, 6), torch.randn(5)
    agrees(replaced, good, (torch.randn(3, 9), torch.randn(3)), shapes=shapes)
    call = machine(replaced, good, shapes)
    with pytest.raises(Exception, match="match_cast"):
        call(torch.randn(5, 4), torch.randn(5))


def test_a_source_of_another_size_is_refused() -> None:
    class Replaced(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.diagonal_scatter(x, y, -1, 2, 0)

    program = torch.export.export(Replaced(), (torch.randn(4, 3, 5), torch.randn(3, 3)))
    with pytest.raises(NotImplementedError, match=r"sizes \[3, 3\], expected .* \[3, 4\]"):
        from_program(program)


def test_scaling_compiles_for_any_shape(tmp_path: Any) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: Any, n: Any) -> Any:
            return torch.ldexp(x, n) + 1

    x, n = torch.randn(70), torch.arange(70) - 35
    program = torch.export.export(Scaled(), (x, n), dynamic_shapes=({0: MORE},) * 2)
    torch.export.save(program, tmp_path / "scaled.pt2")
    compiled = opinfo.compile(tmp_path / "scaled.pt2", [], shapes="jit")
    for size in (70, 3):
        got = compiled.run(x[:size], n[:size])
        expected = torch.ldexp(x[:size], n[:size]) + 1
        torch.testing.assert_close(torch.from_numpy(got[0]), expected)


def test_a_diagonal_that_is_computed_is_fused(tmp_path: Any) -> None:
    class Doubled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.diagonal_scatter(x.diagonal() * 2)

    program = torch.export.export(
        Doubled(), (torch.zeros(5, 6),), dynamic_shapes=({0: Dim("n", min=2, max=9)},)
    )
    torch.export.save(program, tmp_path / "doubled.pt2")
    compiled = opinfo.compile(tmp_path / "doubled.pt2", [])
    for rows in (3, 9):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(torch.from_numpy(compiled.run(x)[0]), Doubled()(x))
