"""What a failing recogniser costs: its own proposals, and nothing else."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

from opinfo.analysis import (
    Chain,
    Constant,
    Proposal,
    RecogniserWarning,
    TensorExpression,
    op_info,
    op_infos,
)

from .outer_recognisers import OPS, UNKNOWN, named, register, right


def outer(*operands: Any, **rest: Any) -> Any:
    return lambda f: [Proposal("relax.outer", operands, **rest)]


def raising(f: TensorExpression) -> Any:
    return 1 // 0


class Odd:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    __hash__ = None  # type: ignore[assignment]


def failing_later(f: TensorExpression) -> Any:
    yield Proposal("relax.outer", (0, 1))
    raise RuntimeError("late")


def endless(f: TensorExpression) -> Any:
    return endless(f)


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def silent(f: TensorExpression) -> Any:
    raise Speechless


def leaving(f: TensorExpression) -> Any:
    raise SystemExit(3)


def spoiling(f: TensorExpression) -> Any:
    """The others are asked about the same compute."""
    object.__setattr__(f, "outputs", ())
    return None


FAILURES: dict[str, tuple[Any, str]] = {
    "raises": (raising, "ZeroDivisionError: integer"),
    "never ends": (endless, "RecursionError"),
    "takes no argument": (lambda: [], "TypeError"),
    "an error without text": (silent, "Speechless: no text, its __str__ raised ValueError"),
    "leaves": (leaving, "SystemExit: 3"),
    "spoils": (spoiling, "it returned None"),
    "very many": (
        lambda f: [Proposal("relax.outer", (0,))] * 200000,
        "it proposed 200000 operators",
    ),
    "None": (lambda f: None, "it returned None, expected a sequence of Proposal"),
    "a number": (lambda f: 3, "it returned a value of type int"),
    "a proposal": (lambda f: Proposal("relax.outer", (0, 1)), "of type Proposal"),
    "a string": (lambda f: "relax.outer", "it returned a value of type str"),
    "a generator": (failing_later, "it returned a value of type generator"),
    "a list of None": (lambda f: [None], "it proposed None, expected a Proposal"),
    "a name": (lambda f: [Proposal(b"x", ())], "it proposed the operator b'x'"),  # type: ignore[arg-type]
    "operand 3": (outer(0, 3), "with the operand 3, expected a Constant or the index"),
    "operand -1": (outer(0, -1), "with the operand -1"),
    "operand True": (outer(0, True), "with the operand True"),
    "operand 1.0": (outer(0, 1.0), "with the operand 1.0"),
    "operands": (lambda f: [Proposal("relax.outer", 0)], "expected a tuple of operands"),  # type: ignore[arg-type]
    "attrs": (outer(0, 1, attrs=[1]), "with attrs [1], expected a mapping"),
    "attrs by number": (outer(0, 1, attrs={1: 1}), "with attrs {1: 1}"),
    "an array": (outer(0, 1, attrs={"a": np.ones(2)}), "the attribute a of type ndarray"),
    "an odd value": (outer(0, 1, attrs={"a": [Odd()]}), "the attribute a of type Odd"),
    "layouts": (outer(0, 1, layouts="NC"), "with layouts 'NC', expected a mapping"),
    "a constant": (outer(0, Constant("z", "float33")), "expected a number of its dtype"),
    "no operator": (lambda f: [Proposal("relax.no_such_op", (0, 1))], "it proposed 'relax.no_s"),
    "no name": (lambda f: [Proposal("", ())], "it proposed '', expected one of its ops"),
    "another operator": (lambda f: [Proposal("relax.add", (0, 1))], "it proposed 'relax.add', "),
}
#: The line is inside the function.
INSIDE = ("raises", "never ends", "an error without text", "leaves", "spoils")


@pytest.mark.parametrize("how", FAILURES)
def test_a_failure_costs_its_own_proposals(how: str, func: tirx.PrimFunc) -> None:
    run, message = FAILURES[how]
    register(run, "broken", 1)
    register(right, "works", 2)
    with pytest.warns(RecogniserWarning) as warned:
        info = op_info(func)
        again = op_info(func)
    assert named(info) == named(again) == "relax.outer"
    assert len(warned) == 1
    text = str(warned[0].message)
    assert text.startswith("recogniser 'broken' failed: ") and message in text and "\n" not in text
    assert f"({__file__}:{run.__code__.co_firstlineno}" in text or how in INSIDE
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain = op_infos(func)
    assert isinstance(chain, Chain) and chain.names == OPS


@pytest.mark.parametrize("how", FAILURES)
def test_a_refusal_names_what_failed(how: str) -> None:
    """Also where a proposal of another recogniser was refused."""
    run, message = FAILURES[how]
    register(lambda f: [Proposal("relax.add", (0, 1))], "guesses", 1, ("relax.add",))
    register(run, "broken", 2)
    func = tvm.script.from_source(UNKNOWN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecogniserWarning)
        reasons = {op_info(func).reason for _ in range(2)}  # type: ignore[union-attr]
    (reason,) = reasons
    assert reason.startswith("recogniser 'broken' failed: ") and message in reason


@pytest.mark.parametrize(
    "proposal",
    [
        Proposal("relax.outer", (0, 1), {"axis": 3}),
        Proposal("relax.outer", (0,)),
        Proposal("relax.outer", (0, 1, 0)),
        Proposal("relax.outer", (1, 0)),
        Proposal("relax.outer", (0, 2)),
    ],
    ids=repr,
)
def test_a_wrong_guess_does_not_warn(proposal: Proposal, func: tirx.PrimFunc) -> None:
    register(lambda f: [proposal], "guesses", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert named(op_info(func)) != "relax.outer"
        register(right, "works", 2)
        assert named(op_info(func)) == "relax.outer"


def test_registering_again_warns_again(func: tirx.PrimFunc) -> None:
    for _ in range(2):
        register(raising)
        with pytest.warns(RecogniserWarning, match="mine"):
            op_info(func)


def test_an_interrupt_is_not_held_back(func: tirx.PrimFunc) -> None:
    def interrupted(f: TensorExpression) -> Any:
        raise KeyboardInterrupt

    register(interrupted)
    with pytest.raises(KeyboardInterrupt):
        op_info(func)
