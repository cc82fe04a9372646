"""Fast functions in kernels whose results are halves."""

from __future__ import annotations

import re
from math import erfc, pi
from typing import Any

import numpy as np
import pytest
from tvm import relax

from opinfo.byoc.backends.nvidia.passes.fast_functions import with_fast_functions
from opinfo.byoc.backends.nvidia.tvm_schedules import scheduled

from ...common.interpret import interpret
from ...common.machine import execute
from .gpu_cases import TARGET, kernel_of, net, nn, op, operands, prim_func

FUNCTIONS: dict[str, Any] = {
    "sigmoid": lambda e, x: e(op.sigmoid(x)),
    "silu": lambda e, x: e(nn.silu(x)),
    "softmax": lambda e, x: e(nn.softmax(x)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_functions_are_the_same(name: str) -> None:
    func = prim_func(FUNCTIONS[name], (4, 72))
    kernel = with_fast_functions(kernel_of(func))
    assert "opinfo_exp" in kernel.script()
    values = operands(func)
    for got, want in zip(execute(kernel, values), interpret(func, values), strict=True):
        np.testing.assert_allclose(got, want, 1e-6, 1e-9)


@pytest.mark.parametrize(("build", "exact"), [
    (lambda e, x: e(nn.gelu(x)), lambda x: x / 2 * np.vectorize(erfc)(-x / 2**0.5)),
    (lambda e, x: e(nn.gelu_tanh(x)), lambda x: x / (1 + np.exp(
        -2 * (2 / pi) ** 0.5 * (x + 0.044715 * x**3)))),
])  # fmt: skip
def test_a_gelu_is_exact_to_a_fraction_of_a_half(build: Any, exact: Any) -> None:
    """Also where it is a small difference: erf(-4) + 1 is 1.5e-8."""
    kernel = with_fast_functions(kernel_of(prim_func(build, (1, 4096))))
    assert "opinfo_exp" in kernel.script()
    x = np.linspace(-9, 9, 4096)[None]
    (got,) = execute(kernel, [x])
    np.testing.assert_allclose(got, exact(x), 2**-17, 1e-12)


def test_the_error_function_itself_stays_exact() -> None:
    """Near 0 it is small: 1 + erf(x) - 1 would have few digits."""
    kernel = kernel_of(prim_func(lambda e, x: e(op.erf(x)), (4, 72)))
    assert "__" not in with_fast_functions(kernel).script().partition("for block")[2]


def test_the_logarithm_of_a_tiny_sigmoid_is_finite() -> None:
    """It is a float32 that is subnormal, of which a half is the logarithm."""

    def build(emit: Any, x: Any) -> Any:
        wide = emit(op.sigmoid(emit(op.astype(x, "float32"))))
        return emit(op.astype(emit(op.log(wide)), "float16"))

    kernel = with_fast_functions(kernel_of(prim_func(build, (1, 8))))
    assert "opinfo_exp" in kernel.script()
    x = np.array([[-100.0, -88.5, -88.0, -87.5, -20.0, 0.0, 20.0, 88.5]])
    (got,) = execute(kernel, [x])
    np.testing.assert_allclose(got, -np.logaddexp(0, -x), 1e-6, 1e-9)


def test_results_in_float32_have_exact_functions() -> None:
    kernel = kernel_of(prim_func(FUNCTIONS["silu"], (4, 72), dtype="float32"))
    assert with_fast_functions(kernel) is kernel


def test_halves_are_computed_in_float32() -> None:
    kernel = with_fast_functions(kernel_of(prim_func(FUNCTIONS["sigmoid"], (4, 72))))
    (value,) = set(re.findall(r'func_call\("opinfo_exp".*return_type="(\w+)"', kernel.script()))
    assert value == "float32"


def test_kernels_of_models_have_them() -> None:
    from opinfo.byoc.prepare.fuse import fuse
    from opinfo.byoc.prepare.prepare import prepare

    mod = scheduled(fuse(prepare(net(FUNCTIONS["silu"], (4, 72)))), TARGET)
    assert "opinfo_rcp" in mod.script()


def quotient(emit: Any, x: Any, y: Any) -> Any:
    return emit(op.divide(x, y))


def test_a_quotient_of_halves_has_the_limits_of_a_division() -> None:
    kernel = with_fast_functions(kernel_of(prim_func(quotient, (2, 8), (2, 8))))
    assert "opinfo_rcp" in kernel.script()
    inf, nan = np.inf, np.nan
    x = np.array([[1, -1, 0, inf, inf, 65504, 6e-8, nan], [3, 0, 5, -2, 1, 6e-8, 65504, 1]])
    y = np.array([[0, 0, 0, inf, 2, 6e-8, 65504, 1], [7, 3, inf, -inf, 1, 6e-8, 6e-8, nan]])
    with np.errstate(all="ignore"):
        (got,) = execute(kernel, [x, y])
        np.testing.assert_allclose(got, x / y, 2**-22)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_other_quotients_stay(dtype: str) -> None:
    """Divisors of bfloat16 may be subnormal float32 numbers, or larger than 2**126."""
    kernel = kernel_of(prim_func(quotient, (2, 8), (2, 8), dtype=dtype))
    assert " / " in with_fast_functions(kernel).script()
    assert "opinfo_rcp" not in with_fast_functions(kernel).script()


def test_exponentials_may_be_subnormal() -> None:
    def build(emit: Any, x: Any) -> Any:
        wide = emit(op.exp(emit(op.astype(x, "float32"))))
        return emit(op.astype(wide, "bfloat16"))

    x = np.array([[-100.0, -88.0, -87.0, -20.0, 0.0, 20.0, 88.0, -np.inf]])
    kernel = with_fast_functions(kernel_of(prim_func(build, (1, 8, "bfloat16"))))
    assert "opinfo_exp" in kernel.script()
    (got,) = execute(kernel, [x])
    np.testing.assert_allclose(got, np.exp(x), 1e-6)


def wide(emit: Any, build: Any, *xs: Any) -> Any:
    """A function of float32, of halves and rounded to halves."""
    inside = build(emit, *(emit(op.astype(x, "float32")) for x in xs))
    return emit(op.astype(inside, "float16"))


def exponentials(combine: Any) -> Any:
    return lambda e, x, y: wide(e, lambda e, a, b: combine(e, e(op.exp(a)), b), x, y)


@pytest.mark.parametrize(("build", "x", "y"), [
    (exponentials(lambda e, a, b: op.divide(a, e(op.exp(b)))), -90.0, -90.0),
    (exponentials(lambda e, a, b: op.divide(a, e(op.sigmoid(b)))), -90.0, -90.0),
    (exponentials(lambda e, a, b: op.multiply(a, e(op.exp(b)))), -88.0, 88.0),
    (exponentials(lambda e, a, b: op.multiply(a, e(op.sigmoid(b)))), 88.0, -88.0),
    (exponentials(lambda e, a, b: op.add(e(op.ceil(a)), b)), -88.0, 0.0),
    (exponentials(lambda e, a, b: op.astype(e(op.greater(a, b)), "float32")), -88.0, 0.0),
])  # fmt: skip
def test_halves_may_depend_on_subnormal_exponentials(build: Any, x: float, y: float) -> None:
    """e^-90 / e^-90 is 1, where 0 / 0 is not a number."""
    kernel = with_fast_functions(kernel_of(prim_func(build, (4, 64), (4, 64))))
    assert "opinfo_exp" in kernel.script()
    (got,) = execute(kernel, [np.full((4, 64), x), np.full((4, 64), y)])
    np.testing.assert_allclose(got, np.ones((4, 64)), 1e-6)


def test_one_and_an_exponential_is_a_divisor() -> None:
    def build(emit: Any, x: Any) -> Any:
        one = relax.const(1.0, "float32")
        return wide(emit, lambda e, a: e(op.divide(one, e(op.add(one, e(op.exp(a)))))), x)

    kernel = with_fast_functions(kernel_of(prim_func(build, (1, 8))))
    assert "opinfo_exp" in kernel.script()
    x = np.array([[-1e4, -100.0, -88.0, -3.0, 0.0, 4.0, 60.0, 1e4]])
    with np.errstate(over="ignore"):
        (got,) = execute(kernel, [x])
        np.testing.assert_allclose(got, 1 / (1 + np.exp(x)), 1e-6)
