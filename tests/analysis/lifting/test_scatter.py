"""Loops that store where data says: the last store stays, updates keep their order, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import from_source

from opinfo.analysis import Chain, OpInfo, PartlyRead, Refusal, lift, op_info, op_infos
from opinfo.analysis.lifting.tir.unliftable import Unliftable
from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.analysis.terms.evaluate import evaluate
from opinfo.analysis.terms.term import Var

from ...common.interpret import interpret
from ...common.prim_funcs import lowered

HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((6, 3), "float32"), p: T.Buffer((6,), "int64"),
         out: T.Buffer((4, 3), "float32")):
    for i, j in T.grid(4, 3):
        out[i, j] = T.float32(0.5)
"""
PLACES = np.array([2, 0, 2, 3, 0, 2])

LIFTED = {
    "last wins": """
    for k, j in T.grid(6, 3):
        out[p[k], j] = x[k, j]
""",
    "first wins": """
    for k, j in T.grid(6, 3):
        out[p[5 - k], j] = x[5 - k, j]
""",
    "columns first": """
    for j, k in T.grid(3, 6):
        out[p[k], j] = x[k, j]
""",
    "in order": """
    for k, j in T.grid(6, 3):
        out[p[k], j] = out[p[k], j] * T.float32(0.5) + x[k, j]
""",
    "only where it is larger": """
    for k, j in T.grid(6, 3):
        if x[k, j] > out[p[k], j]:
            out[p[k], j] = x[k, j]
""",
    "every second": """
    for k, j in T.grid(3, 3):
        out[p[2 * k], j] = x[2 * k, j]
""",
    "columns by another place": """
    for k, j in T.grid(6, 3):
        out[p[k], p[j] % 3] = x[k, j]
""",
    "as one number": """
    for k in range(18):
        out[(p[k // 3] * 3 + k % 3) // 3, (p[k // 3] * 3 + k % 3) % 3] = x[k // 3, k % 3]
""",
    "counted": """
    for k in range(6):
        out[p[k], 0] = out[p[k], 0] + T.float32(1)
""",
    "a loop around": """
    for t in range(2):
        for k in range(6):
            out[p[k], t] = out[p[k], t] + x[k, t]
""",
    "twice": """
    for t in range(2):
        for k in range(6):
            out[p[k], 1] = out[p[k], 1] * x[k, t]
""",
    "rows twice": """
    for v in range(6):
        for k in range(3):
            out[p[k], v % 3] = out[p[k], v % 3] * x[k, v // 2]
""",
}
LIFTED["two stores into different columns"] = """
    for k in range(6):
        out[p[k], 0] = x[k, 0]
        out[p[k], 0] = out[p[k], 0] + x[k, 1]
        out[p[5 - k], 1] = x[k, 1]
"""
LIFTED["every third iteration"] = """
    for k in range(18):
        if k % 3 == 2:
            out[p[k // 3], 0] = out[p[k // 3], 0] * T.float32(2) + x[k // 3, k % 3]
"""
LIFTED["every third iteration but the last"] = """
    for k in range(17):
        if k % 3 == 2:
            out[p[k // 3], 0] = out[p[k // 3], 0] * T.float32(2) + x[k // 3, k % 3]
"""
REFUSED = {
    "a place that was found before": """
    n = T.alloc_buffer((1,), "int64")
    n[0] = T.int64(0)
    for k in range(4):
        if x[k, 0] > T.float32(0):
            out[n[0], 0] = x[k, 0]
            n[0] = n[0] + T.int64(1)
""",
    "places that change": """
    q = T.alloc_buffer((6,), "int64")
    for k in range(6):
        q[k] = p[k]
    for k in range(4):
        out[q[k], 0] = x[k, 0]
        q[k + 1] = q[k]
""",
    "two stores into one column": """
    for k in range(6):
        out[p[k], 0] = x[k, 0]
        out[p[5 - k], 0] = x[k, 1]
""",
    "another element": """
    for k in range(6):
        out[p[k], 0] = out[p[5 - k], 0] + x[k, 0]
""",
    "columns merged": """
    for k, j in T.grid(6, 3):
        out[p[k], j // 2] = x[k, j]
""",
    "outside": """
    for k in range(6):
        out[p[k], k] = x[k, 0]
""",
}


