"""Padded buckets serve from the sizes on for which they are worth it; the generic kernel before."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from tvm import relax

from opinfo.analysis import Refusal
from opinfo.byoc.dims.span import Span
from opinfo.byoc.dims.symbolic_dims import bind
from opinfo.jit import Aot, Config, Dim, compile_shapes
from opinfo.jit.aot.merge import merge
from opinfo.jit.aot.padding_cost import COPIES, buffers, lowest, runs, size
from opinfo.jit.padding import PaddingProof, pad_safe
from tests.jit import modules

from ..legalised import kernel
from .test_ranges import check, merged


def at(func: Any, **values: int) -> dict[str, int] | Refusal:
    padded = [p for p in (pad_safe(func, name) for name in values) if isinstance(p, PaddingProof)]
    assert len(padded) == len(values)
    return lowest(func, bind(func, values), values, padded)


def test_all_sizes_are_served_where_it_costs_little_and_from_a_quarter_on_beyond() -> None:
    """Of (n, k) @ (k, k), 2 * n * k elements grow with n, and n * k * k products."""
    wide = kernel(lambda x, w: relax.op.matmul(x, w), [("n", 512), (512, 512)])
    assert at(wide, n=16) == {"n": 1}
    assert at(wide, n=65) == {"n": 17}  # many products
    thin = kernel(lambda x: relax.op.exp(x), [("n", 64)])
    assert at(thin, n=2048) == {"n": 1}
    assert at(thin, n=4096) == {"n": 1024}  # many bytes
    refused = at(thin, n=1 << 20)
    assert isinstance(refused, Refusal)
    assert (
        refused.reason == f"padding copies {((1 << 20) - 1) * 512} bytes, expected at most {COPIES}"
    )


def test_what_does_not_grow_costs_nothing() -> None:
    """A weight of 64 MiB is not copied."""
    func = kernel(
        lambda x, w: relax.op.take(w, x, 0), [("n",), (1 << 18, 64)], ["int64", "float32"]
    )
    assert at(func, n=8) == {"n": 1}


def test_dimensions_that_are_padded_together_cost_together() -> None:
    func = kernel(lambda x: relax.op.exp(x), [("n", "m")])
    assert at(func, n=256, m=256) == {"n": 1, "m": 1}
    assert at(func, n=1024, m=1022) == {"n": 256, "m": 256}


def test_sizes_count_what_is_allocated() -> None:
    func = bind(kernel(lambda x: relax.op.nn.softmax(x, 1), [("n", 8)]), {"n": 4})
    # x, y and exp: (4, 8); the largest and the sum: (4,)
    assert sorted(map(size, buffers(func))) == [16, 16, 128, 128, 128]
    assert runs(func.body) == 4 * (8 + 8 + 8 + 8)


@pytest.mark.parametrize("how", [Aot(max=True), Aot({"n": (20,)}, pad=True)])
def test_below_the_lowest_the_generic_kernel_serves(
    monkeypatch: pytest.MonkeyPatch, how: Aot
) -> None:
    monkeypatch.setattr("opinfo.jit.aot.padding_cost.FREE_COPIES", 0)
    home, seen = import_module("opinfo.jit.aot.multi_version"), list[Any]()

    def noted(func: Any, variants: Any) -> Any:
        seen.extend(variants)
        return merge(func, variants)

    monkeypatch.setattr(home, "merge", noted)
    built, summary = merged(Config(how, dims={"n": Dim(1, 20)}))
    assert summary == "1 shape, padded in n; padded to n=20 from n=5"
    assert [v.spans for v in seen] == [{"n": Span(20, 20)}, {"n": Span(5, 20)}]
    check(built, (1, 4, 5, 6, 19, 20, 21))


@pytest.mark.parametrize(
    ("end", "message"),
    [(512, "1 shape, padded in n"),
     (1 << 20, "1 shape, padded in n; padded to n=1048576 from n=262144"),
     (1 << 36, "1 shape; not padded to n=68719476736: padding copies 13194139533120 bytes, "
               "expected at most 268435456"),
     (1 << 62, "1 shape skipped: a tensor exceeds the address space")],
)  # fmt: skip
def test_an_upper_end_beyond_all_sizes_costs_small_ones_nothing(end: int, message: str) -> None:
    built, why = merged(Config(Aot(max=True), dims={"n": Dim(1, end)}))
    assert why == message
    check(built, (1, 3, 40))


def test_one_kernel_beyond_all_memory_leaves_the_others_and_the_schedule() -> None:
    done = compile_shapes(modules.dense(), Aot({"n": (8, 1 << 62)}, pad=True))
    (function,) = done.functions
    why = "1 shape, padded in n; 1 shape skipped: a tensor exceeds the address space"
    assert function.row[1:] == ("aot", "contraction", why)
