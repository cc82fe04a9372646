"""Optional functions of a backend that fail: each costs only itself, by name."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest

from opinfo.byoc.backend.catalog import find, unusable
from opinfo.byoc.backend.guarded_calls import guarded
from opinfo.byoc.dispatching.device_layouts import prepare_in_faster_layouts
from opinfo.byoc.dispatching.dispatch_request import DispatchOptions
from opinfo.byoc.patterns.failure import Failure
from opinfo.byoc.prepare.prepare import Preparer, prepare

from ..codegen.built_cases import module
from ..dispatching.test_device_layouts import CONVOLUTION
from ..fusion.test_eight_bit_products import CASES
from .toy import TOY


def exits(*_: object) -> Any:
    raise SystemExit(3)


#: What a function that returns microseconds may do wrong, and the reason.
WRONG_TIMES = [
    (exits, "SystemExit: 3"),
    (lambda moved: None, "TypeError: must be real number, not NoneType"),
    (lambda moved: -1.0, "ValueError: it returned -1.0, expected microseconds of at least 0"),
]


@pytest.mark.parametrize(("conversion", "reason"), WRONG_TIMES)
def test_conversions_whose_time_is_unknown_cost_nothing(conversion: Any, reason: str) -> None:
    backend = replace(find("onednn"), conversion=conversion)
    text = f"onednn: its conversion function failed: {reason}; the default cost of 0 is used"
    chosen = prepare_in_faster_layouts(CONVOLUTION, [backend], DispatchOptions(layouts="best"))
    done = chosen.run()
    assert [str(f) for f in done.failed] == [text]
    assert {t.backend for t in done.taken} == {"onednn"}


@pytest.mark.parametrize(("function", "reason"), [
    (exits, "SystemExit: 3"),
    (lambda *product: 3, "TypeError: it returned 3, expected None or why not"),
])  # fmt: skip
def test_a_backend_whose_eight_bits_fails_takes_no_such_product(function: Any, reason: str) -> None:
    backend, mod = replace(TOY, eight_bits=function), module({"int8": CASES["int8"]})
    with pytest.warns(UserWarning, match=f"eight_bits of toy failed: {reason}"):
        prepared = prepare(mod, [backend])
    assert prepared.script() == prepare(mod, [TOY]).script()


def test_each_backend_refuses_its_own_products_of_eight_bits() -> None:
    """A module that was prepared for one backend has that one's products, not another's."""
    mod = module({"int8": CASES["int8"]})
    sets = [[replace(TOY, eight_bits=lambda *product, why=why: why)] for why in (None, "toys")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = [prepare(mod, backends).script() for backends in sets]
        assert alone[0] != alone[1]
        preparer = Preparer(mod)
        assert [preparer(backends).script() for backends in sets * 2] == alone * 2


def test_failures_are_recorded_once() -> None:
    failures: list[Failure] = []
    backend = guarded(replace(TOY, conversion=exits), failures)
    assert backend.conversion is not None
    assert [backend.conversion(1.0), backend.conversion(2.0)] == [0.0, 0.0]
    assert [f.stage for f in failures] == ["conversion"]


@pytest.mark.parametrize("hook", ["conversion", "eight_bits", "implementation", "cost"])
def test_a_hook_that_cannot_be_called_is_refused_where_it_is_defined(hook: str) -> None:
    wrong: Any = {hook: 3}
    with pytest.raises(TypeError, match=f"Backend toy: {hook} must be a function, got 3"):
        replace(TOY, **wrong)


@pytest.mark.parametrize("field", ["patterns", "coarse"])
def test_patterns_that_are_not_a_sequence_are_refused(field: str) -> None:
    wrong: Any = {field: None}
    with pytest.raises(TypeError, match=f"Backend toy: {field} must be a tuple, got None"):
        replace(TOY, **wrong)


def test_a_reader_of_another_kind_is_refused() -> None:
    wrong: Any = {"reader": exits}
    with pytest.raises(TypeError, match="Backend toy: reader must be an OnnxReader, got"):
        replace(TOY, **wrong)


@pytest.mark.parametrize(("reason", "expected"), [
    ("no driver\n  install one", "no driver install one"),
    (10**400, f"available returned {10**79}, expected None or why not"),
])  # fmt: skip
def test_why_a_backend_is_not_available_is_one_line(reason: Any, expected: str) -> None:
    assert unusable(replace(TOY, available=lambda: reason)) == expected
