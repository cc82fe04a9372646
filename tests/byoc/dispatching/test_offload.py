"""Chains are taken whole after lowering, and of models as much as before it."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relax

from benchmarks.backends.offload import backends_taking, before, compare, matching
from benchmarks.backends.offload_page import Row
from benchmarks.backends.unlowered import unlowered

from ...layout import nets
from .chains import CHAINS


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_taken_whole(name: str) -> None:
    backend = CHAINS[name].backend
    assert backends_taking(name, [backend]) == [backend]


def _some(emit: Any, rng: Any, x: Any) -> Any:
    """Of six operators oneDNN takes five: no argmax."""
    y = emit(relax.op.nn.conv2d(x, nets.const(rng, 8, 4, 3, 3), padding=1))
    y = emit(relax.op.nn.relu(emit(relax.op.multiply(y, relax.const(0.5)))))
    y = emit(relax.op.nn.max_pool2d(y, (2, 2), (2, 2)))
    y = emit(relax.op.argmax(emit(relax.op.nn.softmax(y, 1)), 1))
    return y


def test_what_is_matched_before_lowering_is_read_off_the_calls() -> None:
    mod = nets.net(_some, (1, 4, 8, 8), legal=False)
    found = unlowered(mod)
    assert [op.name.removeprefix("relax.") for op in found.ops] == [
        "nn.conv2d", "multiply", "nn.relu", "nn.max_pool2d", "nn.softmax", "argmax"]  # fmt: skip
    ops, computed = before(found, matching("onednn"))
    assert ops == (5, 6)
    products, written, pooled = 2 * 8 * 64 * 36, 8 * 64, 8 * 16
    assert computed == (products + 2 * written + 2 * pooled, products + 2 * written + 2 * pooled
                        + 16)  # fmt: skip


def test_as_much_is_matched_after_lowering() -> None:
    mod = nets.net(_some, (1, 4, 8, 8), legal=False)
    for row in compare("some", mod, ("onednn", "onnxruntime", "cudnn")):
        assert row.good, row
        assert row.ops_before[0] == 0 or row.ops_after[0] > 0


def test_fewer_offloaded_operators_are_marked() -> None:
    row = Row("m", "b", (5, 10), (4, 10), (8, 10), (9, 10))
    assert not row.good and row.as_line().endswith(", fewer")
    assert Row("m", "b", (5, 10), (5, 12), (8, 10), (7, 8)).good
    assert not Row("m", "b", (5, 10), (6, 10), (8, 10), (7, 10)).good
    assert Row("m", "b", (5, 10), (6, 10), (8000, 10000), (7999, 10000)).good
