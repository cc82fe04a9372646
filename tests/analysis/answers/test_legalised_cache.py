"""What was legalised lately is only used again where it would come out again."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relax

from opinfo.analysis.certify.structural_equality import structurally_equal
from opinfo.analysis.lifting.effects.tensor_expression import TensorExpression
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.proposal import build, legalised_cache
from opinfo.analysis.proposal.build import rebuild
from opinfo.analysis.proposal.legalise import legalise
from opinfo.analysis.proposal.proposal import Proposal

from ...common.prim_funcs import lowered


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legalised_cache, "_cache", {})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that were really legalised."""
    calls: list[Any] = []

    def counted(call: Any, params: Any, rule: Any) -> Any:
        calls.append(call)
        return legalise(call, params, rule)

    monkeypatch.setattr(build, "legalise", counted)
    return calls


def _lifted(*shape: Any) -> TensorExpression:
    return lift(lowered(relax.op.subtract, shape, shape))


SUBTRACT = Proposal("relax.subtract", (0, 1))


def test_the_same_call_is_legalised_once(asked: list[Any]) -> None:
    first, second = rebuild(SUBTRACT, _lifted(4, 4)), rebuild(SUBTRACT, _lifted(4, 4))
    assert len(asked) == 1 and first.func.same_as(second.func)


def test_parameters_are_those_of_the_function_at_hand(asked: list[Any]) -> None:
    swapped = Proposal("relax.subtract", (1, 0))
    for p, order in ((SUBTRACT, (0, 1, 2)), (swapped, (1, 0, 2))):
        for f in (_lifted(4, 4), _lifted(4, 4)):
            assert rebuild(p, f).params == tuple(f.params[o] for o in order)
    assert len(asked) == 2


@pytest.mark.parametrize(
    "other",
    [
        Proposal("relax.add", (0, 1)),
        Proposal("relax.subtract", (0, 0)),
        Proposal("relax.subtract", (0,), {"x2": 1.0}),
        Proposal("relax.subtract", (0,), {"x2": 1}),
        Proposal("relax.subtract", (0,), {"x2": 0.0}),
        Proposal("relax.subtract", (0,), {"x2": -0.0}),
    ],
    ids=repr,
)
def test_another_call_is_legalised(asked: list[Any], other: Proposal) -> None:
    f = _lifted(4, 4)
    rest = (
        SUBTRACT,
        Proposal("relax.subtract", (0,), {"x2": 0.0 if repr(other).count("-0.0") else -0.0}),
        Proposal("relax.subtract", (0,), {"x2": True}),
    )
    for p in (*rest, other):
        rebuild(p, f)
    assert len(asked) == 4


def test_another_shape_is_legalised(asked: list[Any]) -> None:
    rebuild(SUBTRACT, _lifted(4, 4))
    rebuild(SUBTRACT, _lifted(4, 5))
    assert len(asked) == 2


def test_symbolic_sizes_are_legalised_each_time(asked: list[Any]) -> None:
    for _ in range(2):
        rebuild(SUBTRACT, _lifted(tvm.tirx.Var("n", "int64"), 4))
    assert len(asked) == 2


def test_a_target_is_not_forgotten(asked: list[Any]) -> None:
    rebuild(SUBTRACT, _lifted(4, 4))
    f = _lifted(4, 4)
    with tvm.target.Target("llvm"):
        rebuild(SUBTRACT, f)
    assert len(asked) == 2


def test_a_new_rule_is_asked(asked: list[Any]) -> None:
    op = tvm.ir.Op.get("relax.subtract")
    rule = op.get_attr("FLegalize")
    f = _lifted(4, 4)
    before = rebuild(SUBTRACT, f).func
    op.set_attr("FLegalize", tvm.ir.Op.get("relax.add").get_attr("FLegalize"), 120)
    try:
        after = rebuild(SUBTRACT, f).func
    finally:
        op.set_attr("FLegalize", rule, 121)
    assert len(asked) == 2
    assert not structurally_equal(before, after)


def test_the_cache_evicts_beyond_its_limit(
    monkeypatch: pytest.MonkeyPatch, asked: list[Any]
) -> None:
    monkeypatch.setattr(legalised_cache, "KEPT", 2)
    shapes = [(2, 2), (2, 3), (2, 2), (2, 4), (2, 2), (2, 3)]
    for shape in shapes:
        rebuild(SUBTRACT, _lifted(*shape))
    assert [tuple(int(d) for d in c.args[0].ty.shape) for c in asked] == [
        (2, 2),
        (2, 3),
        (2, 4),
        (2, 3),
    ]
