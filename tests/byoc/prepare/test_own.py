"""What stays with TVM has the output channel innermost, where that saves more than it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis import OpInfo
from opinfo.analysis.answer.analyser import analyser
from opinfo.byoc.backend.backend import Backend
from opinfo.byoc.compile import compile_module
from opinfo.byoc.patterns.pattern import Pattern, one

from ...common.run import run
from ...layout import nets
from ...layout.nets import const
from ..backends.toy import convert, static

nn, op = relax.op.nn, relax.op
SHAPE = (1, 16, 12, 12)


def _net(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(nn.relu(emit(nn.conv2d(x, const(rng, 32, 16, 3, 3), padding=1))))
    y = emit(nn.relu(emit(nn.conv2d(y, const(rng, 32, 32, 3, 3), padding=1))))
    return emit(op.matmul(emit(op.mean(y, [2, 3])), const(rng, 32, 5)))


def _layouts(mod: Any) -> list[str]:
    """Those of convolutions."""
    analyse = analyser()
    found = [analyse(f).info for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
    convs = [i for i in found if isinstance(i, OpInfo) and i.name == "relax.nn.conv2d"]
    return sorted(str(i.attrs["data_layout"]) + (" relaid" if i.relaid else "") for i in convs)


def _same(mod: Any, found: Any) -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    told = found.machine()["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(told, run(mod, [x])[0], rtol=1e-4, atol=1e-4)


def test_tvm_alone_gets_its_best_implementation() -> None:
    mod = nets.net(_net, SHAPE, legal=False)
    found = compile_module(mod, ["tvm"])
    assert not found.dispatched.taken
    assert _layouts(found.dispatched.module) == ["NHWC", "NHWC"]
    _same(mod, found)


def test_what_a_backend_reads_and_writes_stays() -> None:
    relu = Backend("own", (Pattern("relu", one("relax.nn.relu", static)),), convert)
    mod = nets.net(_net, SHAPE, legal=False)
    found = compile_module(mod, [relu, "tvm"])
    assert [t.ops for t in found.dispatched.taken] == [("relax.nn.relu",)] * 2
    assert _layouts(found.dispatched.module) == ["NHWC", "NHWC"]
    _same(mod, found)


@pytest.mark.parametrize("how", [
    {"plan": False}, {"desired": {"conv2d": ["NCHW", "OIHW"]}}, {"desired": "tvm-nhwc"},
])  # fmt: skip
def test_what_is_asked_for_is_done(how: dict[str, Any]) -> None:
    mod = nets.net(_net, SHAPE, legal=False)
    found = _layouts(compile_module(mod, ["tvm"], **how).dispatched.module)
    assert found == (["NHWC"] if how.get("desired") == "tvm-nhwc" else ["NCHW"]) * 2


def test_where_it_does_not_pay_nothing_changes() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        return emit(nn.conv2d(x, const(rng, 2, 2, 1, 1)))

    mod = nets.net(build, (1, 2, 12, 12), legal=False)
    assert _layouts(compile_module(mod, ["tvm"]).dispatched.module) == ["NCHW"]
