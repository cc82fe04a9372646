"""The tables of elementwise ops say the truth about the formulas that TVM lowers them to."""

from __future__ import annotations

import pytest

from opinfo.analysis.recognise.elementwise import activation, binary, select, unary
from opinfo.analysis.recognise.elementwise._elementwise import instantiate
from opinfo.analysis.recognise.elementwise._scalar import scalar
from opinfo.analysis.recognise.elementwise._template import (
    ElementwiseOp,
    Template,
    declared,
    learn,
    learned,
)
from opinfo.analysis.terms.term import Const, Term, const

TYPES = ("float32", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool")
OPS = (*activation.OPS, *unary.OPS, *binary.OPS, *select.OPS)


@pytest.mark.parametrize("op", OPS, ids=lambda op: f"{op.name}-{len(op.attrs)}")
def test_roots_and_uses(op: ElementwiseOp) -> None:
    learned = 0
    for dtype in TYPES:
        template = learn(op, dtype) if dtype in op.types else "not declared"
        if isinstance(template, Template) and not isinstance(template.body, Const):
            found = scalar(template.body)
            assert found.root in (*op.roots.split(), "load"), (dtype, template.body)
            assert not op.uses or op.uses in found.ops or found.root == "load"
            learned += 1
    assert learned, f"{op.name} has no template for any type"


@pytest.mark.parametrize("op", [op for op in OPS if op.formula], ids=lambda op: op.name)
def test_declared_formulas_are_those_that_are_learned(op: ElementwiseOp) -> None:
    """They are what is learned, but for types that TVM rejects: those never get a certificate."""
    both = [(learned(op, dtype), declared(op, dtype)) for dtype in op.types]
    taught = [(lesson, told) for lesson, told in both if isinstance(lesson, Template)]
    assert taught
    for lesson, told in taught:
        holes: dict[Term, Term] = dict(zip(lesson.operands, told.operands, strict=True))
        assert instantiate(lesson.body, holes) is told.body
        assert lesson.dtype == told.dtype


def test_attributes_become_holes() -> None:
    (leaky,) = (op for op in activation.OPS if op.name == "relax.nn.leakyrelu")
    template = learn(leaky, "float32")
    assert isinstance(template, Template)
    filled = instantiate(template.body, {template.attrs["alpha"]: const(0.125, "float32")})
    assert [c.value for c in scalar(filled).consts if c.value != 0] == [0.125]


def test_a_type_that_the_op_rejects_has_a_reason() -> None:
    (negative,) = (op for op in unary.OPS if op.name == "relax.negative")
    assert isinstance(learned(negative, "uint8"), str)
