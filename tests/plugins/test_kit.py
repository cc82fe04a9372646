"""The test kit detects each fault that it checks for."""

from __future__ import annotations

import itertools
import types
import unittest
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tvm import relax

from opinfo.analysis import (
    Matches,
    Proposal,
    Refusal,
    Refuses,
    recogniser,
    recogniser_scope,
    unregister,
)
from opinfo.analysis.recognise.contraction import outer
from opinfo.byoc import ABI, Backend, Code, Node, Pattern, Region, maybe, one
from opinfo.testing import (
    Case,
    Example,
    backend_cases,
    check_backend,
    check_recogniser,
    recogniser_cases,
)
from opinfo.testing.samples import samples

from ..byoc.backends.toy import PATTERNS, TOY, convert

op = relax.op


def added(emit: Any, const: Any, x: Any) -> Any:
    return emit(op.nn.relu(emit(op.add(x, const(4, 6)))))


EXAMPLES = [
    Example("sum of inputs", ((4, 6), (4, 6)), lambda e, c, x, y: e(op.add(x, y)), takes="add"),
    Example("relu", ((2, 3, 4),), lambda e, c, x: e(op.nn.relu(x)), takes="relu"),
    Example("two regions", ((4, 6),), lambda e, c, x: e(op.nn.relu(e(op.tanh(e(op.nn.relu(x)))))),
            takes="relu, relu", refused="no pattern of toy has relax.tanh"),
    Example("rows known at run time", (("n", 6),), lambda e, c, x: e(op.nn.relu(x)),
            refused="the shape is symbolic"),
]  # fmt: skip


def cases(backend: Backend = TOY, examples: Sequence[Example] = EXAMPLES) -> dict[str, Case]:
    return {c.name: c for c in backend_cases(backend, examples, registered=False)}


@pytest.mark.parametrize("case", cases().values(), ids=str)
def test_a_right_backend_passes(case: Case) -> None:
    case.check()


def test_of_a_backend_that_is_not_registered_the_entry_point_is_named() -> None:
    first = backend_cases(replace(TOY, name="unknown_toy"), EXAMPLES)[0]
    with pytest.raises(ValueError, match="unknown backend 'unknown_toy'"):
        first.check()
    first = backend_cases(replace(TOY, name="blas"), EXAMPLES)[0]
    with pytest.raises(AssertionError, match=r"blas is another Backend .*opinfo\.backends"):
        first.check()


def _double(regions: Sequence[Region]) -> Code:
    made = convert(regions)
    return replace(made, source=made.source.replace("[i] + p", "[i] - p"))


COUNT = itertools.count()


def _different(regions: Sequence[Region]) -> Code:
    return replace(made := convert(regions), source=f"{made.source}// {next(COUNT)}\n")


def _raising(regions: Sequence[Region]) -> Code:
    raise KeyError("no such operator")


def _in_lines(node: Node) -> str:
    return "one line\nand another"


