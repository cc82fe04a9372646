"""No operator that TVM lowers is forgotten."""

from __future__ import annotations

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
