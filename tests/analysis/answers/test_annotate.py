"""Annotations are right, or they are not there: through fusion, schedules and layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import relax, tirx

import opinfo
from opinfo.analysis import Annotation, Refusal, annotation
from opinfo.analysis.annotate import KEYS, PATTERNS
from opinfo.analysis.support.tvm_compat import StmtSimplify
from opinfo.transform import AnnotateOpInfo
from tests.common.prim_funcs import prim_funcs_by_name

from ..chain.test_op_infos import Conv


def _lowered(mod: tvm.IRModule) -> tvm.IRModule:
    return relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(mod))


def test_attributes_are_plain_and_survive_json() -> None:
    mod = AnnotateOpInfo()(_lowered(Conv))
    again = tvm.ir.load_json(tvm.ir.save_json(mod))
    found = annotation(prim_funcs_by_name(again)["conv2d"])
    assert isinstance(found, Annotation) and found.kind == "kOutEWiseFusable"
    (op,) = found.ops
    assert op["name"] == "relax.nn.conv2d" and op["operands"] == [0, 1]
    assert op["attrs"]["strides"] == [2, 2] and op["attrs"]["groups"] == 2
    assert op["layouts"] == ["NCHW", "OIHW", "NCHW"] and found.outputs == ((0, 0),)


def test_the_input_is_not_changed() -> None:
    mod = _lowered(Conv)
    before = tvm.ir.save_json(mod)
    AnnotateOpInfo()(mod)
    assert tvm.ir.save_json(mod) == before


def test_fused_functions_get_the_chain() -> None:
    passes = [relax.transform.FuseOps(), relax.transform.FuseTIR(), AnnotateOpInfo()]
    mod = tvm.transform.Sequential(passes)(AnnotateOpInfo()(_lowered(Conv)))
    (func,) = prim_funcs_by_name(mod).values()
    found = annotation(func)
    assert isinstance(found, Annotation)
    assert found.names == ("relax.nn.conv2d", "relax.add", "relax.nn.relu")
    assert [op["operands"] for op in found.ops] == [[0, 1], [[0, 0], 2], [[1, 0]]]


def _rewritten(func: Any, change: Callable[[Any], None]) -> Any:
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))
    change(schedule)
    return StmtSimplify()(schedule.mod)["main"]


def _block(s: Any) -> Any:
    return s.get_child_blocks(s.get_sblock("root"))[-1]


def test_what_a_schedule_changed_is_not_read_until_derived_again() -> None:
    func = prim_funcs_by_name(AnnotateOpInfo()(_lowered(Conv)))["relu"]
    changed = _rewritten(func, lambda s: s.split(s.get_loops(_block(s))[1], [2, None]))
    stale = annotation(changed)
    assert isinstance(stale, Refusal) and "has changed since" in stale.reason
    again = AnnotateOpInfo()(tvm.IRModule({"main": changed}))["main"]
    found = annotation(again)
    assert isinstance(found, Annotation) and found.names == ("relax.nn.relu",)


def test_layouts_follow_a_transform() -> None:
    func = prim_funcs_by_name(AnnotateOpInfo()(_lowered(Conv)))["conv2d"]

    def nhwc(s: Any) -> None:
        s.transform_layout(_block(s), ("write", 0), lambda n, c, h, w: (n, h, w, c))
        first = s.get_child_blocks(s.get_sblock("root"))[0]
        s.transform_layout(first, ("read", 0), lambda n, c, h, w: (n, h, w, c))

    again = AnnotateOpInfo()(tvm.IRModule({"main": _rewritten(func, nhwc)}))["main"]
    found = annotation(again)
    assert isinstance(found, Annotation)
    layouts = found.ops[0]["layouts"]
    assert (layouts[0], layouts[2]) == ("NHWC", "NHWC")


def test_attributes_that_no_longer_hold_are_taken_away() -> None:
    func = prim_funcs_by_name(AnnotateOpInfo()(_lowered(Conv)))["relu"]
    body = tirx.Evaluate(tirx.call_extern("int32", "mystery"))
    broken = tirx.PrimFunc(func.params, body, func.ret_type, func.attrs)
    again = AnnotateOpInfo()(tvm.IRModule({"main": broken}))["main"]
    assert not any(key in again.attrs for key in KEYS)


def test_a_pattern_of_its_own_goes_with_the_body() -> None:
    func = prim_funcs_by_name(AnnotateOpInfo()(relax.transform.LegalizeOps()(Conv)))["relu"]
    assert func.attrs["op_pattern"] == PATTERNS["kElemWise"]
    turned = _rewritten(
        func,
        lambda s: s.transform_layout(_block(s), ("write", 0), lambda n, c, h, w: (n, w, h, c)),
    )
    assert turned.attrs["op_pattern"] == PATTERNS["kElemWise"]  # what TVM leaves: not true any more
    again = AnnotateOpInfo()(tvm.IRModule({"main": turned}))["main"]
    assert again.attrs["op_pattern"] == PATTERNS["kInjective"]


def test_arguments_of_another_type_are_refused() -> None:
    with pytest.raises(TypeError, match="PrimFunc"):
        annotation(Conv)
    with pytest.raises(TypeError, match="IRModule"):
        opinfo.analysis.annotate.annotate(Conv["main"])


def _turned(rows: str, columns: str) -> Any:
    """``o[c, r]`` are the elements of ``x[r, c]`` in their order, with these names for r and c."""
    return tvm.script.from_source(f"""
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(px: T.handle, po: T.handle):
    {rows} = T.int64()
    {columns} = T.int64()
    x = T.match_buffer(px, ({rows}, {columns}), "float32")
    o = T.match_buffer(po, ({columns}, {rows}), "float32")
    for i, j in T.grid({columns}, {rows}):
        o[i, j] = x[(i * {rows} + j) // {columns}, (i * {rows} + j) % {columns}]
""")


@pytest.mark.parametrize("names", [("n", "m"), ("m", "n"), ("a", "b")])
def test_symbolic_attributes_do_not_name_variables(names: tuple[str, str]) -> None:
    """The hash does not tell variables' names: what holds for one spelling holds for another."""
    attrs = AnnotateOpInfo()(tvm.IRModule({"main": _turned("n", "m")}))["main"].attrs
    renamed = _turned(*names)
    for key in KEYS:
        renamed = renamed.with_attr(key, attrs[key]) if key in attrs else renamed
    found = annotation(renamed)
    assert isinstance(found, Annotation)
    assert found.ops[0]["attrs"]["shape"] == ["p0.shape[1]", "p0.shape[0]"]
