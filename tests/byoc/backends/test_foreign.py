"""Whatever a backend's function raises costs what it was asked about, and names the backend."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tvm import relax

from opinfo.analysis.terms.term.work_budget import Exhausted
from opinfo.byoc import Backend, Pattern, dispatch, one
from opinfo.byoc.backend.catalog import BUILT_IN, find
from opinfo.byoc.dispatching.choice.plan_file import PlanRefused
from opinfo.byoc.dispatching.replay_dispatch import replay
from opinfo.byoc.patterns.failure import ForeignError, foreign, one_line
from opinfo.byoc.patterns.suggest import Unmet

from ...layout import nets
from .toy import TOY, convert

op, nn = relax.op, relax.op.nn


class Odd(BaseException):
    """No ``Exception``."""


class Speechless(Exception):
    def __str__(self) -> str:
        raise KeyError("no text")


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit(0)


ERRORS: list[BaseException] = [
    SystemExit(0), asyncio.CancelledError(), GeneratorExit(), Odd("odd"), Speechless(), Mute(),
]  # fmt: skip


def _raising(e: BaseException) -> Callable[..., Any]:
    def raises(*_: Any) -> Any:
        raise e

    return raises


def _taking(fail: Callable[..., Any], **where: Any) -> Backend:
    step = replace(one("relax.negative"), **where)
    return replace(TOY, patterns=(*TOY.patterns, Pattern("negative", step)))


HOOKS: dict[str, Callable[[Callable[..., Any]], Backend]] = {
    "condition": lambda fail: _taking(fail, conditions=(fail,)),
    "laid": lambda fail: _taking(fail, laid=(fail,)),
    "takes": lambda fail: _taking(fail, takes=fail),
    "cost": lambda fail: replace(TOY, cost=fail),
    "version": lambda fail: replace(TOY, version=fail),
    "available": lambda fail: replace(TOY, available=fail),
    "convert": lambda fail: replace(TOY, convert=fail),
}


def _model() -> Any:
    return nets.net(lambda e, r, x: e(nn.relu(e(op.negative(x)))), (2, 6))


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_what_a_hook_raises_is_a_failure_of_its_backend(hook: str, error: BaseException) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        done = dispatch(_model(), [HOOKS[hook](_raising(error))])
    (failure,) = {str(f) for f in done.failed}
    assert failure.startswith("toy") and type(error).__name__ in failure and "\n" not in failure
    assert failure in [str(w.message) for w in caught]
    relu = {t.backend for t in done.taken if "relax.nn.relu" in t.ops}
    assert relu == (set() if hook in ("available", "convert") else {"toy"})


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Exhausted("the budget")],
                         ids=lambda e: type(e).__name__)  # fmt: skip
@pytest.mark.parametrize("hook", HOOKS)
def test_interrupts_and_the_budget_pass(hook: str, error: BaseException) -> None:
    with pytest.raises(type(error)):
        dispatch(_model(), [HOOKS[hook](_raising(error))])


@pytest.mark.parametrize("hook", ["available", "convert"])
def test_a_plan_that_is_done_again_is_refused_by_name(hook: str) -> None:
    plan = dispatch(_model(), [TOY]).plan
    with pytest.raises(PlanRefused, match=r"toy.*SystemExit: 0"):
        replay(_model(), plan, [HOOKS[hook](_raising(SystemExit(0)))])


def test_a_module_that_exits_makes_its_backend_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(BUILT_IN, "gone", "gone:GONE")
    monkeypatch.setattr("importlib.metadata.import_module", _raising(SystemExit(0)))
    reason = find("gone").available() or ""
    assert reason.startswith("it cannot be loaded: gone of opinfo ")
    assert ":GONE): SystemExit: 0 (" in reason


def test_what_cannot_be_shown_is_named_by_its_type() -> None:
    class Condition:
        def __call__(self, node: Any) -> Any:
            return self

        def __repr__(self) -> str:
            raise ValueError("no text")

    wrong: Any = Unmet(3)  # type: ignore[arg-type]
    for answer in (Condition(), lambda node: wrong):
        with pytest.warns(UserWarning, match="toy, pattern negative, condition .*: a condition"):
            done = dispatch(_model(), [_taking(answer, conditions=(answer,))])
        assert [t.ops for t in done.taken] == [("relax.nn.relu",)]


def test_one_line_for_any_error() -> None:
    assert one_line(Speechless()) == "Speechless: no text, its __str__ raised KeyError"
    with pytest.raises(ForeignError, match=r"^Odd: first$") as e, foreign():
        raise Odd("first\nsecond")
    assert one_line(e.value) == "Odd: first"
    assert convert([]).symbols == ()


def test_a_condition_is_asked_once_for_each_operator() -> None:
    """Patterns share a condition; dispatching asks again to say why operators stay."""
    asked: list[Any] = []

    def asking(node: Any) -> str | None:
        asked.append(node.op)
        return "it is too small" if node.info.name == "relax.negative" else None

    both = frozenset(("relax.nn.relu", "relax.negative"))
    patterns = (Pattern("first", one(both, asking)), Pattern("second", one(both, asking)))
    mod = relax.transform.LegalizeOps()(
        nets.net(lambda e, r, x: e(nn.relu(e(op.negative(x)))), (2, 6))
    )
    dispatched = dispatch(mod, [replace(TOY, patterns=patterns)])
    assert len(dispatched.taken) == 1
    assert "it is too small" in dispatched.left[0].why
    assert len(asked) == len(set(asked)) == 2
