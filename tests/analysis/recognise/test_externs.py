"""Calls of extern functions: what the certificate says, and who may not see through them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis import OpInfo, Proposal, Refusal, op_info, recogniser, recogniser_scope
from opinfo.analysis.answer.analyser import Analyser
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.lifting.tir.unliftable import Unliftable
from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.analysis.recognise import Matches
from opinfo.byoc.prepare.raising.raise_ops import raise_ops
from opinfo.testing.calls import lower
from opinfo.testing.strip import strip
from opinfo.testing.unoptimised import unoptimised

SORT = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((3, 5), "float32"), out: T.Buffer((3, 5), "float32")):
    T.func_attr({{"global_symbol": "main"}})
    {first}
    T.call_packed("tvm.contrib.sort.{name}", {x}, {out}, {arguments})
    {last}
"""
ARRAY = "T.tvm_stack_make_array({0}.data, T.tvm_stack_make_shape(3, 5), 0, 2, T.float32(0), 0)"


def sort(name: str = "sort", arguments: str = "1, T.bool(True)", **parts: str) -> Any:
    whole = {"first": "", "last": "", "x": ARRAY.format("x"), "out": ARRAY.format("out")} | parts
    return tvm.script.from_source(SORT.format(name=name, arguments=arguments, **whole))


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("ascending", [True, False])
def test_a_sort_is_what_its_arguments_say(axis: int, ascending: bool) -> None:
    func = sort(arguments=f"{axis}, T.bool({ascending})")
    info = op_info(func)
    assert isinstance(info, OpInfo) and info.name == "relax.sort"
    x = np.random.default_rng(0).standard_normal((3, 5)).astype("float32")
    out = tvm.runtime.tensor(np.zeros_like(x))
    unoptimised(func)["main"](tvm.runtime.tensor(x), out)
    expected = np.sort(x, axis=info.attrs["axis"])
    if info.attrs["descending"]:
        expected = np.flip(expected, info.attrs["axis"])
    np.testing.assert_array_equal(out.numpy(), expected)


def test_the_certificate_names_the_function_that_it_rests_on() -> None:
    info = op_info(sort())
    assert isinstance(info, OpInfo)
    assert (info.kind, info.certificate.kind) == ("kOpaque", "extern")
    documented = "the extern function tvm.contrib.sort.sort computes what TVM documents"
    assert documented in info.certificate.assumptions


FILL = """for i, j in T.grid(3, 5):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            {0}[vi, vj] = {1}"""


@pytest.mark.parametrize(
    ("func", "reason"),
    [
        (sort(name="stable_sort"), "which is not TIR"),
        (sort(arguments="2, T.bool(True)"), "has axis 2 of 2"),
        (sort(arguments="1"), "is not a literal"),
        (sort(x=ARRAY.format("out")), "reads and fills one array"),
        (sort(out=ARRAY.format("out").replace("3, 5", "5, 3")), "not a whole buffer"),
        (sort(out=ARRAY.format("out").replace("0, 2,", "0, 1,")), "not a whole buffer"),
        (sort(last=FILL.format("x", "T.float32(0)")), "reads an output"),
        (sort(last=FILL.format("out", "x[vi, vj]")), ""),
        (sort(first=FILL.format("x", "T.float32(1)")), "not a parameter"),
    ],
)
def test_a_call_that_is_not_as_documented_is_refused(func: Any, reason: str) -> None:
    info = op_info(func)
    assert not isinstance(info, OpInfo) or info.name not in ("relax.sort", "relax.argsort")
    if reason and isinstance(info, Refusal):
        assert reason in info.reason or info.reason.startswith("no recogniser"), info


def test_layouts_and_padding_do_not_see_through_the_call() -> None:
    with pytest.raises(Unliftable, match="calls the extern function"):
        lift(sort())
    assert isinstance(Analyser().lifted(sort()), Refusal)
    assert Analyser()(sort()).operator is not None


def test_a_wrong_proposal_is_not_accepted_for_random_inputs() -> None:
    with recogniser_scope():

        @recogniser("reversed", precedence=1, ops=("relax.sort",), externs=True)
        def reversed_sort(_: Any) -> list[Proposal]:
            return [Proposal("relax.sort", (0,), {"axis": 1, "descending": True})]

        info = op_info(sort(), tested=True)
    assert isinstance(info, OpInfo) and info.attrs["descending"] is False


def test_a_recogniser_for_extern_calls_sees_no_other_function() -> None:
    seen: list[Any] = []
    with recogniser_scope():

        @recogniser("spy", precedence=1, ops=("relax.sort",), externs=True)
        def spy(expression: Any) -> Refusal:
            seen.append(expression)
            return Refusal("only looks")

        op_info(lower(Matches("relax.exp", ("float32[3]",))))
        assert not seen
        op_info(sort())
        assert len(seen) == 1 and seen[0].externs[0].function == "tvm.contrib.sort.sort"


def _sorting_module() -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3, 5), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(relax.op.sort(x, 1, True)))
        builder.emit_func_output(out)
    return legalise_module(builder.get())


def test_a_sort_is_raised_only_on_request() -> None:
    mod = _sorting_module()
    kept = raise_ops(mod)
    assert not kept.raised and "only extern" in kept.kept[0].reason
    assert [s.op for s in raise_ops(mod, certificate="extern").raised] == ["relax.sort"]


def test_the_same_call_has_the_same_results() -> None:
    median = strip(lower(Matches("relax.median", ("float32[3, 5]",), {"axis": [1]})))
    (first, second) = (lift(median, externs=True) for _ in range(2))
    assert first.externs[0] is not second.externs[0]  # over other tensors
    again = lift(median, first.params, externs=True)
    assert again.externs[0] is first.externs[0]
    assert [d.body for d in again.outputs] == [d.body for d in first.outputs]
