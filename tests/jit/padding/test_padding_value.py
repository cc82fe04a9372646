"""What is claimed of an operation in the padding holds for all numbers that its operands may be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from opinfo.analysis.terms.term import raw_call
from opinfo.jit.padding.padding_value import (
    ANYTHING,
    COMPUTED,
    VALID,
    KnownNumber,
    LoopState,
    Value,
    computed,
    joined,
)

INF = math.inf
FINITE = (-3.0, -1.0, -0.0, 0.0, 0.5, 1.0, 7.0)
ALL = (*FINITE, INF, -INF, math.nan)
STATE = LoopState(raw_call("state", (), "float32"))
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum,
    "max": np.maximum, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
#: Of ``number op x`` and ``x op number``, which are known and what they are.
TOLD: dict[tuple[str, float], tuple[Value, Value]] = {
    ("add", 0.0): (VALID, VALID), ("add", INF): (KnownNumber(INF), KnownNumber(INF)),
    ("sub", 0.0): (ANYTHING, VALID), ("sub", INF): (KnownNumber(INF), KnownNumber(-INF)),
    ("mul", 0.0): (KnownNumber(0.0), KnownNumber(0.0)), ("mul", 1.0): (VALID, VALID),
    ("mul", INF): (ANYTHING, ANYTHING), ("div", 1.0): (ANYTHING, VALID),
    ("div", 0.0): (ANYTHING, ANYTHING), ("min", INF): (VALID, VALID),
    ("min", -INF): (KnownNumber(-INF), KnownNumber(-INF)), ("max", -INF): (VALID, VALID),
    ("max", INF): (KnownNumber(INF), KnownNumber(INF)), ("max", 1.0): (VALID, VALID),
    ("lt", -INF): (KnownNumber(True), KnownNumber(False)),
    ("ge", -INF): (KnownNumber(False), KnownNumber(True)),
    ("lt", 1.0): (ANYTHING, ANYTHING), ("eq", INF): (KnownNumber(False), KnownNumber(False)),
    ("ne", INF): (KnownNumber(True), KnownNumber(True)), ("ne", 1.0): (ANYTHING, ANYTHING),
}  # fmt: skip


def term(op: str, dtype: str, *operands: str) -> Any:
    return raw_call(op, tuple(raw_call(f"x{k}", (), d) for k, d in enumerate(operands)), dtype)


def two(op: str, *args: Value) -> tuple[Value, bool]:
    return computed(term(op, "float32", "float32", "float32"), list(args))


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("other", [VALID, COMPUTED, STATE], ids=repr)
def test_an_operation_with_a_number_is_what_is_claimed(op: str, other: Value) -> None:
    """``finite``: only of finite numbers. What is computed at n is divided by there, so not 0."""
    for number in (-INF, -1.0, 0.0, 1.0, 2.0, INF):
        for first in (True, False):
            known = KnownNumber(number)
            claim, finite = two(op, *((known, other) if first else (other, known)))
            for x in FINITE if finite else ALL:
                if op == "div" and other == COMPUTED and x == 0:
                    continue
                with np.errstate(all="ignore"):
                    got = BINARY[op](number, x) if first else BINARY[op](x, number)
                if isinstance(claim, KnownNumber):
                    assert got == claim.number, (number, first, x)
                elif claim == other and claim != VALID:
                    assert got == x or (math.isnan(got) and math.isnan(x)), (number, first, x)
                elif claim != ANYTHING and math.isfinite(x):
                    assert math.isfinite(got), (number, first, x)


@pytest.mark.parametrize(("op", "number"), TOLD)
def test_what_is_known_of_an_operation_with_a_number(op: str, number: float) -> None:
    values = two(op, KnownNumber(number), VALID)[0], two(op, VALID, KnownNumber(number))[0]
    assert values == TOLD[op, number]


def test_zero_by_what_is_divided_by_at_n_too_is_zero() -> None:
    assert two("div", KnownNumber(0.0), COMPUTED) == (KnownNumber(0.0), True)
    assert (
        two("div", COMPUTED, KnownNumber(0.0))
        == two("div", KnownNumber(1.0), COMPUTED)
        == (ANYTHING, False)
    )


def test_what_is_of_valid_numbers_is_finite_where_it_is_bounded() -> None:
    for op in ("abs", "neg", "tanh", "floor"):
        assert computed(term(op, "float32", "float32"), [VALID]) == (VALID, True)
        assert computed(term(op, "float32", "float32"), [STATE]) == (ANYTHING, False)
    for op in ("exp", "sqrt"):
        assert computed(term(op, "float32", "float32"), [VALID]) == (ANYTHING, False)
    assert two("min", VALID, VALID) == (VALID, True) and two("add", VALID, VALID)[0] == ANYTHING
    for source, target, kept in [("float16", "float32", True), ("float32", "float64", True),
                                 ("float64", "float32", False), ("float32", "float16", False),
                                 ("int32", "float32", False)]:  # fmt: skip
        found = computed(term("cast", target, source), [VALID])
        assert found == ((VALID, True) if kept else (ANYTHING, False)), (source, target)


@pytest.mark.parametrize(
    ("op", "dtype", "numbers", "expected"),
    [("add", "float32", (1.0, INF), KnownNumber(INF)), ("sub", "float32", (INF, INF), ANYTHING),
     ("mul", "float32", (0.0, INF), ANYTHING), ("div", "float32", (1.0, 4.0), KnownNumber(0.25)),
     ("div", "int32", (7, 2), ANYTHING), ("add", "int32", (7, 2), KnownNumber(9)),
     ("lt", "float32", (1.0, 2.0), KnownNumber(True)), ("sqrt", "float32", (-1.0,), ANYTHING),
     ("exp", "float32", (-INF,), KnownNumber(0.0)), ("exp", "float32", (1.0,), ANYTHING),
     ("cos", "float32", (0.0,), ANYTHING)],
)  # fmt: skip
def test_an_operation_of_numbers(
    op: str, dtype: str, numbers: tuple[float, ...], expected: Value
) -> None:
    t = term(op, dtype, *(dtype for _ in numbers))
    assert computed(t, [KnownNumber(x) for x in numbers]) == (expected, False)


@pytest.mark.parametrize(
    ("number", "source", "target", "expected"),
    [(2.5, "float32", "int32", KnownNumber(2)), (INF, "float32", "int32", ANYTHING),
     (INF, "float32", "bool", ANYTHING), (1e10, "float32", "int32", ANYTHING),
     (255, "int32", "uint8", KnownNumber(255)), (256, "int32", "uint8", ANYTHING),
     (-1, "int32", "uint8", ANYTHING), (INF, "float32", "float16", KnownNumber(INF)),
     (0.0, "float32", "bool", KnownNumber(False)), (1.0, "float32", "float8_e4m3fn", ANYTHING)],
)  # fmt: skip
def test_a_cast_of_a_number(number: float, source: str, target: str, expected: Value) -> None:
    assert computed(term("cast", target, source), [KnownNumber(number)]) == (expected, False)


def test_one_of_two_is_what_both_are() -> None:
    assert (
        joined(KnownNumber(3), KnownNumber(3)) == KnownNumber(3) and joined(STATE, STATE) == STATE
    )
    assert (
        joined(KnownNumber(3), KnownNumber(4))
        == joined(VALID, KnownNumber(0.0))
        == joined(VALID, COMPUTED)
    )
    assert joined(VALID, KnownNumber(0.0)) == VALID
    for other in (KnownNumber(INF), STATE, ANYTHING):
        assert joined(VALID, other) == joined(other, VALID) == ANYTHING
