"""Places of extremes: a thread that reads terms in their order compares values only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from opinfo.byoc.backends.nvidia.schedules.program.combiners import combinations
from opinfo.byoc.backends.nvidia.schedules.program.gpu_program import read_program
from opinfo.byoc.backends.nvidia.schedules.program.merged_axes import bound

from ....common.interpret import interpret
from ....common.machine import execute
from ..gpu_cases import check, kernel_of, op, prim_func


def channels(emit: Any, x: Any) -> Any:
    return emit(op.argmax(x, 1))


def test_a_thread_with_all_terms_compares_values() -> None:
    """They are in 32 bits, and one comparison of floats does for each."""
    text = kernel_of(prim_func(channels, (2, 21, 4, 16))).script()
    assert " == " not in text and text.count(" >= ") == 2  # for the place, the value
    assert 'acc = T.sblock_alloc_buffer((T.int64(2),), "int32", scope="local")' in text


def test_threads_that_share_a_row_compare_places_once() -> None:
    kernel = kernel_of(prim_func(lambda e, x: e(op.argmax(x, -1)), (3, 264)))
    both = [line for line in kernel.script().splitlines() if " == " in line and " > " in line]
    assert len(both) == 1 and kernel.script().count(" >= ") == 2


@pytest.mark.parametrize("build", [op.argmax, op.argmin])
@pytest.mark.parametrize(("axis", "shape"), [(1, (2, 21, 4, 16)), (-1, (3, 264))])
def test_equal_values_have_the_first_place(build: Any, axis: int, shape: tuple[int, ...]) -> None:
    func = prim_func(lambda e, x: e(build(x, axis)), shape)
    x = np.random.default_rng(0).integers(0, 3, shape).astype("float64")
    for values in (x, np.zeros(shape), np.full(shape, -np.inf), np.full(shape, 65504.0)):
        (got,), (want,) = execute(kernel_of(func), [values]), interpret(func, [values])
        np.testing.assert_array_equal(got, want)


def test_nan_is_what_it_is_in_the_order_of_terms() -> None:
    func, x = prim_func(channels, (2, 21, 4, 16)), np.zeros((2, 21, 4, 16))
    x[0, 3], x[1, 0], x[1, 20], x[0, 5, 2] = np.nan, np.nan, np.nan, 7.0
    (got,), (want,) = execute(kernel_of(func), [x]), interpret(func, [x])
    np.testing.assert_array_equal(got, want)


def searched(earlier: Any, place: Any) -> Any:
    """A PrimFunc of a caller's own that searches rows of 40 numbers for the largest."""
    x, k = te.placeholder((64, 40), "float32"), te.reduce_axis((0, 40))

    def later(a: Any, b: Any) -> tuple[Any, Any]:
        wins = tirx.GT(a[1], b[1])
        first = tirx.Or(wins, tirx.And(tirx.EQ(a[1], b[1]), earlier(a[0], b[0])))
        return tirx.Select(first, a[0], b[0]), tirx.Select(wins, a[1], b[1])

    largest = te.comm_reducer(
        later, lambda i, v: (tirx.const(-1, i), tvm.te.min_value(v)), name="largest"
    )
    outs = te.compute((64,), lambda i: largest((place(k.var), x[i, k]), axis=k), name="out")
    return te.create_prim_func([x, *outs]).with_attr("tirx.noalias", True)


@pytest.mark.parametrize("earlier", [tirx.LT, tirx.GT])
def test_the_last_of_equal_values_may_be_wanted(earlier: Any) -> None:
    func = searched(earlier, lambda k: k)
    x = np.random.default_rng(0).integers(0, 3, (64, 40)).astype("float64")
    for got, want in zip(execute(kernel_of(func), [x]), interpret(func, [x]), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("place", "ordered"), [
    (lambda k: k, True), (lambda k: 2 * k + 1, True), (lambda k: k - 1, False),
    (lambda k: 39 - k, False), (lambda k: tvm.tirx.floordiv(k, 2), False),
])  # fmt: skip
def test_only_places_that_grow_are_in_order(place: Any, ordered: bool) -> None:
    """Each above the one before, and all above the -1 of the start."""
    (step,) = read_program(searched(tirx.LT, place), True).steps
    (combine,) = combinations(step)
    loops = [(a.var, int(a.extent)) for a in step.reduced]
    found = combine.in_order(loops, combine.terms[0], bound(step.axes))
    assert (found is not combine) == ordered
    check(searched(tirx.LT, place), kernel_of(searched(tirx.LT, place)))
