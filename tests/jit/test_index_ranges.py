"""Elements of parameters that index an axis are inside of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from tvm.script import ir as I
from tvm.script import relax as R

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.jit.arguments.argument_checks import BoundaryError
from opinfo.jit.arguments.index_ranges import IndexRange
from opinfo.jit.arguments.signature import Signature
from tests.onnx_import.against_runtime import floats, model

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
TABLE = floats(100, 4)


def gathered(op: str, dtype: str = "int64", *before: Any) -> Any:
    """Return a module that takes rows of a table, or elements, at an input."""
    shape = ["n", 4] if op == "GatherElements" else [2, "n"]
    node = helper.make_node(op, ["w", "j" if before else "i"], ["y"], axis=0)
    return from_model(model([*before, node], {"i": (shape, dtype)}, weights={"w": TABLE}), {})


@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_an_index_outside_of_a_table_is_refused(op: str) -> None:
    compiled = opinfo.compile(gathered(op), [])
    shape = (3, 4) if op == "GatherElements" else (2, 3)
    for k in (-100, -1, 0, 99):
        expected = TABLE[k][None] if op == "GatherElements" else TABLE[k][None, None]
        got = np.asarray(compiled.run(np.full(shape, k)))
        np.testing.assert_array_equal(got, np.broadcast_to(expected, got.shape))
    assert np.asarray(compiled.run(np.zeros((shape[0], 0) if op == "Gather" else (0, 4), "int64"))
                      ).size == 0  # fmt: skip
    for k in (-101, 100, 2_000_000_000):
        ids = np.zeros(shape, "int64")
        ids[1, 2] = k
        message = (rf"^main: argument i has the element {k}; they index an axis of 100, so they "
                   "must be -100 to 99$")  # fmt: skip
        with pytest.raises(BoundaryError, match=message):
            compiled.run(ids)


def test_elements_are_followed_through_reshapes_and_casts() -> None:
    nodes = [helper.make_node("Transpose", ["i"], ["t"], perm=[1, 0]),
             helper.make_node("Cast", ["t"], ["j"], to=7)]  # fmt: skip
    signature = Signature.of(gathered("Gather", "int32", *nodes)["main"])
    assert signature.indices == (IndexRange(0, -100, 99),)
    assert Signature.from_json(signature.to_json()) == signature


def test_arithmetic_on_elements_is_not_followed() -> None:
    nodes = [helper.make_node("Mul", ["i", "i"], ["j"])]
    assert Signature.of(gathered("Gather", "int64", *nodes)["main"]).indices == ()


def test_the_smaller_of_two_tables_counts() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(
            i: R.Tensor(("n",), "int64"), a: R.Tensor((9, 4)), b: R.Tensor((5, 4)),
            k: R.Tensor(("n",), "int64"), c: R.Tensor(("m", 4)),
        ) -> R.Tensor(("n", 4)):  # fmt: skip
            with R.dataflow():
                x = R.add(R.take(a, i, axis=0), R.take(b, i, axis=0))
                y = R.add(R.take(a, k, axis=0, mode="clip"), R.take(c, k, axis=0))
                z = R.add(x, y)
                R.output(z)
            return z

    assert Signature.of(Module["main"]).indices == (IndexRange(0, 0, 4),)
