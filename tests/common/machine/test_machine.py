"""The machine agrees with the plain interpreter and the semantics of kernels, and detects races."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.analysis import OpInfo, op_info

from ...analysis.answers.scheduled_ops import legal
from ...analysis.answers.schedules.schedule_steps import fresh
from ...analysis.answers.schedules.scheduled_forms import SCHEDULES
from ...analysis.lifting.test_threads import REFUSED, SAME, program
from ..interpret import Undefined, interpret
from ..mutation import answer
from .kernel_statements import has_threads
from .thread_machine import execute

X = np.arange(32.0).reshape(4, 8) / 7 - 2


@pytest.mark.parametrize("name", SAME)
def test_kernels_compute_what_plain_loops_do(name: str) -> None:
    (out,) = execute(program(SAME[name]), [X])
    assert np.array_equal(out, X[:, ::-1])


#: What the machine sees of the races that the analysis refuses; the others need no order of
#: statements, but one inside of a statement or a barrier under a condition.
SEEN = ("global memory in one kernel", "all threads add to one element")


@pytest.mark.parametrize("name", SEEN)
def test_races_are_seen(name: str) -> None:
    with pytest.raises(Undefined):
        execute(program(REFUSED[name]), [X])


def test_a_vector_is_loaded_before_it_is_stored() -> None:
    func = program("""
    for i in range(4):
        for j in range(8):
            out[i, j] = x[i, j]
        out[i, T.Ramp(1, 1, 7)] = out[i, T.Ramp(0, 1, 7)]
""")
    (out,) = execute(func, [X])
    assert np.array_equal(out, np.hstack([X[:, :1], X[:, :7]]))


def test_parallel_loops_run_backwards() -> None:
    func = program("""
    for i, j in T.grid(4, 8):
        out[i, j] = x[i, j]
    for i in T.parallel(3):
        for j in range(8):
            out[i + 1, j] = out[i, j]
""")
    (forwards,), (backwards,) = (execute(func, [X], backwards=b) for b in (False, True))
    assert np.array_equal(forwards, np.vstack([X[:1]] * 4))
    assert np.array_equal(backwards, np.vstack([X[:1], X[:3]]))


FORMS = [
    ("mean", "threads"), ("mean", "cross_thread"), ("mean", "rfactored_threads"),
    ("gemv", "cross_thread"), ("matmul_odd", "cooperative_fetch"), ("relu", "virtual_threads"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "schedule"), FORMS)
def test_scheduled_kernels_compute_what_their_operator_does(op: str, schedule: str) -> None:
    """What a kernel computes is what its operator and its answer compute."""
    plain, s = legal(op), fresh(legal(op))
    SCHEDULES[schedule](s)
    kernel = s.mod["main"]
    rng = np.random.default_rng(7)
    shapes = [tuple(map(int, p.ty.shape)) for p in plain.params]
    given = [rng.standard_normal(shape) for shape in shapes[:-1]]
    (got,), (wanted,) = execute(kernel, given), interpret(plain, given)
    assert has_threads(kernel)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    info = op_info(kernel)
    if isinstance(info, OpInfo):
        answers: Any = answer(kernel, info, given)
        np.testing.assert_allclose(answers[0], got, rtol=1e-6)


def test_matched_regions_and_declared_buffers() -> None:
    func: Any = tvm.script.from_source("""# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 8), "float32"), out: T.Buffer((4, 8), "float32")):
    flat = T.decl_buffer((32,), "float32", data=x.data)
    for i in range(32):
        out[i // 8, i % 8] = flat[31 - i]
""")
    assert np.array_equal(execute(func, [X])[0], X[::-1, ::-1])
