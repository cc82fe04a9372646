"""Coarse regions compute the same, with several results, and none needs another in a cycle."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from opinfo.byoc import Backend, CannotForce, Coarse, DispatchPlan, PlanRefused, dispatch, one
from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.replay_dispatch import replay
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.patterns.dependences import flows
from opinfo.layout.graph.read_graph import graph
from opinfo.testing.unoptimised import unoptimised

from ...common.run import run
from ...layout import nets
from ..backends.toy import TOY, convert, flat, static

SHAPE = (2, 6)
ANY = Coarse("network", one(("relax.add", "relax.maximum"), static, flat),
             one(("relax.nn.relu", "relax.exp"), static))  # fmt: skip
LARGE = Backend("large", (), convert, coarse=(ANY,))


def tangled(emit: Any, rng: Any, x: Any) -> Any:
    """add → relu, exp; negative of relu is read with exp: one region has two results."""
    y = emit(relax.op.add(x, x))
    a, b = emit(relax.op.nn.relu(y)), emit(relax.op.exp(y))
    n = emit(relax.op.negative(a))
    c = emit(relax.op.add(a, b))
    d = emit(relax.op.maximum(emit(relax.op.add(n, b)), c))
    return emit(relax.Tuple([d, c, emit(relax.op.negative(b))]))


def _same(before: Any, after: Any, count: int = 1) -> None:
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(SHAPE).astype("float32") for _ in range(count)]
    for a, b in zip(run(before, given), run(after, given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_region_of_several_results_computes_the_same() -> None:
    mod = nets.net(tangled, SHAPE)
    text = mod.script()
    done = dispatch(mod, [LARGE])
    assert mod.script() == text
    assert [len(t.ops) for t in done.taken] in ([2, 4], [4, 2])  # relu is on one side of negative
    assert [o.op for o in done.left] == ["relax.negative", "relax.negative"]
    _same(mod, done.module)


@pytest.mark.parametrize("seed", range(2))
def test_random_programs_compute_the_same(seed: int) -> None:
    def build(emit: Any, _: Any, *xs: Any) -> Any:
        rng, values = random.Random(seed), list(xs)
        for _ in range(24):
            f = rng.choice([relax.op.add, relax.op.maximum, relax.op.nn.relu, relax.op.negative])
            binary = f in (relax.op.add, relax.op.maximum)
            values.append(emit(f(*rng.sample(values[-5:], 2 if binary else 1))))
        return emit(relax.Tuple(values[-4:]))

    mod = nets.net(build, SHAPE, SHAPE)
    done = dispatch(mod, [LARGE, replace(TOY, name="toy")], {"toy": 2})
    assert any(len(t.ops) > 2 for t in done.taken if t.backend == "large")
    again = replay(mod, done.plan, [LARGE, TOY])
    tvm.ir.assert_structural_equal(again.module.functions, done.module.functions)
    _same(mod, done.module, 2)


def test_what_a_choice_leaves_is_a_region_again() -> None:
    mod = nets.net(tangled, SHAPE)
    relu = Backend("own", (), convert, coarse=(Coarse("relu", one("relax.nn.relu")),))
    done = dispatch(mod, [LARGE, relu], {"own": 9})
    assert [t.ops for t in done.taken if t.backend == "own"] == [("relax.nn.relu",)]
    assert sum(len(t.ops) for t in done.taken if t.backend == "large") == 5
    done = dispatch(mod, [LARGE], force={"nn.relu": "tvm"})
    assert sum(len(t.ops) for t in done.taken) == 5
    with pytest.raises(CannotForce, match=r"relax.negative \(lv3\) cannot go to large"):
        dispatch(mod, [LARGE], force={"negative": "large.network"})


def test_a_plan_whose_region_leaves_and_comes_back_is_refused() -> None:
    mod = nets.net(tangled, SHAPE)
    saved = dispatch(mod, [LARGE]).plan.to_json()
    region, *_ = saved["regions"]
    for ops, reason in (
        ([0, 1, 2, 4, 5, 6], "does not match large, pattern network"),  # negative between
        ([1, 2], "does not match large"),  # not connected
        ([1, 0], "does not match large"),  # not in order
        ([3], "does not match large"),  # negative
    ):
        changed = {**saved, "regions": [{**region, "ops": ops}]}
        with pytest.raises(PlanRefused, match=reason):
            replay(mod, DispatchPlan.from_json(changed), [LARGE])


def crossed(emit: Any, rng: Any, x: Any, y: Any) -> Any:
    """Two pairs of operators, each half of one needs half of the other."""
    a, b = emit(relax.op.exp(x)), emit(relax.op.nn.relu(y))
    c = emit(relax.op.add(a, emit(relax.op.negative(b))))
    d = emit(relax.op.maximum(b, emit(relax.op.sqrt(a))))
    return emit(relax.Tuple([c, d]))


def test_regions_that_need_each_other_are_not_both_taken() -> None:
    mod = nets.net(crossed, SHAPE, SHAPE)
    one_, two = (
        Backend(name, (), convert, coarse=(Coarse("pair", one(ops)),))
        for name, ops in (
            ("one", ("relax.exp", "relax.add")), ("two", ("relax.nn.relu", "relax.maximum")),
        )
    )  # fmt: skip
    done = dispatch(mod, [one_, two])
    assert sum(len(t.ops) for t in done.taken) == 4  # one pair, the other's halves by themselves
    assert sorted(len(t.ops) for t in done.taken) == [1, 1, 2]
    _same(mod, done.module, 2)
    saved = done.plan.to_json()
    pairs = [{**saved["regions"][0], "backend": b, "pattern": "pair", "ops": ops}
             for b, ops in (("one", [0, 3]), ("two", [1, 5]))]  # fmt: skip
    with pytest.raises(PlanRefused, match="depend on each other cyclically"):
        replay(mod, DispatchPlan.from_json({**saved, "regions": pairs}), [one_, two])


def test_why_an_operator_is_in_no_region() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        return emit(relax.op.sqrt(emit(relax.op.add(x, nets.const(rng, 1, 6)))))

    assert [o.why for o in dispatch(nets.net(build, SHAPE), [LARGE]).left] == [
        "large, pattern network: an operand is broadcast", "no pattern of large has relax.sqrt",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="expected at least one step"):
        Coarse("nothing")


@I.ir_module
class Branches:
    @R.function
    def main(x: R.Tensor((2, 6), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(
        (2, 6), "float32"
    ):
        y = R.nn.relu(x)
        if c:
            z = R.exp(R.add(y, x))
        else:
            z = R.add(y, y)
        return z


def test_outside_of_dataflow_blocks_each_operator_is_a_region() -> None:
    mod = relax.transform.LegalizeOps()(relax.transform.Normalize()(Branches))
    assert all(not f for f in read(mod, "test").flows.values())
    done = dispatch(mod, [LARGE])
    assert [len(t.ops) for t in done.taken] == [1, 1, 1, 1]
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    machine = relax.VirtualMachine(unoptimised(done.module), tvm.cpu())
    for c, expected in ((True, np.exp(np.maximum(x, 0) + x)), (False, 2 * np.maximum(x, 0))):
        given = (tvm.runtime.tensor(x), tvm.runtime.tensor(np.asarray(c)))
        np.testing.assert_allclose(machine["main"](*given).numpy(), expected, rtol=1e-6)


def test_regions_form_inside_of_branches() -> None:
    done = compile_module(relax.transform.Normalize()(Branches), ["onnxruntime"])
    taken = [t.ops for t in done.dispatched.taken]
    assert sorted(map(len, taken)) == [1, 1, 2] and ("relax.add", "relax.exp") in taken
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    machine = done.machine()
    for c, expected in ((True, np.exp(np.maximum(x, 0) + x)), (False, 2 * np.maximum(x, 0))):
        given = (tvm.runtime.tensor(x), tvm.runtime.tensor(np.asarray(c)))
        np.testing.assert_allclose(machine["main"](*given).numpy(), expected, rtol=1e-6)


def test_paths_through_other_calls_and_extents_count() -> None:
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.nn.relu(x))
            size = bb.emit(relax.op.unique(y, sorted=True, axis=0))
            bb.match_cast(size, relax.TensorType((n, 6), "float32"))
            ones = bb.emit(relax.op.full(relax.ShapeExpr((n, 6)), relax.const(1.0)))
            out = bb.emit_output(relax.op.add(bb.emit(relax.op.sum(ones)), y))
        bb.emit_func_output(out)
    mod = relax.transform.LegalizeOps()(bb.get())
    (f,) = flows(mod["main"], graph(mod, mod["main"]))
    first, last = f.places[f.ops[min(f.ops)]], f.places[f.ops[max(f.ops)]]
    assert f.between(1 << first | 1 << last).bit_count() >= 3
