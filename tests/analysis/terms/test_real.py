"""The form in real arithmetic keeps the value, and joins only what is equal."""

from __future__ import annotations

from typing import Any

import pytest
from tvm.script import from_source

from opinfo.analysis import OpInfo, Refusal, lift, op_info
from opinfo.analysis.certify.sampled import compare
from opinfo.analysis.real import TooLarge, real
from opinfo.analysis.terms.term import raw_call
from tests.analysis.foreign import corpus
from tests.analysis.foreign.case import Foreign, script

FAMILIES = ("elementwise", "norm", "pool", "reductions", "softmax")
CASES = [
    pytest.param(c, id=f"{family}-{c.form}")
    for family, c in corpus()
    if family in FAMILIES and "fast_" not in c.form  # they reinterpret bits
]


@pytest.mark.parametrize("case", CASES)
def test_the_form_has_the_same_value(case: Foreign) -> None:
    try:
        lifted = lift(case.build())
    except Exception as e:  # what is not lifted has no form
        pytest.skip(str(e))
    for c in lifted.outputs:
        if "float" in c.out.dtype:
            assert compare(c, real(c.body))


def _forms(*formulas: str) -> list[Any]:
    """The formulas over the same x and y, in real arithmetic."""
    params: Any = None
    found = []
    for f in formulas:
        body = f"for i, j in T.grid(4, 6):\n    out[i, j] = {f}"
        lifted = lift(script("x 4,6; y 4,6; out 4,6", body)(), params)
        params = lifted.params
        found.append(real(lifted.outputs[0].body))
    return found


