"""Recognisers from outside that do anything: what they do costs their own proposals only."""

from __future__ import annotations

import asyncio
import functools
import importlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tvm import tirx

from opinfo.analysis import (
    Chain,
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
from opinfo.analysis.recognise.elementwise.unary import unary
from opinfo.analysis.registry import registry

from .exp_recognisers import OPS, RIGHT, check_failure, register


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
