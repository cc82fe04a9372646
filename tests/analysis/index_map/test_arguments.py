"""Arguments: what is accepted, and what is said about the rest."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import tirx
from tvm.tirx import IndexMap

from opinfo.analysis import compose, invert, prove_equal, prove_identity

from .oracle import as_python

N = tirx.Var("n", "int64")


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, "expected a tvm.tirx.IndexMap or a function", lambda: invert(3, [4])),
        (ValueError, "function of 2 axes", lambda: invert(lambda i: (i,), [4, 4])),
        (ValueError, "map of 1 axes", lambda: invert(IndexMap.from_func(lambda i, j: (i, j)), [4])),
        (
            ValueError,
            r"shape\[1\]: expected a positive extent, got 0",
            lambda: invert(lambda i, j: (i, j), [4, 0]),
        ),
        (TypeError, r"shape\[0\]: expected an int", lambda: invert(lambda i: (i,), [4.0])),
        (TypeError, r"shape\[0\]: expected an int", lambda: invert(lambda i: (i,), [True])),
        (
            TypeError,
            "must be an integer",
            lambda: invert(lambda i: (tirx.Cast("float32", i),), [4]),
        ),
        (TypeError, "must be an integer expression", lambda: invert(lambda i: ("a",), [4])),
        (
            ValueError,
            "out_shape: expected 1 extents, got 2",
            lambda: invert(lambda i: (i,), [4], out_shape=[2, 2]),
        ),
        (
            TypeError,
            "boolean expression",
            lambda: invert(lambda i: (i,), [4], predicate=lambda i: i),
        ),
        (
            ValueError,
            "equally many results",
            lambda: prove_equal(lambda i: (i,), lambda i: (i, i), [4]),
        ),
        (
            ValueError,
            "function of 2 axes",
            lambda: prove_identity(lambda i: (i, i), lambda i: (i,), [4]),
        ),
        (
            ValueError,
            "1 results of g",
            lambda: prove_identity(lambda i: (i,), lambda i: (i, i), [4]),
        ),
        (ValueError, "function of 1 axes", lambda: compose(lambda i, j: (i,), lambda i: (i,), [4])),
    ],
)
def test_wrong_arguments_raise_early(error: type[Exception], message: str, call: Any) -> None:
    with pytest.raises(error, match=message):
        call()


def test_int32_maps_have_int32_inverses() -> None:
    forward = IndexMap.from_func(lambda i: ((i + 3) % 10,), index_dtype="int32")
    inverse = invert(forward, [10]).inverse
    assert isinstance(inverse, IndexMap)
    assert {str(v.ty.dtype) for v in inverse.initial_indices} == {"int32"}
    assert {str(e.ty.dtype) for e in inverse.final_indices} == {"int32"}
    assert as_python(inverse)(3) == (0,)


def test_extents_may_be_expressions() -> None:
    found = invert(lambda i: (i // 4, i % 4), [N * 4])
    assert found.verdict == "bijective"
    assert found.out_shape is not None and str(found.out_shape[0]) == "n"


def test_sizes_that_share_a_name_stay_distinct() -> None:
    other = tirx.Var("n", "int64")
    assert invert(lambda i, j: (i * other + j,), [N, other]).verdict == "bijective"
    assert invert(lambda i, j: (i * N + j,), [N, other]).verdict != "bijective"


def test_a_given_box_decides_between_injective_and_bijective() -> None:
    assert invert(lambda i: (i,), [6], out_shape=[6]).verdict == "bijective"
    assert invert(lambda i: (i,), [6], out_shape=[8]).verdict == "injective"
    outside = invert(lambda i: (i,), [6], out_shape=[4])
    assert outside.counterexample is not None
    assert (outside.verdict, outside.counterexample.kind) == ("injective", "out_of_range")


def test_a_predicate_restricts_the_domain() -> None:
    whole = invert(lambda y, r: (y * 2 + r,), [4, 3])
    part = invert(lambda y, r: (y * 2 + r,), [4, 3], predicate=lambda y, r: r < 2)
    assert (whole.verdict, part.verdict) == ("not_injective", "bijective")


def test_a_predicate_on_a_symbolic_domain() -> None:
    found = invert(lambda i, j: (i * 4 + j,), [N, 4], predicate=lambda i, j: i * 4 + j < N)
    assert found.verdict in ("injective", "bijective")
    assert found.inverse is not None


def test_an_opaque_expression_is_unknown() -> None:
    found = invert(lambda i: (tirx.call_intrin("int64", "tirx.popcount", i),), [4])
    assert found.verdict == "unknown"
    assert found.reason
    assert found.inverse is None


def test_results_may_be_python_integers() -> None:
    assert invert(lambda i: (0, i), [5]).verdict == "bijective"


def test_a_function_of_any_number_of_axes() -> None:
    assert invert(lambda *x: x[::-1], [2, 3, 4]).verdict == "bijective"


def test_compose_simplifies() -> None:
    both = compose(lambda a, b: (a * 4 + b,), lambda i: (i // 4, i % 4), [12])
    assert both.final_indices[0].same_as(both.initial_indices[0])


def test_prove_equal_on_symbolic_domains() -> None:
    m = tirx.Var("m", "int64")
    f = lambda i, j: ((i * m + j) // m, (i * m + j) % m)  # noqa: E731
    assert prove_equal(f, lambda i, j: (i, j), [N, m]).verdict == "proved"
    other = prove_equal(f, lambda i, j: (j, i), [N, m])
    assert other.verdict == "refuted"
    assert other.counterexample is not None and other.counterexample.sizes


def test_a_comparison_is_checked_by_another_engine() -> None:
    found = prove_identity(lambda i: ((i + 3) % 10,), lambda i: ((i + 7) % 10,), [10])
    (again,) = found.check()
    assert (found.verdict, again.verdict) == ("proved", "proved")
    assert again.engine != found.obligations[0].engine


def test_large_literal_domains() -> None:
    found = prove_identity(lambda i, j: (j, i), lambda i, j: (i, j), [4096, 4096])
    assert found.verdict == "refuted"
    (point,) = found.counterexample.points  # type: ignore[union-attr]
    assert point[0] != point[1]
