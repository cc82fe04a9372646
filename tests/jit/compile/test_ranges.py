"""Kernels for ranges of a dimension: which there are, and that each shape is served rightly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.byoc.dims.span import Span
from opinfo.jit import Aot, Budget, Config, Dim, Jit, Library, Range, specialize_shapes
from opinfo.jit.compile.compile_shapes import lowered
from opinfo.jit.config.ranges import parts, spans_at
from opinfo.jit.config.sites import call_sites
from opinfo.jit.config.strategy import checked_config
from tests.jit import modules


def merged(given: Config) -> tuple[Any, str]:
    """The PrimFunc of `modules.dense` compiled ahead of time, built, and the reason given."""
    done = specialize_shapes(lowered(modules.dense()), given)
    (function,) = done.functions
    func = done.module[function.function]
    return tvm.tirx.build(tvm.IRModule({"f": func.with_attr("global_symbol", "f")}), "llvm"), \
        function.why  # fmt: skip


def check(built: Any, sizes: tuple[int, ...]) -> None:
    w = tvm.runtime.tensor(modules.weight())
    for n in sizes:
        x = modules.rows(n)
        y = tvm.runtime.tensor(np.full((n, modules.WIDTH), np.nan, "float32"))
        built["f"](tvm.runtime.tensor(x), w, y)
        np.testing.assert_allclose(y.numpy(), modules.expected(x), rtol=1e-4, atol=1e-5)


def test_ranges_serve_with_the_generic_kernel_around() -> None:
    """At and between the edges, and outside."""
    built, summary = merged(Config(Aot(ranges={"n": ((2, 6), (17, 40))})))
    assert summary == "2 ranges"
    check(built, (1, 2, 3, 6, 7, 16, 17, 29, 40, 41, 200))


def test_multiples_are_served_by_kernels_without_a_rest() -> None:
    """A multiple inside, its neighbours, multiples outside; a bucket goes before the range."""
    built, summary = merged(
        Config(Aot({"n": (16,)}, ranges={"n": ((8, 64, 8), Range(5, None, 5))}))
    )
    assert summary == "1 shape, 2 ranges"
    check(built, (1, 5, 8, 9, 16, 24, 25, 40, 63, 64, 65, 72, 80))


def test_a_declared_range_is_cut_where_that_is_faster() -> None:
    cases = [(Dim(1, 1000), "1 shape, 2 ranges"), (Dim(8, 1000, 8), "1 shape, 2 ranges"),
            (Dim(1, 16), "16 shapes"), (Dim(1, 16, likely=(3,)), "1 shape, 1 range"),
            (Dim(likely=(3, 4)), "2 shapes"), (Dim(20), "1 range")]  # fmt: skip
    for dim, why in cases:
        done = specialize_shapes(lowered(modules.dense()), Config("aot", dims={"n": dim}))
        assert done.functions[0].why == why, dim
    off = Config(Aot(ranges={"n": ()}), dims={"n": Dim(1, 1000, likely=(2,))})
    assert specialize_shapes(lowered(modules.dense()), off).functions[0].why == "1 shape"


@pytest.mark.parametrize(
    ("declared", "expected"),
    [(Range(), []), (Range(1, 512), ["1 to 4", "72 to 512"]), (Range(1, 3), ["1 to 3"]),
     (Range(5, 71), []), (Range(6, 90, 9), ["9 to 71, a multiple of 9",
                                            "72 to 90, a multiple of 9"]),
     (Range(0, 80), ["1 to 4", "72 to 80"]), (Range(96), ["96 or more"]),
     (Range(1, None, 8), ["8 to 71, a multiple of 8", "72 or more, a multiple of 8"])],
)  # fmt: skip
def test_parts_of_a_range(declared: Range, expected: list[str]) -> None:
    assert [str(r) for r in parts(declared)] == expected


def test_ranges_of_a_model_are_those_of_what_its_functions_see() -> None:
    """`attention` has n and m; softmax and both products see both."""
    sites = call_sites(lowered(modules.attention()))
    two = next(s for s in sites if len(s.symbols) == 2)
    found = spans_at(two, {"n": (Range(1, 4), Range(8, 64, 8)), "m": ()})
    n = two.symbols[0].name
    assert [s[n] for s in found] == [Span(1, 4), Span(8, 64, 8)]
    assert all(s == Span() for f in found for k, s in f.items() if k != n)
    both = {"n": (Range(1, 4), Range(9, 64)), "m": (Range(2, 3), Range(2, 3))}
    assert len(spans_at(two, both)) == 2
    assert spans_at(two, {"other": (Range(1, 4),)}) == ()


def test_kernels_beyond_the_limit_are_replaced_by_the_generic_one() -> None:
    given = Config(Aot({"n": (1, 2)}, ranges={"n": ((3, 4), (5, 9))}, max_variants=3))
    (function,) = specialize_shapes(lowered(modules.dense()), given).functions
    assert function.why == "2 shapes, 1 range; 1 more served by the generic kernel"


@pytest.mark.parametrize(
    ("how", "dim", "why"),
    [(Aot(), Dim(0, 1000, likely=(0, 4)), "1 shape, 2 ranges"),
     (Aot(max=True), Dim(0, 7, 8), "")],
)  # fmt: skip
def test_nothing_is_compiled_for_no_rows(how: Aot, dim: Dim, why: str) -> None:
    built, summary = merged(Config(how, dims={"n": dim}))
    left = "1 skipped: a tensor is empty"
    assert summary == "; ".join(filter(None, (why, left)))
    check(built, (1, 4, 5, 64))


def test_one_kernel_at_the_upper_end() -> None:
    built, summary = merged(Config(Aot(max=True), dims={"n": Dim(1, 20)}))
    assert summary == "1 shape, padded in n"
    check(built, (1, 7, 19, 20, 21))
    given = Config(Aot(max=True), dims={"n": Dim(4)})
    (none,) = specialize_shapes(lowered(modules.dense()), given).functions
    assert none.why == "no upper bound is declared for n: use `Dim(low, high)`"


def test_a_range_that_bounds_nothing_is_reported() -> None:
    """From 1 on, without a multiple, to an end beyond all sizes."""
    given = Config(Aot(ranges={"n": ((1, 2**31), (1, 2**30))}))
    (function,) = specialize_shapes(lowered(modules.dense()), given).functions
    assert function.row[1] == "generic"
    assert function.why == ("the bounds n in 1 to 2147483648 or 1 to 1073741824 leave its "
                        "dimensions effectively unbounded")  # fmt: skip


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda: Aot(ranges={"n": (1, 16)}),  # type: ignore[dict-item]
      r"ranges of n: expected \(low, high\) .*, got 1"),
     (lambda: Aot(ranges={"n": ((1, 2, 3, 4),)}), r"got \(1, 2, 3, 4\)"),
     (lambda: Aot(ranges={"n": ((0, 4),)}), r"got \(0, 4\)"),
     (lambda: Aot(ranges={"n": (Range(0, 4),)}), "expected a range from 1 or above"),
     (lambda: Aot(ranges={"n": ((9, 4),)}), "ranges of n: .* the range is empty"),
     (lambda: Aot(ranges={"n": ((9, 15, 8),)}), "ranges of n: .* the range is empty"),
     (lambda: Aot(ranges={"n": "1:16"}), "got '1:16'"),  # type: ignore[dict-item]
     (lambda: Aot({"n": (1, 0)}), r"buckets of n: expected positive integers.*got \(1, 0\)"),
     (lambda: Aot({"n": (1 << 63,)}), "expected positive integers of 64 bits.*got .9223372036"),
     (lambda: Range(1, 1 << 63), "high: expected a 64-bit integer, got 9223372036854775808"),
     (lambda: Aot({"n": 8}), "got 8"),  # type: ignore[dict-item]
     (lambda: Aot({"n": (8,)}, max=True), "max cannot be combined with .* got those of n"),
     (lambda: Aot(max_variants=0), "max_variants: expected a positive integer, got 0"),
     (lambda: Aot([8]), r"Aot: buckets: expected a mapping such as .*, got \[8\]"),  # type: ignore
     (lambda: Aot(ranges=[(1, 4)]), "Aot: ranges: expected a mapping"),  # type: ignore[arg-type]
     (lambda: checked_config(Config(dims=[Dim(1, 8)])), "dims: expected a mapping"),  # type: ignore
     (lambda: checked_config(Config(by_op="aot")), "by_op: expected a mapping"),  # type: ignore[arg-type]
     (lambda: Dim(9, 8), "the range is empty"),
     (lambda: Dim(4, 8, likely=(2,)), "the likely value 2 is not in 4 to 8"),
     (lambda: Dim(1, 8, likely=4), "likely: expected values such as .*, got 4"),  # type: ignore[arg-type]
     (lambda: Jit("soon"), 'expected "lazy" or "eager", got .soon.'),  # type: ignore[arg-type]
     (lambda: Jit(threshold=0), "threshold must be at least 1, got 0"),
     (lambda: Jit("lazy", 2.5), "Jit: threshold: expected an integer"),  # type: ignore[arg-type]
     (lambda: Library("onednn"), "expected names of backends, .* got 'onednn'"),  # type: ignore
     (lambda: Budget(kernels=-1), "Budget: kernels must not be negative, got -1"),
     (lambda: Budget(bytes=1.5), "Budget: bytes: expected an integer")],  # type: ignore[arg-type]
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_range_of_no_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown dimension m"):
        specialize_shapes(lowered(modules.dense()), Aot(ranges={"m": ((1, 4),)}))
