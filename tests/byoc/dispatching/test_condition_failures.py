"""Conditions, costs, layouts and declarations that fail: each costs only itself, by name."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tvm import tirx

from opinfo.byoc import Backend, Code, Node, Pattern, Region, dispatch, maybe, one
from opinfo.byoc.backend.catalog import find, register
from opinfo.byoc.backend.guarded_calls import guarded

from ...layout import nets
from ..backends.toy import TOY
from .test_region_failures import SHAPE, _several, op


def _negative(condition: Callable[[Node], Any]) -> Backend:
    step = one("relax.negative", condition)
    return replace(TOY, patterns=(*TOY.patterns, Pattern("negative", step)))


def test_a_condition_that_raises_costs_its_pattern_and_is_named() -> None:
    def large(node: Node) -> str | None:
        return None if node.info.attrs["absent"] else "small"

    with pytest.warns(UserWarning, match=r"toy, pattern negative, condition .*large of "
                      "relax.negative: a condition failed: KeyError: 'absent'"):  # fmt: skip
        done = dispatch(nets.net(_several, SHAPE), [_negative(large)])
    assert len(done.taken) == 3
    why = {o.why for o in done.left if o.op == "relax.negative"}
    assert len(why) == 1 and "large failed: KeyError: 'absent'" in why.pop()


@pytest.mark.parametrize(("answer", "why"), [
    (False, "the condition test_a_condition_may_return_a_bool.test does not hold"),
    ("it is odd", "it is odd"),
    (3, "failed: TypeError: it returned 3, expected None, a reason, an Unmet or a bool"),
    ("", "failed: TypeError: it returned '', expected None, a reason, an Unmet or a bool"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_condition_may_return_a_bool(answer: Any, why: str) -> None:
    def test(node: Node) -> Any:
        return answer

    left = dispatch(nets.net(_several, SHAPE), [_negative(test)]).left
    assert {o.why.endswith(why) for o in left if o.op == "relax.negative"} == {True}, left


def test_a_condition_that_is_true_holds() -> None:
    found = nets.net(_several, SHAPE)
    names = [o.op for o in dispatch(found, [replace(
        _negative(lambda node: True), convert=lambda rs: Code("", tuple(r.symbol for r in rs)),
    )]).left]  # fmt: skip
    assert "relax.negative" not in names


@pytest.mark.parametrize(("name", "reason"), [
    ("relax.nn.con2d", "unknown operator 'relax.nn.con2d'; did you mean 'relax.nn.conv2d' or"),
    ("conv2d", "unknown operator 'conv2d'; did you mean 'relax.nn.conv2d'?"),
    ("relax.nn.attn", "unknown operator 'relax.nn.attn'"),
])  # fmt: skip
def test_a_misspelt_operator_is_refused_where_it_is_written(name: str, reason: str) -> None:
    for step in (one, maybe):
        with pytest.raises(ValueError, match=reason):
            step(name)


def test_an_invalid_backend_is_refused_where_it_is_defined() -> None:
    wrong: Any
    for wrong, reason in (({"convert": None}, "convert must be a function, got None"),
                          ({"patterns": ("add",)}, "patterns must be of Pattern, got 'add'"),
                          ({"cost": 3}, "cost must be a function, got 3")):  # fmt: skip
        with pytest.raises(TypeError, match=reason):
            replace(TOY, **wrong)
    for call, name in ((one, "relax.add"), (maybe, "relax.add"), (Pattern, "sum")):
        wrong = "float32"
        with pytest.raises(TypeError, match="expected"):
            call(name, wrong)
    with pytest.raises(TypeError, match="register: expected a Backend"):
        register(wrong)


@pytest.mark.parametrize("cost", [
    lambda r: float("nan"), lambda r: None, lambda r: -1.0, lambda r: float("inf"),
    lambda r: 1 / 0, lambda r: True, lambda r: "cheap",
])  # fmt: skip
def test_a_cost_that_is_none_gives_the_default_and_is_named(cost: Any) -> None:
    with pytest.warns(UserWarning, match=r"toy, cost .* of relax.add.*: its cost function failed: "
                      r".*; the default cost of 0 is used"):  # fmt: skip
        done = dispatch(nets.net(_several, SHAPE), [replace(TOY, cost=cost)])
    assert len(done.taken) == 3 and len(done.failed) == 1 and not done.lost


def test_a_cost_function_sees_numbers_for_symbolic_extents() -> None:
    n = tirx.Var("n", "int64")
    seen: list[Any] = []

    def cost(r: Region) -> float:
        seen.extend(itertools.chain(*(t.shape for t in (*r.inputs, *r.results))))
        return float(sum(e for c in r.calls for e in c.result.shape))

    anything = Backend("any", (Pattern("any", one(("relax.reshape", "relax.concat"))),),
                       lambda rs: Code("", tuple(r.symbol for r in rs)), cost=cost)  # fmt: skip
    mod = nets.net(lambda e, r, x: e(op.concat((e(op.reshape(x, (n, 2, 3))),) * 2, 0)), (n, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        done = dispatch(mod, [anything])
    assert done.taken and {type(e) for e in seen} == {int} and 128 in seen


def test_layouts_and_versions_that_fail_cost_themselves() -> None:
    def version() -> str:
        raise OSError("no such file")

    bad = replace(TOY, wants={"relax.nn.conv2d": ("NHXX2",)}, version=version)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        done = dispatch(nets.net(_several, SHAPE), [bad], layouts="best")
    assert len(done.taken) == 3
    messages = sorted(str(w.message) for w in caught if w.category is UserWarning)
    assert [m.partition(":")[0] for m in messages] == ["toy", "toy"]
    assert "layouts cannot be used" in messages[0] and "no such file" in messages[1]
    assert guarded(bad, []).wants == {}


def test_a_backend_whose_module_cannot_be_imported_is_not_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        __import__("opinfo.byoc.backend.catalog", fromlist=["x"]).BUILT_IN, "gone", "gone:GONE"
    )
    reason = find("gone").available()
    assert reason is not None and reason.startswith("it cannot be loaded: gone of opinfo ")
