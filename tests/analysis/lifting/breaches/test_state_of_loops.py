"""Loops that count, keep registers and scratch buffers: what is eliminated, and what may not be."""

from __future__ import annotations

import numpy as np
import pytest

from opinfo.analysis import OpInfo, Refusal, op_info

from ...foreign.execute import difference
from ...foreign.unseen3.programs import written

COUNTED = """
p = T.alloc_buffer((1,), "int32", scope="{scope}")
p[0] = 0
for i in {loop}:
    out[p[0]] = x[i]
    p[0] = p[0] + {step}
"""
SCRATCH = """
p = T.alloc_buffer((6,))
for i in {loop}:
    for j in range(i + 1):
        p[j] = x[i, j] * T.float32(2)
    {store}
"""
STORE = """out[i] = T.float32(0)
    for j in range(i + 1):
        out[i] += p[j]"""


def info(params: str, body: str) -> OpInfo | Refusal:
    return op_info(written(params, body))


@pytest.mark.parametrize("step, name", [(1, "relax.astype"), (2, "relax.slice_scatter")])
def test_a_counted_place_is_a_function_of_the_iteration(step: int, name: str) -> None:
    body = COUNTED.format(scope="local", loop="T.serial(5)", step=step)
    func = written(f"x 5; out {5 * step}", body)
    found = op_info(func)
    assert isinstance(found, OpInfo) and found.name == name
    assert step > 1 or not difference(func, name, found.attrs, found.operands)


@pytest.mark.parametrize(
    "loop", ["T.parallel(5)", 'T.thread_binding(5, "threadIdx.x")', "T.vectorized(5)"]
)
def test_a_counter_that_iterations_share_is_a_race(loop: str) -> None:
    scope = "shared" if "thread" in loop else "global"
    found = info("x 5; out 5", COUNTED.format(scope=scope, loop=loop, step=1))
    assert isinstance(found, Refusal)


@pytest.mark.parametrize("loop", ["T.parallel(6)", 'T.thread_binding(6, "blockIdx.x")'])
def test_scratch_that_iterations_share_is_a_race(loop: str) -> None:
    assert isinstance(info("x 6,6; out 6", SCRATCH.format(loop=loop, store=STORE)), Refusal)


def test_scratch_inside_a_parallel_loop_is_a_race_of_that_loop() -> None:
    inner = SCRATCH.format(loop="range(6)", store=STORE).replace("p = T.alloc_buffer((6,))", "")
    lines = "\n".join("    " + line for line in inner.replace("out[i]", "out[b, i]").splitlines())
    body = "p = T.alloc_buffer((6,))\nfor b in T.parallel(3):" + lines
    assert isinstance(info("x 6,6; out 3,6", body), Refusal)


def test_scratch_of_an_earlier_iteration_is_not_dropped() -> None:
    """The last iteration writes all of it, which the others have not."""
    late = "out[i] = p[5 - i]"
    assert isinstance(info("x 6,6; out 6", SCRATCH.format(loop="range(6)", store=late)), Refusal)


WINDOW = """
r = T.alloc_buffer((2,), scope="local")
r[0] = x[0]
for t in range(7):
    r[1] = x[t + 1]
    out[t] = r[1] - {0}
    r[0] = {1}
"""


def test_registers_that_are_shifted_are_a_window() -> None:
    body = "out[t] = x[t + 1] - x[t]"
    plain = written("x 8; out 7", f"for t in range(7):\n    {body}")
    shifted = written("x 8; out 7", WINDOW.format("r[0]", "r[1]"))
    assert repr(op_info(plain)) == repr(op_info(shifted))


WHILE = """
p = T.alloc_buffer((2,), "int32", scope="local")
q = T.alloc_buffer((1,), "int32", scope="local")
p[0] = 7
{between}
while p[0] {end}:
    out[q[0]] = x[p[0]]
    p[0] = p[0] - 2
    q[0] = q[0] + 1
"""


@pytest.mark.parametrize(
    "between, end, name",
    [("q[0] = 0", ">= 0", "relax.strided_slice"), ("q[0] = 0", "> -1", "relax.strided_slice"),
     ("q[0] = 0", "> 1", ""), ("q[0] = 0\np[q[0]] = 5", ">= 0", "")],
)  # fmt: skip
def test_a_while_loop_counts_down(between: str, end: str, name: str) -> None:
    func = written("x 8; out 4", WHILE.format(between=between, end=end))
    found = op_info(func)
    assert (found.name if isinstance(found, OpInfo) else "") == name
    assert not name or not difference(func, name, found.attrs, found.operands)  # type: ignore[union-attr]


def test_one_rounding_to_half_precision_is_that_of_the_wider_type() -> None:
    """The claim of `analysis.terms.casts`, on random bits: infinities and subnormals included."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 2**16, (2, 300_000), dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        for op in (np.add, np.subtract, np.multiply, np.divide):
            exact = op(a.astype(np.float64), b.astype(np.float64)).astype(np.float16)
            wide = op(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
            assert np.array_equal(exact, wide, equal_nan=True)
