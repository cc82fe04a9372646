"""Recognisers from outside that do anything: what they do costs their own proposals only."""

from __future__ import annotations

import asyncio
import functools
import importlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
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
)
from opinfo.analysis.answer.internal_error import FAULT
from opinfo.analysis.proposal.undetermined import Undetermined
from opinfo.analysis.recognise.elementwise.unary import unary
from opinfo.analysis.registry import registry

UNARY = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        out[i, j] = {value}
"""
OPS = ("relax.exp",)
RIGHT = Proposal("relax.exp", (0,))


@pytest.fixture(autouse=True)
def _scope() -> Iterator[None]:
    with recogniser_scope():
        yield


@pytest.fixture
def exp() -> tirx.PrimFunc:
    return tvm.script.from_source(UNARY.format(value="T.exp(x[i, j])"))


@pytest.fixture
def unknown() -> tirx.PrimFunc:
    return tvm.script.from_source(UNARY.format(value="T.sin(x[i, j]) * T.exp(x[j, i])"))


def register(run: Any, ops: tuple[str, ...] = OPS, **options: Any) -> None:
    recogniser("mine", precedence=1, ops=ops, **options)(run)


def reason(func: tirx.PrimFunc) -> str:
    """Of the refusal, without the warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecogniserWarning)
        info = op_info(func)
    assert isinstance(info, Refusal)
    return info.reason


def check_failure(exp: tirx.PrimFunc, unknown: tirx.PrimFunc, expected: str) -> None:
    """The others answer, and the refusal of what nobody knows names the failure."""
    with pytest.warns(RecogniserWarning, match="recogniser 'mine' failed"):
        info = op_info(exp)
    assert isinstance(info, OpInfo) and info.name == "relax.exp"
    chain = op_infos(exp)
    assert isinstance(chain, Chain) and chain.names == OPS
    text = reason(unknown)
    assert text.startswith("recogniser 'mine' failed: ") and expected in text


# ----------------------------------------------------------------------------- proposals


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


# ------------------------------------------------------------------- what it is asked about


def _set(x: Any, name: str, value: Any) -> None:
    object.__setattr__(x, name, value)


def _body(f: TensorExpression) -> None:
    _set(f.outputs[0], "body", f.outputs[0].body.children[0])


def _operation(f: TensorExpression) -> None:
    _set(f.outputs[0].body, "op", "sin")


def _operands(f: TensorExpression) -> None:
    load: Any = f.outputs[0].body.children[0]
    _set(load, "indices", load.indices[::-1])


def _type(f: TensorExpression) -> None:
    _set(f.params[0], "dtype", "int32")


def _deleted(f: TensorExpression) -> None:
    del f.params[0].dtype


@pytest.mark.parametrize("change", [_body, _operation, _operands, _type, _deleted])
@pytest.mark.parametrize("fails", [False, True])
def test_what_others_are_asked_about_stays(
    change: Callable[[TensorExpression], None], fails: bool, exp: tirx.PrimFunc
) -> None:
    def run(f: TensorExpression) -> list[Proposal]:
        change(f)
        if fails:
            raise RuntimeError("after the change")
        return []

    before = repr(op_info(exp))
    register(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecogniserWarning)
        assert repr(op_info(exp)) == before
    with recogniser_scope():
        registry.unregister("mine")
        assert repr(op_info(exp)) == before


def test_a_change_of_what_others_share_is_named(exp: tirx.PrimFunc, unknown: tirx.PrimFunc) -> None:
    def run(f: TensorExpression) -> list[Proposal]:
        _type(f)
        return [RIGHT]

    register(run)
    check_failure(exp, unknown, "it changed the tensor expression, which all recognisers share")


# ----------------------------------------------------------------------------- failing


class Own(BaseException):
    pass


@pytest.mark.parametrize("error", [GeneratorExit, asyncio.CancelledError, SystemExit, Own])
def test_no_exception_but_an_interrupt_leaves(
    error: type[BaseException], exp: tirx.PrimFunc, unknown: tirx.PrimFunc
) -> None:
    def run(f: TensorExpression) -> list[Proposal]:
        raise error("odd")

    register(run)
    check_failure(exp, unknown, f"{error.__name__}: odd")


class Nameless:
    """A callable that cannot be described."""

    def __call__(self, f: TensorExpression) -> Any:
        return None

    def __repr__(self) -> str:
        raise RuntimeError("no name")


def test_a_function_that_cannot_be_described(exp: tirx.PrimFunc, unknown: tirx.PrimFunc) -> None:
    register(Nameless())
    check_failure(exp, unknown, "it returned None, expected a sequence of Proposal, or a Refusal "
                  "(mine)")  # fmt: skip


def test_a_function_that_wraps_itself(exp: tirx.PrimFunc, unknown: tirx.PrimFunc) -> None:
    def run(f: TensorExpression) -> Any:
        return None

    run.__wrapped__ = run  # type: ignore[attr-defined]
    register(run)
    check_failure(exp, unknown, "it returned None")


def test_one_that_wraps_ours_is_not_ours(exp: tirx.PrimFunc, unknown: tirx.PrimFunc) -> None:
    @functools.wraps(unary)
    def run(f: TensorExpression) -> Any:
        return None

    with pytest.raises(ValueError, match="the name is taken"):
        recogniser("unary", precedence=1, ops=OPS)(run)
    register(run)
    check_failure(exp, unknown, "it returned None")


def test_all_of_the_package_are_built_in() -> None:
    assert {r.built_in for r in registry.registered()} == {True}
    register(lambda f: [])
    assert [r.name for r in registry.registered() if not r.built_in] == ["mine"]


def test_warnings_as_errors_cost_no_answer(exp: tirx.PrimFunc, unknown: tirx.PrimFunc) -> None:
    register(lambda f: 1 // 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        info, chain, refused = op_info(exp), op_infos(exp), op_info(unknown)
    assert isinstance(info, OpInfo) and isinstance(chain, Chain) and isinstance(refused, Refusal)
    assert refused.reason.startswith("recogniser 'mine' failed: ZeroDivisionError")


def test_warnings_as_errors_show_a_fault_of_ours(exp: tirx.PrimFunc) -> None:
    """Each time, so that a test of ours fails; not where warnings are warnings."""
    (own,) = (r for r in registry.registered() if r.name == "unary")
    broken = replace(own, run=lambda f: 1 // 0)  # type: ignore[arg-type, return-value]
    registry._replace({**registry._registered, "unary": broken})
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecogniserWarning)
        for _ in range(2):
            info = op_info(exp)
            assert isinstance(info, Refusal) and FAULT in info.reason
            assert "recogniser 'unary' failed: ZeroDivisionError" in info.reason


# ----------------------------------------------------------------------------- the last net


@pytest.mark.parametrize(
    ("module", "ask"), [("answer.recovered", op_info), ("chain", op_infos)], ids=["info", "infos"]
)
def test_a_fault_over_variables_is_a_refusal(
    module: str, ask: Callable[[Any], Any], exp: tirx.PrimFunc, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise AttributeError("not thought of")

    owner = importlib.import_module(f"opinfo.analysis.{module}")
    monkeypatch.setattr(owner, "over_variables", fails)
    answer = ask(exp)
    assert isinstance(answer, Refusal)
    assert answer.reason.startswith(f"{FAULT}: AttributeError: not thought of ")
