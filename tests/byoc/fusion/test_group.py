"""Elementwise operators that are one function: which ones, and what else reads them."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tvm import relax

from opinfo.byoc import Code, Measure, Measured, Region, dispatch
from opinfo.byoc.backend.backend import Backend
from opinfo.byoc.patterns import unary_functions as unary
from opinfo.byoc.patterns.pattern import Pattern, many, one
from opinfo.byoc.patterns.unary_functions import ARGUMENT, applied, number

from ...layout import nets
from ...layout.nets import const

op = relax.op


def c(value: float) -> Any:
    return relax.const(value, "float32")


def hard(e: Any, v: Any, least: float = 0, most: float = 6, by: float = 6) -> Any:
    return e(op.multiply(v, e(op.divide(e(op.clip(e(op.add(v, c(3))), least, most)), c(by)))))


def tanh(e: Any, v: Any) -> Any:
    cube = e(op.multiply(e(op.multiply(e(op.multiply(v, v)), v)), c(0.044715)))
    inside = e(op.multiply(e(op.add(v, cube)), c(0.7978845608)))
    risen = e(op.add(c(1), e(op.tanh(inside))))
    return e(op.multiply(e(op.multiply(c(0.5), v)), risen))


def erf(e: Any, v: Any, by: float = 2**0.5, factor: float = 0.5) -> Any:
    risen = e(op.add(e(op.erf(e(op.divide(v, c(by))))), c(1)))
    return e(op.multiply(e(op.multiply(v, risen)), c(factor)))


def swish(e: Any, v: Any, times: float = -1) -> Any:
    return e(op.divide(v, e(op.add(c(1), e(op.exp(e(op.multiply(v, c(times)))))))))


FORMS: dict[str, tuple[Callable[..., Any], str]] = {
    "hard swish": (hard, unary.HARD_SWISH),
    "its bounds one by one": (
        lambda e, v: e(
            op.multiply(
                v, e(op.divide(e(op.minimum(e(op.nn.relu(e(op.add(v, c(3))))), c(6))), c(6)))
            )
        ),
        unary.HARD_SWISH,
    ),
    "its bounds the other way": (
        lambda e, v: e(
            op.multiply(
                v, e(op.divide(e(op.maximum(e(op.minimum(e(op.add(v, c(3))), c(6))), c(0))), c(6)))
            )
        ),
        unary.HARD_SWISH,
    ),
    "its factor last": (
        lambda e, v: e(op.divide(e(op.multiply(e(op.clip(e(op.add(c(3), v)), 0, 6)), v)), c(6))),
        unary.HARD_SWISH,
    ),
    "with a bound from each side": (
        lambda e, v: e(
            op.divide(
                e(op.multiply(v, e(op.minimum(e(relax.op.nn.relu(e(op.add(v, c(3))))), c(6))))),
                c(6),
            )
        ),
        unary.HARD_SWISH,
    ),
    "hard sigmoid first": (
        lambda e, v: e(
            op.multiply(e(op.clip(e(op.add(e(op.multiply(v, c(0.2))), c(0.5))), 0, 1)), v)
        ),
        unary.HARD_SWISH,
    ),
    "gelu": (erf, "relax.nn.gelu"),
    "gelu_tanh": (tanh, "relax.nn.gelu_tanh"),
    "silu": (lambda e, v: e(op.multiply(e(op.sigmoid(v)), v)), "relax.nn.silu"),
    "silu by exp": (swish, "relax.nn.silu"),
}
M = 12582912.0  # y + M - M rounds to whole numbers

OTHERS: dict[str, Callable[..., Any]] = {
    "bounds that are swapped": lambda e, v: hard(e, v, most=-6, by=-6),
    "rounded on purpose": lambda e, v: e(
        op.multiply(v, e(op.sigmoid(e(op.subtract(e(op.add(v, c(M))), c(M))))))
    ),
    "not from 0": lambda e, v: hard(e, v, least=-1),
    "not to 1": lambda e, v: hard(e, v, most=5),
    "another variance": lambda e, v: erf(e, v, by=1.5),
    "another factor": lambda e, v: erf(e, v, factor=0.4),
    "the other sign": lambda e, v: swish(e, v, times=1),
    "squared": lambda e, v: e(op.multiply(e(op.sigmoid(e(op.multiply(v, v)))), v)),
}


def taken(build: Callable[..., Any]) -> list[tuple[str, ...]]:
    """The calls of all regions of a backend that takes a convolution and any of these after it."""
    seen: list[Region] = []

    def convert(regions: Any) -> Code:
        seen.extend(regions)
        return Code("", tuple(r.symbol for r in regions))

    names = {name for _, name in FORMS.values()}
    chain = Pattern("conv", one("relax.nn.conv2d"), many(names))
    mod = nets.net(lambda e, r, x: build(e, e(op.nn.conv2d(x, const(r, 4, 3, 3, 3)))), (1, 3, 8, 8))
    dispatch(mod, [Backend("mine", (chain,), convert)])
    return [tuple(k.op for k in r.calls) for r in seen]


@pytest.mark.parametrize("form", FORMS)
def test_it_is_one_call(form: str) -> None:
    build, name = FORMS[form]
    assert taken(build) == [("relax.nn.conv2d", name)]


@pytest.mark.parametrize("form", OTHERS)
def test_another_function_is_none_of_them(form: str) -> None:
    assert taken(OTHERS[form]) == [("relax.nn.conv2d",)]


def test_what_is_read_elsewhere_stays() -> None:
    def argument(e: Any, v: Any) -> Any:
        return relax.Tuple([hard(e, v), v])

    def inner(e: Any, v: Any) -> Any:
        gate = e(op.sigmoid(v))
        return e(op.add(e(op.multiply(gate, v)), e(op.exp(gate))))

    assert taken(argument) == [("relax.nn.conv2d",)]
    assert taken(inner) == [("relax.nn.conv2d",)]


def test_a_function_inside_a_function_is_part_of_it() -> None:
    def build(e: Any, v: Any) -> Any:
        w = e(op.add(e(op.multiply(v, c(0.5))), e(op.multiply(v, c(0.5)))))
        return e(op.multiply(w, e(op.sigmoid(w))))

    assert taken(build) == [("relax.nn.conv2d", "relax.nn.silu")]


def test_it_is_measured_as_the_operators_that_it_is(tmp_path: Path) -> None:
    build, _ = FORMS["silu"]
    mod = nets.net(lambda e, r, x: build(e, e(op.nn.conv2d(x, const(r, 4, 3, 3, 3)))), (1, 3, 8, 8))
    done = dispatch(mod, ["onednn"], measure=Measure(tmp_path / "database", servers=1))
    assert all(isinstance(t.result, Measured) for t in done.timings)
    assert {t.ops for t in done.timings if t.backend == "tvm"} >= {
        ("relax.nn.conv2d", "relax.sigmoid", "relax.multiply")}  # fmt: skip


def test_attributes_are_those_of_the_function() -> None:
    inside = applied("relax.add", {}, [ARGUMENT, number(3)])
    assert inside is not None
    bounded = applied("relax.clip", {"min": 0, "max": 6}, [inside])
    assert bounded is not None
    name, attrs = unary.named(bounded * ARGUMENT * number(1 / 6)) or ("", {})
    assert name == unary.HARD_SWISH
    assert attrs == pytest.approx({"alpha": 1 / 6, "beta": 0.5})


numbers = st.floats(-8, 8, allow_nan=False).map(lambda x: round(x, 3))
polys = st.recursive(
    st.one_of(st.just(ARGUMENT), numbers.map(number)),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
    ),
    max_leaves=6,
)


def value(p: unary.FloatPolynomial, x: float) -> float:
    return sum(k * x ** len(atoms) for atoms, k in p.terms)


@given(polys, polys, numbers)
def test_polynomials_are_added_and_multiplied(p: Any, q: Any, x: float) -> None:
    made = (p, q, p + q, p * q)  # what cancels is not a number, and no function is made of it
    assume(all(isfinite(k) for one in made for _, k in one.terms))
    scale = 1 + abs(value(p, abs(x))) + abs(value(q, abs(x)))
    assert value(p + q, x) == pytest.approx(value(p, x) + value(q, x), abs=1e-6 * scale**2)
    assert value(p * q, x) == pytest.approx(value(p, x) * value(q, x), rel=1e-6, abs=1e-3 * scale)
