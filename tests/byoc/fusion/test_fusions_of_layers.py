"""Fusions on layers as models have them: biases, grouped heads, low-rank additions, shared weights.

Each pass meets modules without names. Results are compared with those before it; modules with
those that are written by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis.composites import transposed_matmul
from opinfo.testing.strip import strip_module
from opinfo.transform import DispatchAttention, FuseQKV, FuseTransposeMatmul

from ...common.prim_funcs import fused
from ...common.run import run
from ..prepare.lowered_graphs import Build, module, names, weight

OP = relax.op
ROWS, WIDTH, HEADS, GROUPS, SIZE = 5, 8, 4, 2, 2


def agree(before: Any, after: Any, *shapes: tuple[int, ...], near: float = 0.0) -> None:
    rng = np.random.default_rng(1)
    values = [rng.standard_normal(s).astype("float32") for s in shapes]
    for a, b in zip(run(before, values), run(after, values), strict=True):
        np.testing.assert_allclose(a, b, near, near)


# ---------------------------------------------------------------------------- queries, keys, values


def product(e: Any, x: Any, columns: int, seed: int) -> Any:
    return e(OP.matmul(x, weight(int(x.ty.shape[-1]), columns, seed=seed)))


def low_rank(e: Any, x: Any, columns: int) -> Any:
    return product(e, product(e, x, 2, 8), columns, 9)


def grouped(e: Any, x: Any) -> list[Any]:
    """Queries of four heads, keys and values of two, with biases."""
    parts = [product(e, x, n, seed) for n, seed in ((8, 1), (4, 2), (4, 3))]
    return [e(OP.add(p, weight(int(p.ty.shape[-1]), seed=4))) for p in parts]


def with_low_rank(e: Any, x: Any) -> list[Any]:
    """Queries with a low-rank addition: its second product is of another value."""
    q = e(OP.add(product(e, x, 8, 1), low_rank(e, x, 8)))
    return [q, product(e, x, 4, 2), product(e, x, 4, 3)]


def of_an_adapted_value(e: Any, x: Any) -> list[Any]:
    """Keys and values of x and a low-rank addition, queries of x alone."""
    y = e(OP.add(x, low_rank(e, x, 8)))
    return [product(e, x, 8, 1), product(e, y, 4, 2), product(e, y, 4, 3)]


def tied(e: Any, x: Any) -> list[Any]:
    """A weight of two products of x, and of one of their sum."""
    w = weight(8, 8, seed=1)
    y = e(OP.add(e(OP.matmul(x, w)), e(OP.matmul(x, w))))
    return [e(OP.matmul(y, w)), product(e, y, 4, 2)]


_PAIR = ["matmul", "split"]


@pytest.mark.part
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (grouped, [*_PAIR, "add", "add", "add"]),
        (with_low_rank, [*_PAIR, "matmul", "add"]),
        (of_an_adapted_value, [*_PAIR, "matmul", "add", *_PAIR]),
        (tied, [*_PAIR, "add", *_PAIR]),
    ],
)
@pytest.mark.parametrize("lowered", [True, False])
def test_products_of_one_value_are_joined(build: Build, expected: list[str], lowered: bool) -> None:
    before = module(build, (ROWS, WIDTH), lowered=lowered)
    after = FuseQKV()(before)
    relax.analysis.well_formed(after)
    assert names(after) == expected
    agree(before, after, (ROWS, WIDTH))


def test_the_products_of_an_adapted_value_are_written_by_hand() -> None:
    def by_hand(e: Any, x: Any) -> list[Any]:
        def joined(y: Any, columns: tuple[int, ...], seeds: tuple[int, ...]) -> list[Any]:
            parts = [
                weight(8, n, seed=s).value.numpy() for n, s in zip(columns, seeds, strict=True)
            ]
            whole = e(OP.matmul(y, relax.const(np.concatenate(parts, 1))))
            ends = [int(k) for k in np.cumsum(columns)[:-1]]
            split = e(OP.split(whole, ends, -1))
            return [relax.TupleGetItem(split, k) for k in range(len(columns))]

        first = joined(x, (2, 8), (8, 1))
        y = e(OP.add(x, e(OP.matmul(e(first[0]), weight(2, 8, seed=9)))))
        q = e(first[1])
        second = joined(y, (4, 4), (2, 3))
        return [q, *map(e, second)]

    after = FuseQKV()(module(of_an_adapted_value, (ROWS, WIDTH), lowered=False))
    tvm.ir.assert_structural_equal(after, module(by_hand, (ROWS, WIDTH), lowered=False))


def test_products_that_are_fused_with_their_biases_stay() -> None:
    mod = strip_module(fused(module(grouped, (ROWS, WIDTH), lowered=False)))
    tvm.ir.assert_structural_equal(FuseQKV()(mod), mod)


# ---------------------------------------------------------------------------- transposed weights


def turned(e: Any, w: Any) -> Any:
    return e(OP.permute_dims(w))


def linear(e: Any, x: Any, w: Any, b: Any, d: Any) -> list[Any]:
    return [e(OP.add(e(OP.matmul(x, turned(e, w))), weight(6)))]


def adapted_weight(e: Any, x: Any, w: Any, a: Any, b: Any) -> list[Any]:
    """The transpose of a weight that a low-rank product is added to."""
    return [e(OP.matmul(x, turned(e, e(OP.add(w, e(OP.matmul(b, a)))))))]


def adapted_transpose(e: Any, x: Any, w: Any, a: Any, b: Any) -> list[Any]:
    """A low-rank product that is added to the transpose: the operand is not a transpose."""
    return [e(OP.matmul(x, e(OP.add(turned(e, w), e(OP.matmul(b, a))))))]


def scaled_transpose(e: Any, x: Any, w: Any, a: Any, b: Any) -> list[Any]:
    return [e(OP.matmul(x, e(OP.multiply(turned(e, w), relax.const(0.5, "float32")))))]


def reshaped_transpose(e: Any, x: Any, w: Any, a: Any, b: Any) -> list[Any]:
    return [e(OP.matmul(x, e(OP.reshape(turned(e, w), (WIDTH, 6)))))]


_SHAPES = ((ROWS, WIDTH), (6, WIDTH), (2, WIDTH), (6, 2))
NT = "nn.transposed_matmul"


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (linear, [NT, "add"]),
        (adapted_weight, ["matmul", "add", NT]),
    ],
)
def test_weights_are_read_as_they_are_stored(build: Build, expected: list[str]) -> None:
    before = module(build, *_SHAPES)
    after = FuseTransposeMatmul()(before)
    relax.analysis.well_formed(after)
    assert names(after) == expected
    agree(before, after, *_SHAPES)


def test_the_product_of_an_adapted_weight_is_written_by_hand() -> None:
    def by_hand(e: Any, x: Any, w: Any, a: Any, b: Any) -> list[Any]:
        return [e(transposed_matmul(x, e(OP.add(w, e(OP.matmul(b, a))))))]

    after, hand = FuseTransposeMatmul()(module(adapted_weight, *_SHAPES)), module(by_hand, *_SHAPES)
    assert names(after) == names(hand)
    agree(after, hand, *_SHAPES)


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (adapted_transpose, (*_SHAPES[:2], (2, 6), (WIDTH, 2))),
        (scaled_transpose, _SHAPES),
        (reshaped_transpose, ((ROWS, WIDTH), (4, 12), (2, WIDTH), (6, 2))),
    ],
)
def test_operands_that_are_not_transposes_stay(build: Build, shapes: Any) -> None:
    mod = module(build, *shapes)
    tvm.ir.assert_structural_equal(FuseTransposeMatmul()(mod), mod)


# ---------------------------------------------------------------------------- attention


def heads(e: Any, x: Any, count: int) -> Any:
    split = e(OP.reshape(x, (1, ROWS, count, SIZE)))
    return e(OP.permute_dims(split, [0, 2, 1, 3]))


def layer(
    e: Any, x: Any, *, shared: bool = False, between: Any = None, scores: Any = None,
    weights: Any = None,
) -> list[Any]:  # fmt: skip
    """Attention of grouped heads over projections with biases, as a decoder layer has it."""
    q, k, v = grouped(e, x)
    v = k if shared else v
    k = between(e, k) if between else k
    q, k, v = heads(e, q, HEADS), heads(e, k, GROUPS), heads(e, v, GROUPS)
    k, v = (e(OP.repeat(t, HEADS // GROUPS, 1)) for t in (k, v))
    s = e(OP.matmul(q, e(OP.permute_dims(k, [0, 1, 3, 2]))))
    s = e(OP.multiply(s, relax.const(SIZE**-0.5, "float32")))
    s = scores(e, s, q, k) if scores else s
    p = e(OP.nn.softmax(s, -1))
    p = weights(e, p) if weights else p
    out = e(OP.permute_dims(e(OP.matmul(p, v)), [0, 2, 1, 3]))
    return [product(e, e(OP.reshape(out, (ROWS, HEADS * SIZE))), WIDTH, 5)]


def _adapter(e: Any, k: Any) -> Any:
    return e(OP.add(k, low_rank(e, k, 4)))


def _added_scores(e: Any, s: Any, q: Any, k: Any) -> Any:
    """A low-rank product that is added to the scores."""
    first = e(OP.matmul(q, weight(SIZE, 1, seed=6)))
    second = e(OP.matmul(k, weight(SIZE, 1, seed=7)))
    return e(OP.add(s, e(OP.matmul(first, e(OP.permute_dims(second, [0, 1, 3, 2]))))))


def _with_itself(e: Any, s: Any, q: Any, k: Any) -> Any:
    return e(OP.multiply(s, s))


def _dropped(e: Any, p: Any) -> Any:
    return e(OP.multiply(p, relax.const(0.9, "float32")))


def attentions(mod: Any) -> list[str]:
    return [n for n in names(mod) if "attention" in n]


@pytest.mark.parametrize(
    "changed", [{}, {"shared": True}, {"between": _adapter}, {"scores": _added_scores}]
)
def test_a_layer_has_one_attention(changed: dict[str, Any]) -> None:
    before = module(lambda e, x: layer(e, x, **changed), (ROWS, WIDTH))
    after = DispatchAttention()(before)
    relax.analysis.well_formed(after)
    assert len(attentions(after)) == 1 and "nn.softmax" not in names(after)
    agree(before, after, (ROWS, WIDTH), near=1e-5)


@pytest.mark.parametrize("changed", [{"scores": _with_itself}, {"weights": _dropped}])
def test_scores_that_are_changed_stay(changed: dict[str, Any]) -> None:
    mod = module(lambda e, x: layer(e, x, **changed), (ROWS, WIDTH))
    tvm.ir.assert_structural_equal(DispatchAttention()(mod), mod)


def test_keys_that_two_layers_share() -> None:
    """Both have attention over the keys as they are before they are moved."""

    def two(e: Any, x: Any) -> list[Any]:
        q, k, v = grouped(e, x)
        k, v = (heads(e, t, GROUPS) for t in (k, v))
        out = []
        for seed in (6, 7):
            y = heads(e, product(e, x, GROUPS * SIZE, seed), GROUPS)
            s = e(OP.matmul(y, e(OP.permute_dims(k, [0, 1, 3, 2]))))
            p = e(OP.nn.softmax(e(OP.multiply(s, relax.const(0.5, "float32"))), -1))
            out.append(e(OP.permute_dims(e(OP.matmul(p, v)), [0, 2, 1, 3])))
        return [*out, q]

    before = module(two, (ROWS, WIDTH))
    after = DispatchAttention()(before)
    assert len(attentions(after)) == 2
    agree(before, after, (ROWS, WIDTH), near=1e-5)


def test_all_passes_together() -> None:
    """They do not disturb each other."""

    def whole(e: Any, x: Any) -> list[Any]:
        (y,) = layer(e, x)
        return [e(OP.matmul(y, turned(e, weight(6, WIDTH, seed=3))))]

    before = module(whole, (ROWS, WIDTH))
    after = DispatchAttention()(FuseTransposeMatmul()(FuseQKV()(before)))
    assert names(after).count("split") == 1 and len(attentions(after)) == 1
    assert NT in names(after)
    agree(before, after, (ROWS, WIDTH), near=1e-5)
