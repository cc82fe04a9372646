"""Recognisers that others register: asked at once, replaced when run again, and never trusted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tvm import tirx

from opinfo.analysis import (
    Chain,
    Proposal,
    TensorExpression,
    op_info,
    recogniser,
    recogniser_scope,
    unregister,
)
from opinfo.analysis.answer.analyser import Analyser, analyser
from opinfo.analysis.chain import Chains

from .outer_recognisers import OPS, named, register, right


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
        "'mine'" in message
        and "unregister('mine')" in message
        and f"{right.__module__}.right" in message
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
