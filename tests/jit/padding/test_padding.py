"""Which dimensions may be padded, with what, and why not; wrong proofs would show in the oracle."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from tvm import relax

from opinfo.analysis import Refusal
from opinfo.jit.padding import PaddingProof, pad_safe
from opinfo.jit.padding.padding_claim import FINITE

from ..legalised import Shape, kernel

op, nn = relax.op, relax.op.nn

#: An expression, its tensors' shapes; per growing input ``param: content`` (None: anything).
SAFE: dict[str, tuple[Callable[..., Any], list[Shape], dict[int, float | None]]] = {
    "relu": (lambda x: nn.relu(x), [("n", 8)], {0: None}),
    "bias": (lambda x, b: op.add(x, b), [("n", 8), (8,)], {0: None}),
    "matmul rows": (lambda x, w: op.matmul(x, w), [("n", 8), (8, 4)], {0: None}),
    "matmul inside": (lambda x, w: op.matmul(x, w), [(4, "n"), ("n", 8)], {0: 0.0, 1: 0.0}),
    "sum": (lambda x: op.sum(x, [0]), [("n", 8)], {0: 0.0}),
    "sum of the other axis": (lambda x: op.sum(x, [1]), [("n", 8)], {0: None}),
    "max": (lambda x: op.max(x, [0]), [("n", 8)], {0: -math.inf}),
    "min": (lambda x: op.min(x, [0]), [("n", 8)], {0: math.inf}),
    "prod": (lambda x: op.prod(x, [0]), [("n", 8)], {0: 1.0}),
    "softmax": (lambda x: nn.softmax(x, 0), [("n", 8)], {0: -math.inf}),
    "log_softmax": (lambda x: nn.log_softmax(x, 0), [("n", 8)], {0: -math.inf}),
    "softmax of the other axis": (lambda x: nn.softmax(x, 1), [("n", 8)], {0: None}),
    "conv2d of a batch": (
        lambda x, w: nn.conv2d(x, w, padding=(1, 1)), [("n", 3, 8, 8), (4, 3, 3, 3)], {0: None}),
    "conv2d of an image": (
        lambda x, w: nn.conv2d(x, w, padding=(1, 1)), [(1, 3, "n", "n"), (4, 3, 3, 3)], {0: 0.0}),
    "conv2d with strides": (
        lambda x, w: nn.conv2d(x, w, (2, 2), (1, 1)), [(1, 3, "n", 8), (4, 3, 3, 3)], {0: 0.0}),
    "max_pool2d": (lambda x: nn.max_pool2d(x, (2, 2), (2, 2)), [(1, 3, "n", 8)], {0: None}),
    "layer_norm": (
        lambda x, g, b: nn.layer_norm(x, g, b, [-1]), [("n", 8), (8,), (8,)], {0: None}),
    "transpose": (lambda x: op.permute_dims(x, [1, 0]), [("n", 8)], {0: None}),
    "concat of the other axis": (
        lambda x, y: op.concat([x, y], 1), [("n", 8), ("n", 4)], {0: None, 1: None}),
    "flatten": (lambda x: op.flatten(x), [("n", 8)], {0: None}),
    "argmax": (lambda x: op.argmax(x, 0), [("n", 8)], {0: -math.inf}),
    "twice as long": (lambda x: nn.relu(x), [("2*n", "n")], {0: None}),
}  # fmt: skip

UNSAFE: dict[str, tuple[Callable[..., Any], list[Shape], str]] = {
    "mean": (lambda x: op.mean(x, [0]), [("n", 8)], "n changes"),
    "flip": (lambda x: op.flip(x, 0), [("n", 8)], r"axis 0 of the read x0\[n - y0 - 1, y1\]"),
    "concat": (lambda x, y: op.concat([x, y], 0), [("n", 8), ("n", 8)], "axis 0 of the read x1"),
    "flatten behind": (lambda x: op.flatten(x), [(8, "n")], "axis 0 of the read x0"),
    "variance": (lambda x: op.variance(x, [0]), [("n", 8)], "changes"),
    "layer_norm": (
        lambda x, g, b: nn.layer_norm(x, g, b, [-1]), [(8, "n"), ("n",), ("n",)], "changes"),
    "resize": (lambda x: op.image.resize2d(x, (8, 8)), [(1, 3, "n", 8)], ""),
    "a sum of what is not 0": (
        lambda x: op.sum(op.exp(op.abs(x)), [0]), [("n", 8)], "includes padding"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAFE)
def test_safe_padding_is_proved_with_its_contents(name: str) -> None:
    build, shapes, contents = SAFE[name]
    found = pad_safe(kernel(build, shapes), "n")
    assert isinstance(found, PaddingProof), found
    assert {g.param: g.content for g in found.inputs} == contents


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_padding_is_refused_with_its_reason(name: str) -> None:
    build, shapes, why = UNSAFE[name]
    found = pad_safe(kernel(build, shapes), "n")
    assert isinstance(found, Refusal), found
    assert re.search(why, found.reason), found


def test_the_proof_lists_the_axes_that_grow() -> None:
    found = pad_safe(kernel(lambda x: op.permute_dims(x, [1, 0]), [("n", "2*n")]), "n")
    assert isinstance(found, PaddingProof)
    assert [g.axes for g in (*found.inputs, *found.outputs)] == [(0, 1), (0, 1)]
    assert not found.assumes


def test_the_proof_lists_what_it_assumes_of_valid_elements() -> None:
    names = ("softmax", "max", "min", "sum", "relu")
    found = [pad_safe(kernel(SAFE[k][0], SAFE[k][1]), "n") for k in names]
    assert [isinstance(p, PaddingProof) and p.assumes for p in found] == [(FINITE,)] * 3 + [(), ()]


def test_another_dimension_stays_as_it_is() -> None:
    func = kernel(lambda x, w: op.matmul(x, w), [("n", "k"), ("k", 8)])
    n, k = pad_safe(func, "n"), pad_safe(func, "k")
    assert isinstance(n, PaddingProof) and [g.param for g in n.inputs] == [0]
    assert isinstance(k, PaddingProof) and {g.param: g.content for g in k.inputs} == {
        0: 0.0,
        1: 0.0,
    }


def test_a_name_that_is_not_a_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected one of the dimensions \['n'\], got 'q'"):
        pad_safe(kernel(lambda x: nn.relu(x), [("n", 8)]), "q")


# ------------------------------------------------------------------------ what garbage could break


def test_indices_in_the_padding_must_be_zero() -> None:
    func = kernel(
        lambda x, i: op.take(x, i, 0, mode="fast"), [(10, 8), ("n",)], ("float32", "int64")
    )
    found = pad_safe(func, "n")
    assert isinstance(found, PaddingProof) and [(g.param, g.content) for g in found.inputs] == [
        (1, 0)
    ]


def test_clamped_indices_may_be_anything() -> None:
    func = kernel(
        lambda x, i: op.take(x, i, 0, mode="clip"), [(10, 8), ("n",)], ("float32", "int64")
    )
    found = pad_safe(func, "n")
    assert isinstance(found, PaddingProof) and [g.content for g in found.inputs] == [None]
