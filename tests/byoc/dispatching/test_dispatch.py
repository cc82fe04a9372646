"""Dispatch: what is matched, what is chosen, that results are the same, why ops stay."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import relax as R

from opinfo.byoc import DispatchPlan, PlanRefused, dispatch, replay
from opinfo.byoc.backend.backend import Backend
from opinfo.byoc.backend.match import Match
from opinfo.byoc.dispatching.choice.choose import choose
from opinfo.byoc.patterns.pattern import Pattern, many, maybe, one
from opinfo.layout.graph.relax_graph import Op

from ...common.run import run
from ...layout import nets
from ..backends.toy import PATTERNS, TOY, static

SHAPE = (2, 6)


def chain(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(relax.op.add(x, x))
    y = emit(relax.op.nn.relu(y))
    y = emit(relax.op.exp(y))
    z = emit(relax.op.nn.relu(emit(relax.op.negative(y))))
    return emit(relax.op.multiply(y, z))


def test_a_chain_is_one_region_and_the_result_is_the_same() -> None:
    mod = nets.net(chain, SHAPE)
    text = mod.script()
    done = dispatch(mod, [TOY, "tvm"])
    assert mod.script() == text
    assert [t.ops for t in done.taken] == [
        ("relax.add", "relax.nn.relu", "relax.exp"), ("relax.nn.relu",),
    ]  # fmt: skip
    assert [(o.op, o.why) for o in done.left] == [
        ("relax.negative", "no pattern of toy has relax.negative"),
        ("relax.multiply", "no pattern of toy has relax.multiply"),
    ]
    assert done.status == "optimal"
    assert done.summary().startswith("offloaded 4 of 6 ops, 66.7% of FLOPs, toy 4, tvm 2")
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    for a, b in zip(run(mod, [x]), run(done.module, [x]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_value_that_something_else_reads_ends_the_chain() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        y = emit(relax.op.add(x, x))
        return emit(relax.Tuple([y, emit(relax.op.nn.relu(y))]))

    done = dispatch(nets.net(build, SHAPE), [TOY])
    assert [t.ops for t in done.taken] == [("relax.add",), ("relax.nn.relu",)]


def test_the_first_failed_condition_is_reported() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        return emit(relax.op.add(x, nets.const(rng, 1, 6)))

    (left,) = dispatch(nets.net(build, SHAPE), [TOY]).left
    assert left.why == "toy, pattern pointwise: an operand is broadcast"


def test_regions_of_a_converter_that_fails_go_to_the_next_backend_with_a_warning() -> None:
    def broken(regions: Any) -> Any:
        raise RuntimeError("out of registers")

    mod = nets.net(chain, SHAPE)
    message = (
        r"bad, pattern \w+, region lv.*: its converter failed: RuntimeError: out of registers; "
    )
    with pytest.warns(UserWarning, match=f"{message}run by toy"):
        done = dispatch(mod, [replace(TOY, name="bad", convert=broken), TOY], {"bad": 9})
    assert {t.backend for t in done.taken} == {"toy"}
    assert {f.backend for f in done.lost} == {"bad"} and len(done.lost) == len(done.failed)
    with pytest.warns(UserWarning, match="off is not available: no library"):
        done = dispatch(mod, [replace(TOY, name="off", available=lambda: "no library")])
    assert not done.taken
    assert len(done.left) == 6


@pytest.mark.parametrize(("first", "second"), [("toy", "other"), ("other", "toy")])
def test_priority_decides(first: str, second: str) -> None:
    other = replace(TOY, name="other")
    done = dispatch(nets.net(chain, SHAPE), [TOY, other], {first: 5, second: 2})
    assert {t.backend for t in done.taken} == {first}
    assert not dispatch(nets.net(chain, SHAPE), [TOY], {"toy": 1, "tvm": 2}).taken


def test_arguments_that_make_no_sense() -> None:
    mod = nets.net(chain, SHAPE)
    with pytest.raises(ValueError, match="unknown backend 'fpga'"):
        dispatch(mod, ["fpga"])
    with pytest.raises(ValueError, match="cublas is not a requested backend"):
        dispatch(mod, [TOY], {"cublas": 3})
    with pytest.raises(TypeError, match="expected a"):
        dispatch(chain, [TOY])
    with pytest.raises(ValueError, match="identifier"):
        Backend("my npu", (), TOY.convert)


def test_patterns_are_enumerated_with_every_prefix() -> None:
    from opinfo.analysis.answer.recover import analyse
    from opinfo.layout.graph.read_graph import graph

    mod = nets.net(chain, SHAPE)
    g = graph(mod, mod["main"])
    infos = {op: analyse(op.func) for op in g.ops}
    names = ["relax.nn.relu", "relax.exp", "relax.negative"]
    loose = Pattern("loose", one("relax.add", static), many(names))
    assert sorted(map(len, loose.matches(g.ops[0], infos))) == [1, 2, 3]
    strict = Pattern("strict", one("relax.add"), one("relax.nn.relu"), maybe("relax.sqrt"))
    assert [len(m) for m in strict.matches(g.ops[0], infos)] == [2]


@pytest.mark.parametrize("seed", range(40))
def test_the_choice_is_the_best_of_all(seed: int) -> None:
    rng = random.Random(seed)
    ops = [Op(str(k), None, None, (), ()) for k in range(6)]
    matches = [
        Match(rng.choice("abc"), "p", tuple(ops[i : i + rng.randint(1, 3)]), rng.randint(0, 20))
        for i in (rng.randrange(6) for _ in range(8))
    ]
    priority = {"a": 3, "b": 3, "c": rng.choice([2, 3])}
    default = {op: float(rng.randint(0, 20)) for op in ops}

    def value(chosen: tuple[Match, ...]) -> tuple[float, ...] | None:
        covered = [op for m in chosen for op in m.ops]
        if len(covered) != len(set(covered)):
            return None
        classes = sorted(set(priority.values()), reverse=True)
        counts = [-sum(len(m.ops) for m in chosen if priority[m.backend] == p) for p in classes]
        left = sum(default[op] for op in ops if op not in covered)
        return (*counts, sum(m.cost for m in chosen) + left)

    subsets = (c for n in range(9) for c in itertools.combinations(matches, n))
    best = min(v for v in map(value, subsets) if v is not None)
    found = value(choose(matches, priority, default).matches)
    assert found == pytest.approx(best)


def test_a_saving_counts_beside_costs_that_are_a_billion_times_as_large() -> None:
    ops = [Op(str(k), None, None, (), ()) for k in range(60)]
    matches = [Match("a", "p", (op,), 2.0) for op in ops]
    matches += [Match("a", "p", tuple(ops[k : k + 3]), 2.0) for k in range(0, 60, 3)]
    found = choose(matches, {"a": 3}, dict.fromkeys(ops, 1e9)).matches
    assert sorted(len(m.ops) for m in found) == [3] * 20


def test_nothing_is_called_after_what_it_reads_is_written() -> None:
    tvm.register_global_func("opinfo.test.increase", _increase, override=True)
    x = relax.Var("x", R.Tensor(SHAPE, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        a = bb.emit(relax.op.add(x, x))
        z = bb.emit(relax.op.call_inplace_packed("opinfo.test.increase", x, inplace_indices=[0],
                                                 ty_args=x.ty))  # fmt: skip
        bb.emit_func_output(relax.Tuple([bb.emit(relax.op.nn.relu(a)), z]))
    mod = relax.transform.LegalizeOps()(bb.get())
    for layouts in ("given", "best"):
        done = dispatch(mod, [TOY], layouts=layouts)
        assert [t.ops for t in done.taken] == [("relax.add",), ("relax.nn.relu",)]
    saved = done.plan.to_json()
    saved["regions"] = [{**saved["regions"][0], "ops": [0, 1]}]
    with pytest.raises(PlanRefused, match=r"\(0, 1\) of main does not match toy"):
        replay(mod, DispatchPlan.from_json(saved), [TOY])


def _increase(x: Any) -> Any:
    x.copyfrom(x.numpy() + 100)
    return x


def test_a_module_may_be_dispatched_twice() -> None:
    mod = nets.net(chain, SHAPE)
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    want = run(mod, [x])
    sums = replace(TOY, patterns=tuple(p for p in PATTERNS if p.name == "relu"))
    rest = replace(TOY, name="rest")
    once = dispatch(mod, [sums])
    for backend in (sums, rest, TOY):
        twice = dispatch(once.module, [backend])
        assert {t.symbol for t in twice.taken}.isdisjoint(t.symbol for t in once.taken)
        np.testing.assert_allclose(run(twice.module, [x])[0], want[0], rtol=1e-5)


@pytest.mark.parametrize(("backends", "options", "error", "reason"), [
    ("toy", {}, TypeError, "expected a sequence of backends or names, got 'toy'"),
    ([3], {}, TypeError, "expected a Backend or a name, got 3"),
    ([TOY, replace(TOY, patterns=())], {}, ValueError, "two different backends are named toy"),
    ([TOY], {"priority": [3]}, TypeError, "priority: expected a mapping"),
    ([TOY], {"priority": {"toy": "high"}}, TypeError, r"priority\['toy'\]: expected a number"),
    ([TOY], {"force": {"add": None}}, TypeError, r"force\['add'\]: expected BACKEND"),
    ([TOY], {"desired": {"conv2d": ["NHWC"]}}, ValueError, "desired requires layouts='best'"),
])  # fmt: skip
def test_bad_arguments_say_what_is_wrong(
    backends: Any, options: Any, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        dispatch(nets.net(chain, SHAPE), backends, **options)
    with pytest.raises(ValueError, match="'tvm' is reserved for TVM's own code"):
        replace(TOY, name="tvm")


@pytest.mark.parametrize("fault", [
    {"convert": lambda regions: None}, {"available": lambda: 1 / 0}, {"available": lambda: False},
])  # fmt: skip
def test_a_faulty_backend_is_left_out(fault: Any) -> None:
    with pytest.warns(UserWarning, match=r"toy( is not available|.*: its converter failed): "):
        done = dispatch(nets.net(chain, SHAPE), [replace(TOY, **fault)])
    assert not done.taken and done.failed