X, Y, F = "x[i, j]", "y[i, j]", "T.float32"
EQUAL = [
    (f"({X} + {Y}) * ({X} - {Y})", f"{X} * {X} - {Y} * {Y}"),
    (f"{X} / (T.float32(2) * {Y})", f"T.float32(0.5) * {X} / {Y}"),
    (f"{Y} + ({X} - {X}) * T.rsqrt({F}(1e-5))", Y),
    (f"{X} / T.sqrt({Y})", f"T.rsqrt({Y}) * {X}"),
    (f"T.Select({X} < {Y}, {Y}, {X})", f"T.max({Y}, {X})"),
    (f"T.Select({X} >= {Y}, {Y}, {X})", f"T.min({X}, {Y})"),
    (
        f"T.max(T.min({X}, T.float32(3)), T.float32(1))",
        f"T.min(T.max(T.float32(1), {X}), T.float32(3))",
    ),
    (f"T.Select({X} < {F}(1), {F}(1), T.min({X}, {F}(3)))", f"T.max({F}(1), T.min({X}, {F}(3)))"),
    (f"T.Select({X} > {F}(3), {F}(3), T.max({X}, {F}(1)))", f"T.min(T.max({X}, {F}(1)), {F}(3))"),
    (f"T.Select({X} >= {F}(3), T.max({X}, {F}(3)), {F}(3))", f"T.max({X}, {F}(3))"),
    (
        f"T.Select({F}(2) * {X} > {F}(6), {F}(6), T.max({X}, {F}(1)) * {F}(2))",
        f"T.min({F}(6), T.max({X}, {F}(1)) * {F}(2))",
    ),
]
DIFFERENT = [
    (f"{X} / {X}", "T.float32(1)"),
    (f"T.sqrt({X}) * T.sqrt({X})", X),
    (f"T.Select({X} < {Y}, {X} * T.float32(2), {Y})", f"T.min({X} * T.float32(2), {Y})"),
    (f"T.max(T.min({X}, {F}(1)), {F}(3))", f"T.min(T.max({X}, {F}(3)), {F}(1))"),
    (f"T.Select({X} < {F}(3), {F}(3), T.min({X}, {F}(1)))", f"T.max({F}(3), T.min({X}, {F}(1)))"),
    (f"T.Select({X} > {F}(1), {F}(1), T.max({X}, {F}(3)))", f"T.min({F}(1), T.max({X}, {F}(3)))"),
    (f"T.Select({X} > {F}(2), {F}(3), T.max({X}, {F}(1)))", f"T.min({F}(3), T.max({X}, {F}(1)))"),
    (f"T.Select({X} < {F}(3), {F}(3), T.max({X}, {F}(1)))", f"T.min({F}(3), T.max({X}, {F}(1)))"),
    (f"T.Select({X} < {Y}, {X}, {Y} + {F}(1))", f"T.Select({X} <= {Y}, {X}, {Y} + {F}(1))"),
    (f"T.exp({X} - {Y})", f"T.exp({X}) / T.exp({Y})"),
    (f"{X} * T.float32(1.00001)", X),
    (f"({X} - {X}) / {Y}", "T.float32(0)"),
    (f"{Y} + ({X} - {X}) * T.rsqrt({X} - {X})", Y),
    (f"{X} / {Y} - {X} / {Y}", "T.float32(0)"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal_in_real_arithmetic(a: str, b: str) -> None:
    one, two = _forms(a, b)
    assert one is two


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_terms_that_differ_somewhere_have_different_forms(a: str, b: str) -> None:
    one, two = _forms(a, b)
    assert one is not two


NEARLY = [
    # A sum that skips an element, a maximum that starts at 0, a mean over another count.
    ("x 3,5; out 3", "for i in range(3):\n    out[i] = x[i, 0] + x[i, 1] + x[i, 3] + x[i, 4]"),
    (
        "x 3,4; out 3",
        "for i in range(3):\n    out[i] = T.max(T.float32(0), T.max(T.max(x[i, 0], x[i, 1]), "
        "T.max(x[i, 2], x[i, 3])))",
    ),
    (
        "x 3,4; out 3",
        "for i in range(3):\n    out[i] = (x[i, 0] + x[i, 1] + x[i, 2] + x[i, 3]) / T.float32(3)",
    ),
    ("x 3,4; out 3", "for i in range(3):\n    out[i] = x[i, 0] + x[i, 1] + x[i, 1] + x[i, 3]"),
]


@pytest.mark.parametrize(("params", "body"), NEARLY)
def test_what_is_nearly_a_reduction_is_none(params: str, body: str) -> None:
    info = op_info(script(params, body)())
    assert not isinstance(info, OpInfo)


def test_an_answer_up_to_rounding_says_so() -> None:
    body = "for i in range(4):\n    out[i] = x[i] / (T.float32(1) + T.exp(T.float32(0) - x[i]))"
    info = op_info(script("x 4; out 4", body)())
    assert isinstance(info, OpInfo) and info.name == "relax.nn.silu"
    assert not info.certificate.exact
    assert any("real arithmetic" in a for a in info.certificate.assumptions)


SHARED = {
    "a polynomial": "a[i] + a[i] * a[7 - i]",
    "a power": "a[i] * a[i]",
    "a power of a sum": "(a[i] + T.float32(1)) * (a[i] + T.float32(1))",
    "a maximum": "T.max(a[i] + a[7 - i], a[i] * a[7 - i])",
    "a quotient": "(a[i] + a[7 - i]) / (a[i] * a[i] + T.float32(1))",
    "a selection": "T.Select(a[i] < a[7 - i], a[i] + a[7 - i], a[i] * a[i])",
    "a sum of exponentials": "T.exp(a[i]) + T.exp(a[7 - i]) * a[i]",
}


@pytest.mark.parametrize("stages", [14, 60])
@pytest.mark.parametrize("name", SHARED)
def test_shared_terms_are_answered_soon(name: str, stages: int) -> None:
    lines = [f"t{k} = T.alloc_buffer((8,))" for k in range(stages)]
    last = "x"
    for k in range(stages):
        lines += ["for i in range(8):", f"    t{k}[i] = {SHARED[name].replace('a[', last + '[')}"]
        last = f"t{k}"
    lines += ["for i in range(8):", f"    out[i] = {last}[i]"]
    func = script("x 8; out 8", "\n".join(lines))()
    assert isinstance(op_info(func), Refusal)  # one that unfolds the terms does not come back


def test_a_form_that_grows_too_large_is_refused_as_such() -> None:
    body = "for i in range(8):\n    out[i] = x[i]"
    term = lift(script("x 8; out 8", body)()).outputs[0].body
    for _ in range(40):
        term = raw_call("mul", (term, term), "float32")
    with pytest.raises(TooLarge):
        real(term)


@pytest.mark.parametrize(
    ("dtype", "factor"),
    [
        ("float32", "1.0001"), ("float32", "1.000002"), ("float16", "1.004"),
        ("bfloat16", "1.04"), ("float64", "1.0000000000001"),
    ],
)  # fmt: skip
def test_a_factor_close_to_one_is_kept(dtype: str, factor: str) -> None:
    body = f"for i in range(8):\n    out[i] = T.max(x[i], T.{dtype}(0)) * T.{dtype}({factor})"
    info = op_info(script(f"x {dtype} 8; out {dtype} 8", body)())
    assert isinstance(info, Refusal), info
    forms = [
        real(lift(script(f"x {dtype} 8; out {dtype} 8", text)()).outputs[0].body)
        for text in (body, body.replace(factor, "1.0"))
    ]
    assert forms[0].children and len(set(map(repr, forms))) == 2


#: Close to an operator, and not it: by a literal, by a sum that is not nothing, by a jump.
CLOSE = {
    "bfloat16, 1.04 times": "T.max(x[i], T.bfloat16(0)) * T.bfloat16(1.04)",
    "float16, 1.004 times": "T.max(x[i], T.float16(0)) * T.float16(1.004)",
    "float16, before a floor": "T.floor(x[i] * T.float16(1.004))",
    "float32, tiny coefficients": "T.max(x[i], T.float32(0)) + (z[0] * T.float32(4e-13) "
    "+ z[1] * T.float32(4e-13))",
    "float32, a small difference enlarged": "T.max(x[i], T.float32(0)) + (T.exp(x[i] * "
    "T.float32(1.0000002)) - T.exp(x[i])) * T.float32(1e7)",
    "float32, before a comparison": "T.Select(x[i] + z[0] - z[0] < z[1], x[i], T.float32(0))",
}


@pytest.mark.parametrize("name", CLOSE)
def test_what_is_close_to_an_operator_is_none(name: str) -> None:
    dtype = name.split(",")[0]
    header = "@T.prim_func\ndef main("
    params = (f'{n}: T.Buffer(({k},), "{dtype}")' for n, k in (("x", 8), ("z", 2), ("out", 8)))
    body = f"):\n    for i in range(8):\n        out[i] = {CLOSE[name]}\n"
    info = op_info(from_source(header + ", ".join(params) + body))
    assert isinstance(info, Refusal), info


def test_unbiased_variance_of_many_elements_is_not_variance() -> None:
    body = """
for i in range(2):
    m[i] = T.float16(0)
    for k in range(768):
        m[i] = m[i] + x[i, k]
    out[i] = T.float16(0)
    for k in range(768):
        out[i] = out[i] + (x[i, k] - m[i] / T.float16(768)) * (x[i, k] - m[i] / T.float16(768))
    out[i] = out[i] / T.float16({})
"""
    head = """@T.prim_func
def main(x: T.Buffer((2, 768), "float16"), out: T.Buffer((2,), "float16")):
    m = T.alloc_buffer((2,), "float16")
"""
    for count, found in ((768, True), (767, False)):
        lines = body.format(count).splitlines()
        info = op_info(from_source(head + "\n".join("    " + line for line in lines)))
        assert (getattr(info, "name", "") == "relax.variance") is found, info
