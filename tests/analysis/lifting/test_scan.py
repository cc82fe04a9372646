"""Loops that see what earlier iterations made: prefix reductions, folds, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.script import from_source

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.lifting.tir.unliftable import Unliftable
from opinfo.analysis.terms.evaluate import evaluate
from opinfo.analysis.terms.term import Var

from ...common.interpret import interpret

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((7,), "float32"), out: T.Buffer((7,), "float32")):
    s = T.alloc_buffer((3,))
"""

#: Hand-written cumulative sums; the answer's attribute ``exclusive``.
SUMS = {
    "from the second element": """
    out[0] = x[0]
    for i in range(1, 7):
        out[i] = out[i - 1] + x[i]
""",
    "a choice in the first iteration": """
    for i in range(7):
        out[i] = x[i] + T.if_then_else(i > 0, out[i - 1], T.float32(0))
""",
    "a running value": """
    s[0] = T.float32(0)
    for i in range(7):
        s[0] = s[0] + x[i]
        out[i] = s[0]
""",
    "a running value and the element": """
    s[0] = T.float32(0)
    for i in range(7):
        out[i] = s[0] + x[i]
        s[0] = out[i]
""",
    "a triangle of sums": """
    for i in range(7):
        out[i] = T.float32(0)
        for k in range(i + 1):
            out[i] = out[i] + x[k]
""",
}
EXCLUSIVE = {
    "from zero": """
    out[0] = T.float32(0)
    for i in range(6):
        out[i + 1] = out[i] + x[i]
""",
    "a running value read before": """
    s[0] = T.float32(0)
    for i in range(7):
        out[i] = s[0]
        s[0] = s[0] + x[i]
""",
}
CASES = [*((b, False) for b in SUMS.values()), *((b, True) for b in EXCLUSIVE.values())]


@pytest.mark.parametrize(("body", "exclusive"), CASES, ids=[*SUMS, *EXCLUSIVE])
def test_cumulative_sums_are_recovered(body: str, exclusive: bool) -> None:
    info = op_info(from_source(_HEAD + body))
    assert isinstance(info, OpInfo), info
    assert (info.name, info.attrs["exclusive"]) == ("relax.cumsum", exclusive)
    assert not info.certificate.exact


#: Anything else: the definition computes what the program does, or there is none.
OTHERS = {
    "a shift register": """
    s[0] = T.float32(3)
    for i in range(7):
        out[i] = s[0]
        s[0] = x[i]
""",
    "a decaying sum": """
    out[0] = x[0]
    for i in range(6):
        out[i + 1] = out[i] * T.float32(0.5) + x[i + 1]
""",
    "backwards": """
    out[6] = x[6]
    for i in range(6):
        out[5 - i] = out[6 - i] + x[5 - i]
""",
    "every second": """
    out[0] = x[0]
    out[1] = x[1]
    for i in range(5):
        out[i + 2] = out[i] + x[i + 2]
""",
    "the element after the sum": """
    s[0] = T.float32(0)
    for i in range(7):
        s[0] = s[0] + x[i]
        out[i] = s[0] * s[0] + x[6 - i]
""",
    "a guard in the middle": """
    for i in range(7):
        out[i] = x[i]
    for i in range(6):
        if i != 3:
            out[i + 1] = out[i] + x[i + 1]
""",
    "a guard on the sum": """
    s[0] = T.float32(1)
    for i in range(7):
        if i != 3:
            s[0] = s[0] * x[i]
        out[i] = s[0]
""",
    "two values": """
    s[0] = T.float32(0)
    s[1] = T.float32(1)
    for i in range(7):
        s[0] = s[0] + s[1]
        s[1] = s[1] + x[i]
        out[i] = s[0]
""",
    "a moving element": """
    for i in range(3):
        s[i] = T.float32(0)
    for i in range(7):
        out[i] = s[i % 3]
        s[i % 3] = x[i] + s[i % 3]
""",
    "the element before the last": """
    out[0] = x[0]
    out[1] = x[1]
    for i in range(5):
        out[i + 2] = out[i + 1] + out[i]
""",
    "reset later": """
    s[0] = T.float32(0)
    for i in range(7):
        if i == 4:
            s[0] = T.float32(0)
        s[0] = s[0] + x[i]
        out[i] = s[0]
""",
    "overwritten by another store": """
    for i in range(7):
        out[i] = x[i]
    for i in range(6):
        out[i + 1] = out[i] + x[i]
        out[6] = x[i]
""",
    "largest so far": """
    out[0] = x[0]
    for i in range(6):
        out[i + 1] = T.max(out[i], x[i + 1])
""",
    "largest so far, from a value": """
    s[0] = T.float32(0.25)
    for i in range(7):
        s[0] = T.max(s[0], x[i])
        out[i] = s[0]
""",
    "a total of sums": """
    s[0] = T.float32(0)
    s[1] = T.float32(0)
    for i in range(7):
        s[0] = s[0] + x[i]
        s[1] = s[1] + s[0]
    for i in range(7):
        out[i] = s[1]
""",
    "in blocks of two loops": """
    for i, j in T.grid(1, 7):
        if j == 0:
            out[j] = x[j]
        if j > 0:
            out[j] = out[j - 1] + x[j]
""",
    "sums of sums": """
    s[0] = T.float32(0)
    for i in range(7):
        s[0] = s[0] + x[i]
        out[i] = s[0]
    for i in range(6):
        out[i + 1] = out[i] + out[i + 1]
""",
}
LIFTED = (
    "a shift register", "a decaying sum", "backwards", "the element after the sum",
    "a guard on the sum", "reset later", "largest so far", "largest so far, from a value",
    "sums of sums",
)  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_are_lifted_rightly_or_refused(name: str) -> None:
    func = from_source(_HEAD + OTHERS[name])
    value = np.linspace(-2.0, 1.5, 7)
    (expected,) = interpret(func, [value])
    try:
        (c,) = lift(func).outputs
    except Unliftable:
        assert name not in LIFTED
        return
    (axis,) = (a.atom for a in c.axes)
    assert isinstance(axis, Var)
    found = evaluate(c.body, {axis: np.arange(7)}, lambda t, i: value[np.clip(i[0], 0, 6)])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    info = op_info(func)
    assert isinstance(info, Refusal) or info.name != "relax.cumsum"


@pytest.mark.parametrize(
    "kind", ["T.parallel(6)", "T.vectorized(6)", "T.thread_binding(6, 'threadIdx.x')"]
)
def test_concurrent_iterations_are_not_a_scan(kind: str) -> None:
    body = f"""
    out[0] = x[0]
    for i in {kind}:
        out[i + 1] = out[i] + x[i + 1]
"""
    info = op_info(from_source(_HEAD + body))
    assert isinstance(info, Refusal), info
