"""Builds that are raced load in the race; what does not load is built again, with checks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.byoc.compile import compile_module
from opinfo.byoc.measure import Measure
from opinfo.front.backend_choice import BackendChoice
from opinfo.front.compiled_model import Compiled
from opinfo.front.race import race
from opinfo.jit.arguments.signature import Signature
from opinfo.verify import trial_runs

from ...common.run import run
from ...layout import nets
from ..backends.toy import TOY
from ..dispatching.test_region_failures import SHAPE, _loads, _several, _without

MOD = nets.net(_several, SHAPE, legal=False)
TARGET = tvm.target.Target("llvm")


class _Builds:
    """Builds of a model, of which that of ``toy`` alone is for a backend with a fault."""

    def __init__(self, fault: str) -> None:
        self.bad = _without("relax.nn.relu", _loads(fault)) if fault else TOY
        self.made: list[tuple[bool, bool]] = []

    def __call__(
        self, choice: BackendChoice, measure: Measure | None, layouts: bool, runs_elsewhere: bool
    ) -> Compiled:
        alone = choice.backends == ["toy"]
        self.made.append((alone, runs_elsewhere))
        library = compile_module(MOD, [self.bad] if alone else [], plan=False,
                                 runs_elsewhere=runs_elsewhere)  # fmt: skip
        return Compiled(TARGET, library, {"main": Signature.of(MOD["main"], "main")}, None)


def _raced(fault: str) -> tuple[Compiled, _Builds, list[str]]:
    builds = _Builds(fault)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        won = race(builds, BackendChoice([], None, None), None, ["toy"], MOD)
    return won, builds, [str(w.message) for w in caught]


def _is_right(compiled: Compiled) -> None:
    x = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    np.testing.assert_allclose(compiled.run(x), run(MOD, [x])[0], rtol=1e-6)


@pytest.mark.parametrize("fault", [
    "abort();", 'return opinfo::fail("ValueError", "no such layer");',
    "for (;;) pause();",
])  # fmt: skip
def test_a_build_that_does_not_load_is_built_again_without_the_region(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_runs, "LOADING", 1.0)
    monkeypatch.setattr("opinfo.byoc.codegen.loading.load_checked.SECONDS", 1.0)
    won, builds, _ = _raced(fault)
    assert builds.made == [(True, True), (True, False), (False, True)]
    assert "of toy alone" in won.kept and "an error" not in won.kept
    _is_right(won)


def test_a_build_that_loads_is_built_once() -> None:
    won, builds, warned = _raced("")
    assert builds.made == [(True, True), (False, True)] and not warned
    assert "of toy alone" in won.kept
    _is_right(won)


def test_a_build_without_rivals_is_checked() -> None:
    builds = _Builds("")
    race(builds, BackendChoice([], None, None), None, [], MOD)
    assert builds.made == [(False, False)]


def test_the_only_build_is_checked_if_it_never_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process in which builds would run cannot be started."""

    def refused(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no process")

    monkeypatch.setattr("opinfo.front.fastest.trial_runs", refused)
    builds = _Builds("abort();")
    with pytest.warns(UserWarning, match="it ends the process by SIGABRT"):
        won = race(builds, BackendChoice(["toy"], None, None), None, ["toy"], MOD)
    assert builds.made[-1] == (True, False)
    _is_right(won)
