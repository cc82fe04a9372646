"""Calling an operator's ``FLegalize`` gives what ``LegalizeOps`` gives, or the pass is run."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.analysis.certify.structural_equality import structurally_equal
from opinfo.analysis.proposal import legalise as module
from opinfo.analysis.proposal.call_op import call_op
from opinfo.analysis.proposal.expression import legalise_expression
from opinfo.analysis.proposal.legalise import legalise
from opinfo.analysis.recognise import Matches, modules
from opinfo.testing.calls import Sizes, _operand, _with_sizes, lower
from tests.analysis.recognise.test_recognisers import _cases


def _firsts() -> list[Matches]:
    """The first case of each operator."""
    found: dict[str, Matches] = {}
    for m in modules():
        for case in getattr(m, "MATCHES", ()):
            found.setdefault(case.op, case)
    return list(found.values())


def _operands(*shapes: tuple[int, ...]) -> list[relax.Var]:
    return [relax.Var(f"p{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]


#: Their expressions infer a type with the builder, or their rules add more than one PrimFunc.
NEED_A_BUILDER = {"relax.expand_dims", "relax.layout_transform", "relax.matmul"}


def _call(case: Matches, sizes: Sizes) -> tuple[tvm.ir.Call, list[Any]]:
    operands = [_operand(f"p{k}", text, sizes) for k, text in enumerate(case.operands)]
    attrs = {k: _with_sizes(v, sizes) for k, v in case.attrs.items()}
    dtype = str(operands[0].ty.dtype) if operands else str(attrs.get("dtype", "float32"))
    return _normal(call_op(case.op, operands, attrs, dtype)), operands


def _normal(call: Any) -> tvm.ir.Call:
    return relax.BlockBuilder().normalize(call)


@pytest.mark.parametrize("case", _firsts(), ids=lambda case: case.op.removeprefix("relax."))
def test_same_as_the_pass(case: Matches) -> None:
    sizes: Sizes = {}
    call, operands = _call(case, sizes)
    extra = [relax.Var("sizes", relax.ShapeType(list(sizes.values())))] if sizes else []
    found = legalise(call, [*operands, *extra])
    assert found is not None
    if len(sizes) < 2:  # TVM orders several scalar parameters differently from run to run
        assert structurally_equal(found.func, lower(case))


def test_most_operators_need_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_by_pass", lambda *_: pytest.fail("the pass was run"))
    x, w = _operands((1, 8, 16, 16), (16, 8, 3, 3))
    found = legalise(relax.op.nn.conv2d(x, w), [x, w])
    assert found is not None and isinstance(found.func, tirx.PrimFunc)
    assert [a.name for a in found.args] == ["p0", "p1"]


@pytest.mark.parametrize(("module_name", "case"), list(_cases("MATCHES")))
def test_an_expression_is_what_the_builder_makes_of_it(module_name: str, case: Matches) -> None:
    sizes: Sizes = {}
    call, operands = _call(case, sizes)
    rule = call.op.get_attr("FLegalize")
    found = None if rule is None else legalise_expression(rule, call)
    if rule is None or sizes or case.op in NEED_A_BUILDER:
        assert found is None
        return
    assert found is not None
    builder = relax.BlockBuilder()
    builder._begin_binding_block()
    usual = rule(builder, call)
    assert structurally_equal(found[0], builder.get()[usual.args[0]])
    places = [[p.same_as(a) for p in operands].index(True) for a in found[1]]
    assert places == [[p.same_as(a) for p in operands].index(True) for a in usual.args[1].fields]


@pytest.mark.parametrize(
    "type",
    [
        relax.TensorType(None, "float32", ndim=2),
        relax.TensorType((tvm.tirx.Var("n", "int64"), 4), "float32"),
    ],
)
def test_an_expression_over_unknown_shapes_is_left_to_the_builder(type: Any) -> None:
    x = relax.Var("x", type)
    call = _normal(relax.op.exp(x))
    assert legalise_expression(call.op.get_attr("FLegalize"), call) is None


class _Fails(Exception):
    """What a function raises."""


def _fail() -> None:
    raise _Fails("no such element type")


def test_what_an_expression_rejects_is_said() -> None:
    def rule(builder: Any, call: tvm.ir.Call) -> Any:
        return builder.call_te(lambda x: _fail(), call.args[0])

    (x,) = _operands((4,))
    with pytest.raises(_Fails, match="no such element type"):
        legalise_expression(tvm_ffi.convert(rule), _normal(relax.op.exp(x)))


@pytest.mark.parametrize("twice", [False, True])
def test_another_form_of_rule_is_left_to_the_builder(twice: bool) -> None:
    def rule(builder: Any, call: tvm.ir.Call) -> Any:
        first = builder.call_te(tvm.topi.exp, call.args[0])
        return first.call_te(tvm.topi.exp, call.args[0]) if twice else relax.op.exp(call.args[0])

    (x,) = _operands((4,))
    assert legalise_expression(tvm_ffi.convert(rule), _normal(relax.op.exp(x))) is None


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
    assert len(asked) == 3  # without a builder, in a block, in the pass


def test_a_rule_that_needs_a_builder_for_one_call_is_tried_for_the_next() -> None:
    def rule(builder: Any, call: tvm.ir.Call) -> Any:
        (x,) = call.args
        return builder.call_te(tvm.topi.exp, builder.emit(x) if len(x.ty.shape) > 1 else x)

    rule = tvm_ffi.convert(rule)
    flat, square = (_normal(relax.op.exp(*_operands(shape))) for shape in ((4,), (2, 2)))
    assert legalise_expression(rule, square) is None
    found = legalise_expression(rule, flat)
    assert found is not None
    assert [a.name for a in found[1]] == ["p0"]