@pytest.mark.parametrize("name", [*LIFTED, *REFUSED])
def test_right_or_refused(name: str) -> None:
    func = from_source(HEAD + (LIFTED | REFUSED)[name])
    x = np.linspace(-1.0, 2.5, 18).reshape(6, 3)[::-1].copy()
    try:
        (c,) = lift(func).outputs
    except Unliftable:
        assert name in REFUSED
        return
    assert name in LIFTED
    (expected,) = interpret(func, [x, PLACES])
    points = np.indices((4, 3)).reshape(2, -1)
    env = {a.atom: q for a, q in zip(c.axes, points, strict=True) if isinstance(a.atom, Var)}
    found = evaluate(c.body, env, lambda t, i: (x, PLACES)[t.position][i])
    np.testing.assert_allclose(found, expected[tuple(points)], rtol=1e-6)


@pytest.mark.parametrize("value", ["x[k, 0]", "out[p[k], 0] + x[k, 0]"])
def test_only_parallel_scatters_are_marked_as_races(value: str) -> None:
    def body(loop: str) -> Any:
        return from_source(f"{HEAD}    for k in {loop}:\n        out[p[k], 0] = {value}\n")

    assert not lift(body("range(6)")).races
    assert lift(body("T.parallel(6)")).races
    assert lift(body("T.thread_binding(6, 'threadIdx.x')")).races
    info = op_info(body("T.vectorized(6)"))
    assert isinstance(info, Refusal) and "store" in info.reason, info


def legalised(op: Any, *types: tuple[tuple[int, ...], str], **attrs: Any) -> tirx.PrimFunc:
    return lowered(lambda *x: op(*x, **attrs), *types, legalise=legalise_module)


SCATTER = (((5, 4), "float32"), ((3, 4), "int64"), ((3, 4), "float32"))


TOLD = "no two iterations of a parallel loop, and no two threads, store in one element"


def test_only_racing_loops_assume_that_they_do_not() -> None:
    across = op_info(legalised(relax.op.scatter_elements, *SCATTER, axis=1))
    down = op_info(legalised(relax.op.scatter_elements, *SCATTER, axis=0))
    assert isinstance(across, OpInfo) and isinstance(down, OpInfo)
    assert TOLD in across.certificate.assumptions
    assert TOLD not in down.certificate.assumptions


def test_what_races_is_an_operator_if_the_places_are_distinct() -> None:
    func = legalised(relax.op.scatter_elements, *SCATTER, axis=0, reduction="add")
    text = func.script()
    assert "for v_1 in range" in text
    racing = tvm.script.from_source(text.replace("for v_1 in range(", "for v_1 in T.parallel("))
    info = op_info(racing)
    assert isinstance(info, OpInfo) and TOLD in info.certificate.assumptions


def test_serial_is_not_taken_for_a_racing_operator() -> None:
    types = (((5, 4), "float32"), ((3,), "int64"), ((3,), "int64"), ((3,), "float32"))

    def put(a: Any, b: Any, c: Any, d: Any) -> Any:
        return relax.op.index_put(a, (b, c), d, accumulate=True)

    func = legalised(put, *types)
    assert isinstance(op_info(func), OpInfo)
    serial = tvm.script.from_source(func.script().replace("T.parallel(", "range("))
    assert isinstance(op_info(serial), Refusal)


def test_a_chain_tells_of_races_as_well() -> None:
    func = from_source(f"{HEAD}    for k in T.parallel(6):\n        out[p[k], 0] = x[k, 0]\n")
    chain = op_infos(func)
    if isinstance(chain, Chain):
        assert TOLD in chain.steps[0].info.certificate.assumptions
    else:
        assert isinstance(chain, PartlyRead) and chain.reason
