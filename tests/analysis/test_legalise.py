"""Calling an operator's ``FLegalize`` gives what ``LegalizeOps`` gives, or the pass is run."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis import legalise as module
from opinfo.analysis.build import call_op
from opinfo.analysis.legalise import legalise
from opinfo.analysis.recognise import Matches, modules
from opinfo.analysis.same import structurally_equal
from tests.analysis.test_recognisers import Sizes, _operand, _with_sizes, lower


def _firsts() -> list[Matches]:
    """The first case of each operator."""
    found: dict[str, Matches] = {}
    for m in modules():
        for case in getattr(m, "MATCHES", ()):
            found.setdefault(case.op, case)
    return list(found.values())


def _operands(*shapes: tuple[int, ...]) -> list[relax.Var]:
    return [relax.Var(f"p{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]


@pytest.mark.parametrize("case", _firsts(), ids=lambda case: case.op.removeprefix("relax."))
def test_same_as_the_pass(case: Matches) -> None:
    sizes: Sizes = {}
    operands = [_operand(f"p{k}", text, sizes) for k, text in enumerate(case.operands)]
    attrs = {k: _with_sizes(v, sizes) for k, v in case.attrs.items()}
    dtype = str(operands[0].ty.dtype) if operands else str(attrs.get("dtype", "float32"))
    extra = [relax.Var("sizes", relax.ShapeType(list(sizes.values())))] if sizes else []
    found = legalise(call_op(case.op, operands, attrs, dtype), [*operands, *extra])
    assert found is not None
    if len(sizes) < 2:  # TVM orders several scalar parameters differently from run to run
        assert structurally_equal(found.func, lower(case))


def test_most_operators_need_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_by_pass", lambda *_: pytest.fail("the pass was run"))
    x, w = _operands((1, 8, 16, 16), (16, 8, 3, 3))
    found = legalise(relax.op.nn.conv2d(x, w), [x, w])
    assert found is not None and isinstance(found.func, tirx.PrimFunc)
    assert [a.name for a in found.call.args[1].fields] == ["p0", "p1"]


def test_what_the_pass_would_not_lower_is_not_lowered() -> None:
    x = relax.Var("x", relax.TensorType(None, "float32", ndim=2))
    assert legalise(relax.op.exp(x), [x]) is None


def test_an_operator_without_tir_is_none() -> None:
    (x,) = _operands((4, 4))
    assert legalise(relax.op.unique(x), [x]) is None


def test_a_rule_that_emits_bindings_goes_through_the_pass() -> None:
    """Such a rule lowers to more than one call; only the pass knows what becomes of it."""
    op = tvm.ir.Op.get("relax.exp")
    rule = op.get_attr("FLegalize")
    asked = []

    def twice(builder: relax.BlockBuilder, call: tvm.ir.Call) -> tvm.ir.Call:
        asked.append(call)
        inner = builder.emit(relax.op.negative(call.args[0]))
        return rule(builder, relax.op.exp(inner))

    (x,) = _operands((4,))
    op.set_attr("FLegalize", twice, 100)
    try:
        assert legalise(relax.op.exp(x), [x]) is None
    finally:
        op.set_attr("FLegalize", rule, 101)
    assert len(asked) == 2
