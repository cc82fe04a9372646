"""Quotients, signs, powers and special functions of torch at their edges."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ..test_torch_edges import INF, agrees, machine
from ..test_torch_programs import imported


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor([7, -7, 7, -7, 6, -6, 0, 1, -128], dtype=dtype)
    y = torch.tensor([3, 3, -3, -3, 3, 3, -3, 2, -1], dtype=dtype)
    return x, y


def test_quotients_of_integers_of_all_signs() -> None:
    def quotients(x: Any, y: Any) -> Any:
        return (x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc"), x // -2,
                7 // y, 7 % y, x // -1, torch.fmod(x, -2))  # fmt: skip

    agrees(quotients, pairs(torch.int64))
    agrees(lambda x, y: (x // y, x % y), pairs(torch.int8))


def test_an_integer_divided_by_0_fails_without_ending_the_process() -> None:
    x, y = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 1])
    call = machine(lambda x, y: (x // y, x % y), (x, y))
    call(x, y)
    with pytest.raises(Exception, match="an integer is divided by 0"):
        call(x, torch.tensor([1, 0, 1]))
    least = torch.tensor([-(2**63), 1, 2])
    assert call(least, -y)[0].tolist() == [-(2**63), -1, -2]


def test_quotients_of_real_numbers_are_those_of_remainders() -> None:
    def quotients(x: Any, y: Any) -> Any:
        return (x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc"), x // 0.0,
                x / 0, x % -1.5, torch.fmod(x, 1.5), 2.5 // y, 2.5 % y)  # fmt: skip

    agrees(quotients, (torch.tensor([5.5, -5.5, 5.5, -5.5, 0.3, 6.0, 0.0]),
                       torch.tensor([2.0, 2.0, -2.0, -2.0, 0.1, 3.0, -3.0])))  # fmt: skip


def test_negation_of_unsigned_integers() -> None:
    agrees(lambda x: (-x,), (torch.tensor([0, 1, 200, 255], dtype=torch.uint8),))


def test_signs_and_roots() -> None:
    x = torch.tensor([INF, -INF, 0.0, -0.0, 2.5, -1.5])
    agrees(lambda x: (x.signbit(), x.isfinite(), x**0.5, x**-0.5, x.long().clamp(-9, 9).signbit()),
           (x,))  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int8])
def test_signs_of_integers(dtype: torch.dtype) -> None:
    agrees(lambda x: (x.sign(),), (torch.tensor([0, 1, 1, 0, 3]).to(dtype),))


def test_powers_and_special_functions() -> None:
    torch.manual_seed(0)
    x, n = (
        torch.cat([torch.randn(9), torch.tensor([4.0, -4.0, 4 * 0.999999])]),
        torch.arange(-2, 10),
    )
    agrees(lambda x, n: (x.erfc(), (x / 4).erfinv(), x.exp2(), torch.fmax(x, x.flip(0)), x**n,
                         torch.hypot(x, x + 1), torch.copysign(x, -x), n**n, 2**n, (-1) ** n),
           (x, n))  # fmt: skip


def test_a_divisor_that_is_constant_needs_no_assertion() -> None:
    three = torch.tensor([3, 2, -5])
    functions = (
        lambda x: x // torch.tensor(3), lambda x: x % torch.full((3,), 2),
        lambda x: x // three.clone().detach(), lambda x: x % three.to(torch.int64, copy=True),
    )  # fmt: skip
    for function in functions:
        assert "assert" not in imported(function, (torch.tensor([7, -7, 0]),)).script()
        agrees(lambda x, f=function: (f(x),), (torch.tensor([7, -7, 0]),))
    for function in (lambda x: x // torch.tensor(0), lambda x: x % torch.full((3,), 0),
                     lambda x: x // torch.tensor(0.5).long()):  # fmt: skip
        with pytest.raises(Exception, match="an integer is divided by 0"):
            machine(function, (torch.tensor([7, -7, 0]),))(torch.tensor([7, -7, 0]))
    small = torch.tensor([7], dtype=torch.int8)
    with pytest.raises(Exception, match="an integer is divided by 0"):
        machine(lambda x: x // torch.full((), 256), (small,))(small)


@pytest.mark.parametrize("name", ["erfc", "erfinv"])
def test_special_functions_of_float64_are_refused(name: str) -> None:
    with pytest.raises(NotImplementedError, match=rf"{name}.*float64.*cast.*float32"):
        imported(lambda x: getattr(torch, name)(x), (torch.rand(3).double(),))


def test_a_hypotenuse_of_an_infinity_is_one() -> None:
    nan = float("nan")
    x = torch.tensor([INF, nan, -INF, nan, nan, 0.0, INF, 1.0])
    y = torch.tensor([nan, -INF, nan, 1.0, nan, 0.0, -INF, nan])
    agrees(lambda x, y: (torch.hypot(x, y),), (x, y))


def test_the_logarithm_of_gamma_at_poles_roots_and_below_zero() -> None:
    near = [0.0, -0.0, 1.0, 2.0, 1 + 2**-23, 2 - 2**-23, 1e-40, -1e-40, 3e38, -INF, INF, -3.0,
            -2.4570246, -8388607.5, 0.49999997, 7.9999995, 8.0, float("nan")]  # fmt: skip
    grid = torch.cat([torch.linspace(-20, 20, 401), torch.logspace(-30, 30, 61)])
    x = torch.cat([torch.tensor(near), grid])
    (got,) = machine(lambda x: (x.lgamma(),), (x,))(x)
    torch.testing.assert_close(got, x.double().lgamma().float(), rtol=1e-6, atol=0, equal_nan=True)
    agrees(lambda x, n: (x.lgamma(), n.lgamma()), (x.double(), torch.arange(-2, 9)))
    large = torch.tensor([-1e300, -3e305, -1e308, 1e308], dtype=torch.float64)
    agrees(lambda x: (x.lgamma(),), (large,))
