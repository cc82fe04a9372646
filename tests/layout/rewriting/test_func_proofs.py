"""Operators of forms are sought up to rounding only where the original is one up to rounding."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relax

from opinfo.analysis import OpInfo, Refusal
from opinfo.layout import plan_layout
from opinfo.layout.rewrite.func_proofs import FuncProofs

from ...common.prim_funcs import lowered
from .. import nets
from ..planning.test_plan import check_same


def sigmoid_times(x: Any) -> Any:
    """Return x / (1 + exp(-x)), which is silu up to rounding."""
    one = relax.const(1.0, "float32")
    return relax.op.divide(x, relax.op.add(one, relax.op.exp(relax.op.negative(x))))


def fused_silu() -> Any:
    """Return the PrimFunc of x / (1 + exp(-x))."""
    x = relax.Var("x", relax.TensorType((4, 5), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(sigmoid_times(x)))
        builder.emit_func_output(out)
    mod = relax.transform.LegalizeOps()(builder.get())
    mod = relax.transform.AnnotateTIROpPattern()(mod)
    mod = relax.transform.FuseTIR()(relax.transform.FuseOps()(mod))
    (func,) = (f for f in mod.functions.values() if not isinstance(f, relax.Function))
    return func


def test_an_operator_up_to_rounding_is_refused_where_an_exact_one_is_asked_for() -> None:
    proofs, func = FuncProofs(), fused_silu()
    for _ in range(2):  # the answers do not replace one another
        rounded = proofs.direct(func)
        assert isinstance(rounded, OpInfo)
        assert (rounded.name, rounded.certificate.kind) == ("relax.nn.silu", "real")
        assert isinstance(proofs.direct(func, rounded=False), Refusal)


def test_an_exact_operator_is_found_either_way() -> None:
    proofs, func = FuncProofs(), lowered(relax.op.nn.relu, (4, 5))
    for rounded in (True, False):
        info = proofs.direct(func, rounded)
        assert isinstance(info, OpInfo)
        assert info.name == "relax.nn.relu"
        assert info.certificate.kind != "real"


def test_forms_of_exact_operators_are_not_compared_up_to_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []
    direct = FuncProofs.direct

    def ask(proofs: FuncProofs, func: Any, rounded: bool = True) -> Any:
        asked.append(rounded)
        return direct(proofs, func, rounded)

    monkeypatch.setattr(FuncProofs, "direct", ask)
    shape = (1, 3, 8, 8)
    mod = nets.net(nets.residual, shape)
    planned = plan_layout(mod, {"nn.conv2d": ["NHWC", "OHWI"]}, mode="graph")
    assert planned.report.moved()
    assert asked
    assert not any(asked)
    check_same(mod, planned.module, shape)
