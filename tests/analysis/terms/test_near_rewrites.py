"""Programs that are nearly an operator: rules that rewrite terms must not make them equal to it."""

from __future__ import annotations

import pytest

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.real import real

from ..foreign.execute import difference
from ..foreign.unseen3.programs import written

BYTES = "a uint8 9; b uint8 9; out uint8 9"
BYTE = 'for i in range(9):\n    out[i] = T.Cast("uint8", {})'
A, B = (f'T.Cast("int32", {x}[i])' for x in "ab")


@pytest.mark.parametrize(
    "value", [f"{A} * {B} + 1", f"{A} * {B} - 1", f"1 - {A} * {B}", f"{A} * {B} + {A}"]
)
def test_a_product_of_bytes_and_a_literal_is_not_a_sum(value: str) -> None:
    assert isinstance(op_info(written(BYTES, BYTE.format(value))), Refusal)


@pytest.mark.parametrize(
    "value, name",
    [(f"{A} * {B}", "multiply"), (f"{A} + {B}", "add"), (f"{B} - {A}", "subtract")],
)
def test_bytes_wrap(value: str, name: str) -> None:
    func = written(BYTES, BYTE.format(value))
    found = op_info(func)
    assert isinstance(found, OpInfo) and found.name == f"relax.{name}"
    assert not difference(func, found.name, found.attrs, found.operands)


TAPS = {
    "convolution": ("x 1,1,9; w 1,1,2; out 1,1,10",
                    "({a}) + ({b})", "x[0, 0, i - 1] * w[0, 0, 0]", "x[0, 0, i] * w[0, 0, 1]"),
    "mean": ("x 1,1,9; out 1,1,10", "(({a}) + ({b})) * T.float32(0.5)",
             "x[0, 0, i - 1]", "x[0, 0, i]"),
    "maximum": ("x 1,1,9; out 1,1,10", "T.max({a}, {b})", "x[0, 0, i - 1]", "x[0, 0, i]"),
}  # fmt: skip


def taps(kind: str, literal: str) -> OpInfo | Refusal:
    params, whole, first, second = TAPS[kind]
    a = f"T.if_then_else(i >= 1, {first}, T.float32({literal}))"
    b = f"T.if_then_else(i < 9, {second}, T.float32({literal}))"
    body = f"for i in range(10):\n    out[0, 0, i] = {whole.format(a=a, b=b)}"
    return op_info(written(params, body))


@pytest.mark.parametrize(
    "kind, literal", [("convolution", "1"), ("mean", "1"), ("maximum", "0"), ("maximum", "-1e30")]
)
def test_unrolled_taps_keep_the_literal_outside(kind: str, literal: str) -> None:
    assert isinstance(taps(kind, literal), Refusal)


@pytest.mark.parametrize("kind", ["convolution", "mean"])
def test_unrolled_taps_with_zeros_outside_are_a_loop(kind: str) -> None:
    assert isinstance(taps(kind, "0"), OpInfo)


def test_a_maximum_pool_padded_with_zeros_is_not_one_padded_with_the_lowest() -> None:
    """All operands are selections, one of which is always taken."""
    taps = [f"T.if_then_else({c}, x[0, 0, {k}, j], T.float32(0))"
            for c, k in [("i >= 1", "i - 1"), ("i >= 0", "i"), ("i < 8", "i + 1")]]  # fmt: skip
    body = f"for i, j in T.grid(9, 9):\n    out[0, 0, i, j] = T.max(T.max({taps[0]}, {taps[1]}), "
    assert isinstance(op_info(written("x 1,1,9,9; out 1,1,9,9", f"{body}{taps[2]})")), Refusal)


SOFTMAX = """
m = T.alloc_buffer((1,), scope="local")
o = T.alloc_buffer((1,), scope="local")
d = T.alloc_buffer((1,), scope="local")
for i in range(4):
    {start}
    d[0] = T.float32(0)
    for k in range(8):
        o[0] = m[0]
        m[0] = T.max(m[0], x[i, k])
        d[0] = d[0] * T.exp(o[0] - m[0]) + T.exp(x[i, k] - m[0])
    for k in range(8):
        out[i, k] = T.exp(x[i, k] - m[0]) / d[0]
"""


@pytest.mark.parametrize(
    "start, is_softmax",
    [("m[0] = T.float32(0)", True), ("m[0] = T.float32(100)", False), ("m[0] = z[i]", False),
     ("if i == 0:\n        m[0] = T.float32(0)", False)],
)  # fmt: skip
def test_a_shift_far_above_the_exponents_stays(start: str, is_softmax: bool) -> None:
    """There all powers are zero: 0 / 0, or what is left of subnormal numbers."""
    params = "x 4,8; z 4; out 4,8" if "z[" in start else "x 4,8; out 4,8"
    found = op_info(written(params, SOFTMAX.format(start=start)))
    assert isinstance(found, OpInfo) == is_softmax


def test_one_of_two_sigmoids_meets_the_exponential() -> None:
    """``exp(-x) * s * s = s - s * s`` for the sigmoid s of x."""
    s, e = "T.sigmoid(x[i])", "T.exp(T.float32(0) - x[i])"
    values = (f"{s} * {s} * {e}", f"{s} - {s} * {s}", f"T.float32(1) - {s} * {s}")
    body = "\n    ".join(f"out{k}[i] = {v}" for k, v in enumerate(values))
    func = written("x 9; out0 9; out1 9; out2 9", f"for i in range(9):\n    {body}")
    product, right, wrong = (real(o.body) for o in lift(func).outputs)
    assert product is right and product is not wrong
