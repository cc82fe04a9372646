"""Each field of a proposal is checked; proposals that cannot be compared do no harm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

from opinfo.analysis import (
    Constant,
    OpInfo,
    Proposal,
    op_info,
)
from opinfo.analysis.answer.internal_error import FAULT
from opinfo.analysis.proposal.undetermined import Undetermined

from .exp_recognisers import RIGHT, UNARY, check_failure, reason, register


def note(**fields: Any) -> Proposal:
    return replace(RIGHT, undetermined=(Undetermined("axis", "any", **fields),))


INVALID: dict[str, tuple[Proposal, str]] = {
    "undetermined of texts": (
        replace(RIGHT, undetermined=("x",)),  # type: ignore[arg-type]
        "undetermined ('x',), expected",
    ),
    "undetermined is one": (replace(RIGHT, undetermined=3), "undetermined 3"),  # type: ignore[arg-type]
    "values is a number": (note(values=3), "expected a tuple of Undetermined"),
    "a partner is a text": (note(partner="axis"), "expected a tuple of Undetermined"),
    "a bound is an array": (note(low=np.ones(2)), "the attribute axis of type ndarray"),
    "a layout of factors": (replace(RIGHT, layouts={0: "1CNW"}), "the layout '1CNW'"),
    "a layout with an axis twice": (replace(RIGHT, layouts={0: "NN"}), "the layout 'NN'"),
    "a layout of another rank": (replace(RIGHT, layouts={0: "NCHW"}), "expected one of 2 axes"),
    "a layout is a number": (replace(RIGHT, layouts={1: 7}), "the layout 7"),  # type: ignore[dict-item]
    "a layout of parameter 7": (replace(RIGHT, layouts={7: "NC"}), "a layout of parameter 7"),
    "a layout of True": (replace(RIGHT, layouts={True: "NC"}), "keys of type int"),
    "an array": (
        replace(RIGHT, operands=(Constant(np.array([1, 2]), "float32"),)),
        "expected a number of its dtype",
    ),
    "out of its type": (
        replace(RIGHT, operands=(Constant(300, "int8"),)),
        "Constant(value=300, dtype='int8'), expected a number of its dtype",
    ),
    "an attribute out of its type": (
        replace(RIGHT, attrs={"x": [Constant(-1, "uint8")]}),
        "expected a number of its dtype",
    ),
    "another operator": (Proposal("relax.sin", (0,)), "expected one of its ops: relax.exp"),
}


@pytest.mark.parametrize("what", INVALID)
def test_each_field_of_a_proposal_is_checked(
    what: str, exp: tirx.PrimFunc, unknown: tirx.PrimFunc
) -> None:
    proposal, expected = INVALID[what]
    register(lambda f: [proposal])
    check_failure(exp, unknown, expected)


@pytest.mark.parametrize("name", ["exp", "relax.unary.exp", "relax.no_such_op", "relax.nn", ""])
def test_a_name_is_that_of_an_operator(
    name: str, exp: tirx.PrimFunc, unknown: tirx.PrimFunc
) -> None:
    with pytest.raises(ValueError, match="recogniser 'mine': ops: "):
        register(lambda f: [], (name,))
    register(lambda f: [Proposal(name, (0,))], ())
    check_failure(exp, unknown, f"it proposed {name!r}: ")


def test_what_tvm_composes_is_an_operator() -> None:
    register(lambda f: [Proposal("relax.nn.relu6", (0,))], ("relax.nn.relu6",))
    value = "T.min(T.max(x[i, j], T.float32(0)), T.float32(6))"
    info = op_info(tvm.script.from_source(UNARY.format(value=value)))
    assert isinstance(info, OpInfo) and info.name == "relax.nn.relu6"


def test_a_layout_that_tvm_parses_is_answered(exp: tirx.PrimFunc) -> None:
    register(lambda f: [replace(RIGHT, layouts={0: "NC", 1: ""})])
    info = op_info(exp)
    assert isinstance(info, OpInfo) and info.layouts == ("NC", "")


def test_a_bound_is_over_the_sizes(exp: tirx.PrimFunc, unknown: tirx.PrimFunc) -> None:
    register(lambda f: [note(low=f.outputs[0].axes[0])])
    check_failure(exp, unknown, "with an undetermined axis: a symbolic dimension y0 has no express")


def test_comparing_proposals_cannot_fail(unknown: tirx.PrimFunc) -> None:
    """Proposals up to rounding are compared with those that were tried."""

    class Odd(int):
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("not to be compared")

        __hash__ = int.__hash__

    register(lambda f: [replace(RIGHT, attrs={"a": Odd(k)}) for k in (1, 2)], rounded=True)
    assert FAULT not in reason(unknown)
