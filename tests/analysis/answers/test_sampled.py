"""Certificates of kind `tested`: only when asked for, and only where random points agree."""

from __future__ import annotations

import pytest
import tvm

from opinfo.analysis import Certificate, OpInfo, Refusal, lift, op_info
from opinfo.analysis.certify.certify import certify
from opinfo.analysis.certify.sampled import POINTS, ROUNDS, Unequal, compare
from opinfo.analysis.lifting.effects.tensor_expression import TensorExpression
from opinfo.analysis.proposal.proposal import Proposal
from opinfo.analysis.terms.scalar import call

from ..lifting import forms

HEADER = "# from tvm.script import tirx as T\n"

#: softmax by another formula: not provable without ``exp(a - b) = exp(a) / exp(b)``.
OTHER_SOFTMAX = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 6), "float32"), y: T.Buffer((4, 6), "float32")):
    with T.sblock("root"):
        m = T.sblock_alloc_buffer((4,), "float32")
        s = T.sblock_alloc_buffer((4,), "float32")
        for i in range(4):
            m[i] = T.float32(-3.4028234663852886e+38)
            for k in range(6):
                m[i] = T.max(m[i], x[i, k])
            s[i] = T.float32(0)
            for k in range(6):
                s[i] = s[i] + T.exp(x[i, k] - m[i])
            for k in range(6):
                y[i, k] = T.exp(x[i, k] - m[i] - T.log(s[i]))
"""


SOFTMAX = Proposal("relax.nn.softmax", (0,), {"axis": 1})


def lifted(text: str) -> TensorExpression:
    return lift(tvm.script.from_source(HEADER + text))


def test_tested_only_when_asked_for() -> None:
    other = lifted(OTHER_SOFTMAX)
    assert isinstance(certify(SOFTMAX, other, None), Refusal)
    found = certify(SOFTMAX, other, None, tested=True)
    assert isinstance(found, Certificate)
    assert (found.kind, found.exact) == ("tested", False)
    assert found.assumptions[-1] == "equal at 256 random points; not proved"


def test_what_differs_is_not_tested_either() -> None:
    other = lifted(OTHER_SOFTMAX.replace("T.exp(x[i, k] - m[i])", "T.exp(x[i, k])"))
    found = certify(SOFTMAX, other, None, tested=True)
    assert isinstance(found, Refusal) and "differ at" in found.reason


def test_a_proof_is_preferred() -> None:
    func = forms.scheduled(forms.softmax(), forms.exp_inlined)
    info = op_info(func, tested=True)
    assert isinstance(info, OpInfo) and info.certificate.kind == "proved"


def test_comparison_covers_every_round() -> None:
    (c,) = lift(forms.conv2d()).outputs
    assert compare(c, c.body) == POINTS * ROUNDS
    with pytest.raises(Unequal, match="cannot be evaluated"):
        compare(c, call("no_such_operation", (c.body,), "float32"))
