"""Recognisers that others register: asked at once, replaced when run again, and never trusted."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

from opinfo.analysis import (
    Chain,
    Constant,
    OpInfo,
    Proposal,
    RecogniserWarning,
    Refusal,
    TensorExpression,
    op_info,
    op_infos,
    recogniser,
    recogniser_scope,
    unregister,
)
from opinfo.analysis.answer.analyser import Analyser, analyser
from opinfo.analysis.chain import Chains

OUTER = """
@T.prim_func(s_tir=True)
def main(a: T.Buffer((4,), "float32"), b: T.Buffer((5,), "float32"),
         c: T.Buffer((4, 5), "float32")):
    for i, j in T.grid(4, 5):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = a[vi] * b[vj]
"""
#: No operator is this.
UNKNOWN = OUTER.replace("a[vi] * b[vj]", "a[vi] * b[vj] * b[vj] + T.sin(b[vj])")
OPS = ("relax.outer",)


@pytest.fixture(autouse=True)
def _scope() -> Iterator[None]:
    with recogniser_scope():
        unregister("outer")
        yield


@pytest.fixture
def func() -> tirx.PrimFunc:
    return tvm.script.from_source(OUTER)


def right(f: TensorExpression) -> Sequence[Proposal] | Refusal:
    return [Proposal("relax.outer", (0, 1))]


def register(run: Any, name: str = "mine", precedence: int = 1, ops: tuple[str, ...] = OPS) -> None:
    recogniser(name, precedence=precedence, ops=ops)(run)


def named(info: OpInfo | Refusal) -> str:
    return info.name if isinstance(info, OpInfo) else ""


# ------------------------------------------------------------------- registering late and again


def test_what_is_registered_after_the_first_answer_is_asked(func: tirx.PrimFunc) -> None:
    assert named(op_info(func)) != "relax.outer"
    register(right)
    assert named(op_info(func)) == "relax.outer"
    unregister("mine")
    assert named(op_info(func)) != "relax.outer"


@pytest.mark.parametrize("make", [analyser, Analyser], ids=lambda f: f.__name__)
def test_answers_kept_from_before_are_forgotten(
    make: Callable[[], Any], func: tirx.PrimFunc
) -> None:
    analyse = make()
    assert named(analyse(func).info) != "relax.outer"
    register(right)
    assert named(analyse(func).info) == "relax.outer"


def test_chains_kept_from_before_are_forgotten(func: tirx.PrimFunc) -> None:
    chains = Chains()
    before = chains(func)
    assert not (isinstance(before, Chain) and before.names == OPS)
    register(right)
    after = chains(func)
    assert isinstance(after, Chain) and after.names == OPS


def test_a_function_defined_again_replaces_the_first(func: tirx.PrimFunc) -> None:
    cell = (
        "@recogniser('mine', precedence=1, ops=('relax.outer',))\n"
        "def mine(f):\n    return {}\n"
    )  # fmt: skip
    notebook = {"recogniser": recogniser, "Proposal": Proposal, "__name__": "__main__"}
    exec(cell.format("[]"), notebook)
    assert named(op_info(func)) != "relax.outer"
    exec(cell.format("[Proposal('relax.outer', (0, 1))]"), notebook)
    assert named(op_info(func)) == "relax.outer"
    exec(cell.format("[]").replace("precedence=1", "precedence=2"), notebook)
    assert named(op_info(func)) != "relax.outer"


@pytest.mark.parametrize(("name", "precedence"), [("mine", 2), ("yours", 1), ("mine", 1)])
def test_the_error_names_what_a_second_function_clashes_with(name: str, precedence: int) -> None:
    def yours(f: TensorExpression) -> list[Proposal]:
        return []

    register(right)
    with pytest.raises(ValueError, match="taken by") as error:
        register(yours, name, precedence)
    message = str(error.value)
    assert (
        "'mine'" in message and "unregister('mine')" in message and f"{__name__}.right" in message
    )
    assert "\n" not in message


def test_a_name_of_the_package_is_refused_before_it_is_loaded() -> None:
    """In a new process, where nothing has been asked yet."""
    text = (
        "import sys; sys.modules['torch'] = None  # TVM would import it\n"
        "from opinfo.analysis import recogniser\n"
        "try:\n    recogniser('softmax', precedence=3, ops=())(lambda f: [])\n"
        "except ValueError as e:\n    print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert "the name is taken by the recogniser 'softmax'" in done.stdout


def test_an_operator_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"relax\.outr; did you mean 'relax\.outer'\?; .*register"):
        recogniser("mine", precedence=1, ops=("relax.outr",))(right)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ops": "relax.outer"}, "ops: expected names"),
        ({"precedence": "1"}, "precedence: expected an int"),
        ({"precedence": True}, "precedence: expected an int"),
        ({"name": ""}, "expected a name"),
    ],
    ids=str,
)
def test_an_argument_of_another_type_is_refused(arguments: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"name": "mine", "precedence": 1, "ops": OPS}
    with pytest.raises(TypeError, match=message):
        recogniser(**{**usual, **arguments})(right)


def test_a_name_that_is_not_registered_cannot_be_removed() -> None:
    with pytest.raises(ValueError, match="unknown recogniser 'softmx'; did you mean 'softmax'"):
        unregister("softmx")


def test_a_scope_ends_what_was_registered_in_it(func: tirx.PrimFunc) -> None:
    with recogniser_scope():
        register(right)
        assert named(op_info(func)) == "relax.outer"
    assert named(op_info(func)) != "relax.outer"


# ----------------------------------------------------------------------------- failing


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
