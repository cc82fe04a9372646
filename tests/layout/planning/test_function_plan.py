"""Ways that turned out to have no proof are not chosen again, and the given one stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from opinfo.layout.alternatives.alternative import GIVEN, Alternative
from opinfo.layout.alternatives.enumerate_alternatives import as_given
from opinfo.layout.alternatives.op_spec import OpSpec
from opinfo.layout.graph.read_graph import graph
from opinfo.layout.graph.relax_graph import Graph, Op
from opinfo.layout.plan import check_arguments
from opinfo.layout.search.function_plan import Plan, bytes_moved, decide, space
from opinfo.layout.search.op_specs import OpSpecs

from .. import nets


@pytest.fixture(scope="module")
def wanted() -> tuple[Graph, dict[Op, OpSpec]]:
    """Convolutions that want NHWC, with sums and relu between them."""
    mod = nets.net(nets.residual, (1, 3, 8, 8))
    found = graph(mod, mod["main"])
    desired = check_arguments({"nn.conv2d": ["NHWC", "OHWI"]}, "graph", "bytes")
    return found, OpSpecs(desired).of(found)


def planned(g: Graph, specs: Mapping[Op, OpSpec], forbidden: Any) -> Plan:
    return decide(g, specs, bytes_moved, {}, forbidden, strict=True)


def test_each_op_is_done_as_given_once_all_else_is_refused(
    wanted: tuple[Graph, dict[Op, OpSpec]],
) -> None:
    g, specs = wanted
    moved = 0
    for op in g.ops[:6]:
        refused: set[Alternative] = set()
        while (way := planned(g, specs, {op: frozenset(refused)}).chosen[op]).why != GIVEN:
            assert way not in refused
            refused.add(way)
            assert len(refused) < 20
        moved += bool(refused)
        assert way.outputs == as_given(op, specs[op]).outputs
    assert moved >= 3


def test_what_is_asked_of_an_op_is_left_for_the_given_way_only_if_it_is_refused(
    wanted: tuple[Graph, dict[Op, OpSpec]],
) -> None:
    g, specs = wanted
    convolutions = [op for op, spec in specs.items() if spec.constraint is not None]
    plan = planned(g, specs, {})
    assert convolutions
    assert all(plan.chosen[op].why != GIVEN for op in convolutions)
    first, *rest = convolutions
    after = planned(g, specs, {first: frozenset((plan.chosen[first],))})
    assert after.chosen[first].why == GIVEN
    assert all(after.chosen[op].why != GIVEN for op in rest)


def test_an_op_may_stay_as_given_where_only_usual_layouts_are_read() -> None:
    mod = nets.net(nets.attention, (2, 5, 8))
    found = graph(mod, mod["main"])
    specs = OpSpecs({}).of(found)
    known = space(found, specs, {}, {}, strict=True)
    assert {op.name for op in found.ops} > {"matmul", "transpose"}
    for op in found.ops:
        assert any(c.same_as(as_given(op, specs[op])) for c in known.alternatives[op]), op.name
