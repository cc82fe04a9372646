"""Dataflow blocks inside of branches are made plain before TVM fuses."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.byoc.prepare.plain_branches import plain_branches

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")


@I.ir_module
class Branching:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(
        ("n", 4), "float32"
    ):
        n = T.int64()
        if c:
            s = R.match_cast(R.shape([n + 1]), R.Shape([n + 1]))  # noqa: F841
            d = R.nn.relu(x)
            z = R.exp(d)
        else:
            z = R.exp(x)
        w = R.nn.relu(z)
        v = R.exp(w)
        return v


def test_only_blocks_inside_of_branches_change() -> None:
    before = relax.transform.ConvertToDataflow()(Branching)
    expected = Branching["main"].body.blocks[0].bindings[0].value
    after = plain_branches(before)
    blocks = after["main"].body.blocks
    assert [type(b) for b in blocks] == [relax.BindingBlock, relax.DataflowBlock]
    got = blocks[0].bindings[0].value
    tvm.ir.assert_structural_equal(got, expected, map_free_vars=True)


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_that_matches_a_shape_compiles(taken: bool) -> None:
    x = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    z = np.exp(np.maximum(x, 0) if taken else x)
    got = opinfo.compile(Branching, []).run(x, np.array(taken))
    np.testing.assert_allclose(got, np.exp(z), rtol=1e-5)
