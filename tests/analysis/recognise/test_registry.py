"""No operator that TVM lowers is forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relax, tirx

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.analysis.support.ir.constructors import own_operators
from tests.common import registry

from ...common.prim_funcs import prim_funcs


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
    assert registry.recognised() - registry.lowered() - own_operators() == {"relax.nn.relu6"}


MATRIX = relax.TensorType((4, 6), "float32")
SORTS = {
    "argsort": (relax.op.argsort, "tvm.contrib.sort.argsort"),
    "median": (lambda x: relax.op.median(x, axis=[0]), "tvm.contrib.sort.argsort"),
    "sort": (relax.op.sort, "tvm.contrib.sort.sort"),
    "topk": (lambda x: relax.op.topk(x, k=2), "tvm.contrib.sort.topk"),
}


@pytest.mark.parametrize("op", SORTS)
def test_what_sorts_names_the_function_that_it_calls(op: str) -> None:
    build, extern = SORTS[op]
    (info,) = (op_info(f) for f in prim_funcs(_lowered(build, MATRIX)))
    assert isinstance(info, OpInfo) and info.name == f"relax.{op}"
    assert info.certificate.kind == "extern"
    assert any(extern in assumption for assumption in info.certificate.assumptions)


def _lowered(call: Any, *types: Any) -> Any:
    """The module after legalisation of ``call`` over operands of these types."""
    operands = [relax.Var(f"x{k}", ty) for k, ty in enumerate(types)]
    builder = relax.BlockBuilder()
    with builder.function("main", operands):
        builder.emit_func_output(builder.emit(call(*operands)))
    return legalise_module(builder.get())


def test_external_calls_and_what_vanishes() -> None:
    for call in (
        lambda x: relax.op.ccl.allreduce(x, "sum"),
        lambda x: relax.op.grad.no_grad(x),
        lambda x: relax.op.grad.start_checkpoint(x),
        lambda x: relax.op.grad.end_checkpoint(x),
    ):
        assert not prim_funcs(_lowered(call, MATRIX))


def test_several_prim_funcs() -> None:
    """The parts of size are recognised; a slice by data has a shape of its own to compute."""
    n = tirx.Var("n", "int64")
    parts = [
        op_info(f) for f in prim_funcs(_lowered(relax.op.size, relax.TensorType((3, n), "int8")))
    ]
    names = {part.name for part in parts if isinstance(part, OpInfo)}
    assert names == {"relax.shape_to_tensor", "relax.prod"} and len(parts) == 2
    at = relax.TensorType((2,), "int64")
    assert len(prim_funcs(_lowered(relax.op.dynamic_strided_slice, MATRIX, at, at, at))) == 2


def test_what_is_not_lifted() -> None:
    boxes = relax.TensorType((1, 5, 6), "float32")
    (func,) = prim_funcs(_lowered(relax.op.vision.get_valid_counts, boxes))
    assert isinstance(op_info(func), Refusal)