FAULTS: dict[str, tuple[Backend, str, str]] = {
    "other numbers": (replace(TOY, convert=_double), "takes sum of inputs [float32]",
                      r"differs from TVM by .* of the largest value, expected at most 2\.0e-04"),
    "another code each time": (replace(TOY, convert=_different), "generates the same code again",
                               "convert returned different code"),
    "a converter that raises": (replace(TOY, convert=_raising), "takes relu [float32]",
                                r"the regions are \[\], expected \['relu'\].*no such operator"),
    "availability in two lines": (replace(TOY, available=lambda: "no\ndriver"),
                                  "says whether it is available", "the reason in one line"),
    "two patterns of one name": (replace(TOY, patterns=(*PATTERNS, PATTERNS[0])),
                                 "names its patterns", "pattern names must be distinct"),
    "a version that raises": (replace(TOY, version=lambda: str(1 // 0)), "names its patterns",
                              "ZeroDivisionError"),
    "a cost below zero": (replace(TOY, cost=lambda r: -1.0), "gives the cost of each region",
                          "expected microseconds"),
    "a pattern without an example": (
        replace(TOY, patterns=(*PATTERNS, Pattern("exp", one("relax.exp")))),
        "has an example for each pattern", "the pattern exp: relax.exp"),
    "more than it should": (replace(TOY, patterns=(Pattern("any", one("relax.nn.relu")),)),
                            "leaves rows known at run time [float32]", "expected no region"),
    "a reason of two lines": (
        replace(TOY, patterns=(*PATTERNS[:1], Pattern("relu", one("relax.nn.relu", _in_lines)))),
        "leaves rows known at run time [float32]", "one with 'the shape is symbolic'"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_of_a_backend_is_seen(what: str) -> None:
    backend, name, message = FAULTS[what]
    with pytest.raises(AssertionError, match=message):
        cases(backend)[name].check()


def _changed(text: str, other: str, op: str = "relax.add") -> Backend:
    """The backend whose functions of regions that begin with ``op`` have other code."""

    def change(regions: Sequence[Region]) -> Code:
        codes = [convert([r]) for r in regions]
        parts = [c.source.replace(ABI, "") for c in codes]
        parts = [s.replace(text, other) if r.calls[0].op == op else s
                 for s, r in zip(parts, regions, strict=True)]  # fmt: skip
        return Code(ABI + "".join(parts), tuple(r.symbol for r in regions))

    return replace(TOY, convert=change)


def test_code_that_crashes_fails_its_example_alone_by_its_signal() -> None:
    found = cases(_changed("return 0;", "__builtin_trap();"))
    with pytest.raises(AssertionError, match=r"it ends the process with signal 4 \(SIGILL\)"):
        found["takes sum of inputs [float32]"].check()
    found["takes relu [float32]"].check()
    with pytest.raises(AssertionError, match=r"sum of inputs \[float32\]: it ends the process"):
        found["runs in a new process"].check()


def test_an_example_names_its_own_failures_each_reason_once() -> None:
    found = cases(_changed("float v0", "flaot v0", "relax.nn.relu"))
    with pytest.raises(AssertionError) as caught:
        found["takes two regions [float32]"].check()
    assert str(caught.value).count("flaot") == 1, caught.value
    found["takes sum of inputs [float32]"].check()


def test_where_a_backend_is_not_available_its_numbers_are_not_checked() -> None:
    found = cases(replace(TOY, available=lambda: "no driver"))
    found["says whether it is available"].check()
    with pytest.raises(unittest.SkipTest, match="toy is not available: no driver"):
        found["takes relu [float32]"].check()


def test_examples_are_derived_from_patterns() -> None:
    """The toy says nothing of dtypes and computes in float32: that is found without an example."""
    found = {c.name: c for c in backend_cases(TOY, registered=False)}
    wrong = [n for n in found if n.endswith("[float16]")]
    right = [n for n in found if n.endswith("[float32]")]
    assert any(n.startswith("takes add relu of") for n in right) and len(right) >= 4, right
    for name in right:
        found[name].check()
    for name in wrong:
        with pytest.raises(AssertionError, match="differs from TVM"):
            found[name].check()
    assert wrong


def _bias(node: Node) -> str | None:
    bias = (node.result.shape[1], 1, 1)
    return None if [v.shape for v in node.others] == [bias] else "not a bias by channel"


def test_derived_examples_take_the_optional_operators() -> None:
    """A bias whose shape no single operator tells, and what stands after it."""
    steps = one("relax.nn.conv2d"), maybe("relax.add", _bias), maybe("relax.nn.relu")
    taken = {e.takes for e in samples(replace(TOY, patterns=(Pattern("conv", *steps),)))}
    assert {"conv2d", "conv2d add", "conv2d relu", "conv2d add relu"} <= taken


@pytest.mark.parametrize("count", [2, 3])
def test_derived_examples_take_the_required_operators(count: int) -> None:
    """No operator of such a pattern is a region alone."""
    steps = (one("relax.nn.conv2d"), one("relax.add", _bias), one("relax.nn.relu"))[:count]
    pattern = Pattern("conv", *steps, maybe("relax.tanh"))
    taken = {e.takes for e in samples(replace(TOY, patterns=(pattern,)))}
    required = " ".join(("conv2d", "add", "relu")[:count])
    assert taken == {required, f"{required} tanh"}


def test_the_operators_of_an_example_have_short_or_long_names() -> None:
    takes = "relax.nn.conv2d  add, relu"
    assert Example("both", ((4, 6),), added, takes=takes).regions == ["conv2d add", "relu"]


def test_an_example_says_what_is_expected() -> None:
    with pytest.raises(ValueError, match="'nothing': expected takes, refused or both"):
        Example("nothing", ((4, 6),), added)


def test_all_failures_are_listed_together() -> None:
    wrong = replace(TOY, available=lambda: "no\ndriver", patterns=(*PATTERNS, PATTERNS[0]))
    with pytest.raises(AssertionError) as error:
        check_backend(wrong, EXAMPLES, registered=False)
    first, available, names = str(error.value).splitlines()
    assert first == "backend toy: 2 checks failed"
    assert available.startswith("says whether it is available: available returned 'no\\ndriver'")
    assert names.startswith("names its patterns: pattern names must be distinct")
    with pytest.raises(unittest.SkipTest, match="no driver"):
        check_backend(replace(TOY, available=lambda: "no driver"), EXAMPLES, registered=False)


# ----------------------------------------------------------------------------- recognisers


def _module(run: Callable[..., Any], **fields: Any) -> types.ModuleType:
    """A module with ``outer`` as its own recogniser, at the place of opinfo's."""
    module = types.ModuleType("theirs")
    run.__module__ = "theirs"
    unregister("outer")
    recogniser("theirs", precedence=1, ops=("relax.outer",))(run)
    for name in ("MATCHES", "REFUSES"):
        setattr(module, name, fields.get(name, getattr(outer, name)))
    return module


def test_a_right_recogniser_passes() -> None:
    check_recogniser(outer)
    names = [c.name for c in recogniser_cases(outer)]
    assert names[:3] == ["outer: is registered", "outer: has a match for each operator",
                         "outer: matches outer 0"]  # fmt: skip
    assert "outer: is not misled near outer 1" in names


def _guess(f: Any) -> list[Proposal]:
    return [Proposal("relax.outer", (0, 1))]


def _swapped(f: Any) -> list[Proposal]:
    return [Proposal("relax.outer", (1, 0))]


def _never(f: Any) -> Refusal:
    return Refusal("not today")


def _raises(f: Any) -> list[Proposal]:
    raise KeyError("shape")


SUM = Refuses("it is a product", outer.REFUSES[0].script.replace("a[vi] + b", "a[vi] * b"))
WRONG: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "refuses all": (_never, {}, "matches outer 1: (refused|got)"),
    "raises": (_raises, {}, "recogniser 'theirs' failed: KeyError"),
    "operands the other way round": (_swapped, {}, "matches outer 1: "),
    "matches what it says it refuses": (_guess, {"REFUSES": [SUM]}, "but: it is a product"),
    "has no case": (_guess, {"MATCHES": []}, r"MATCHES has no case of relax\.outer"),
    "an operand that is not a type": (
        _guess, {"MATCHES": [Matches("relax.outer", ("int8(4, 6)", "int8[5]"))]},
        r"the operand 'int8\(4, 6\)': expected dtype\[shape\] or dtype\(value\)"),
    "an operand too many": (
        _guess, {"MATCHES": [Matches("relax.outer", ("int8[4]",) * 3)]},
        r"matches outer 0: [^\n]+\n"),
    "a script that does not parse": (
        _guess, {"REFUSES": [Refuses("it is not TVMScript", "def main(:")]},
        "refuses it is not TVMScript: [^\n]+$"),
    "other attributes": (_guess, {"MATCHES": [Matches("relax.outer", ("int8[4]", "int8[5]"),
                                                      expect={"axis": 1})]},
                         "attribute axis is missing"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_fault_of_a_recogniser_is_seen(what: str) -> None:
    run, fields, message = WRONG[what]
    with recogniser_scope():
        module = _module(types.FunctionType(run.__code__, globals(), run.__name__), **fields)
        with pytest.raises(AssertionError, match=message):
            check_recogniser(module, registered=False)


def test_a_module_without_a_recogniser_is_seen() -> None:
    with pytest.raises(AssertionError, match=r"no function of empty is registered"):
        check_recogniser(types.ModuleType("empty"), registered=False)


def test_a_module_that_no_entry_point_leads_to_is_seen() -> None:
    (first, *_) = recogniser_cases(types.ModuleType("empty"))
    assert str(first) == "empty: is discovered"
    with pytest.raises(AssertionError, match=r"no entry point .* leads to empty; declare one"):
        first.check()
