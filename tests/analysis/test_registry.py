"""No operator that TVM lowers is forgotten."""

from __future__ import annotations

import pytest
from tvm import relax, tirx

from opinfo.analysis import op_info
from opinfo.analysis.legalise import lowered
from tests import registry


def test_the_list_has_all_sources() -> None:
    """Registered in Python, registered in C++, lowered by DispatchSortScan."""
    assert {"relax.quantize", "relax.nn.batch_flatten", "relax.topk"} <= registry.lowered()
    assert len(registry.lowered()) >= 192


def test_every_operator_has_a_status() -> None:
    known = registry.recognised() | registry.canonical().keys() | registry.REASONS.keys()
    assert not sorted(registry.lowered() - known), "recognise it, or say in REASONS why not"


def test_reasons_are_of_operators_that_are_not_recognised() -> None:
    known = registry.recognised() | registry.canonical().keys()
    assert not sorted(registry.REASONS.keys() & known), "drop the reason: it is recognised"
    assert not sorted(registry.REASONS.keys() - registry.lowered()), "TVM does not lower it"


def test_canonical_operators_are_recognised() -> None:
    for op, names in registry.canonical().items():
        assert names <= registry.recognised(), (op, names)


def test_operators_that_are_recognised_are_of_tvm() -> None:
    """relax.nn.relu6 is a function of TVM's that calls relax.clip."""
    assert registry.recognised() - registry.lowered() == {"relax.nn.relu6"}


SORTS = {
    "argsort": (relax.op.argsort, "tvm.contrib.sort.argsort"),
    "median": (lambda x: relax.op.median(x, axis=[0]), "tvm.contrib.sort.argsort"),
    "sort": (relax.op.sort, "tvm.contrib.sort.sort"),
    "topk": (lambda x: relax.op.topk(x, k=2), "tvm.contrib.sort.topk"),
}


@pytest.mark.parametrize("op", SORTS)
def test_what_sorts_names_the_function_that_it_calls(op: str) -> None:
    build, extern = SORTS[op]
    x = relax.Var("x", relax.TensorType((4, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(build(x)))
    mod = lowered(builder.get())
    told = {repr(op_info(f)) for f in mod.functions.values() if isinstance(f, tirx.PrimFunc)}
    assert f"not recognised: calls {extern}, an extern function: not TIR" in told
