"""Measured costs: what fails is excluded by itself, what is known is not measured again."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from typer.testing import CliRunner

from opinfo.byoc import Excluded, Measure, Measured, dispatch
from opinfo.byoc.backend.catalog import register
from opinfo.byoc.backend.match import Match
from opinfo.byoc.dispatching.choice.choose import choose
from opinfo.byoc.dispatching.dispatch import Dispatched
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.measure import run_candidates as running
from opinfo.byoc.measure.compare import difference, drawn
from opinfo.byoc.measure.subject import Buffer, subject
from opinfo.cli import app
from opinfo.layout.graph.relax_graph import Op

from ...common.run import run
from ...layout import nets
from ..backends.odd import ODD

SHAPE = (8, 32)
#: Long enough for what does not hang, on a machine that is busy.
TIMEOUT = 20.0


def all_sorts(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(relax.op.nn.relu(emit(relax.op.negative(x))))
    y = emit(relax.op.tanh(emit(relax.op.exp(y))))
    return emit(relax.op.sqrt(emit(relax.op.abs(y))))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, Dispatched]:
    """All sorts of candidates, measured by two local servers."""
    database = tmp_path_factory.mktemp("measure") / "times.jsonl"
    mod = nets.net(all_sorts, SHAPE)
    done = dispatch(mod, [ODD], measure=Measure(database, servers=2, timeout=TIMEOUT, repeat=3))
    return mod, database, done


def test_what_fails_is_excluded_and_the_rest_is_measured(measured: Any) -> None:
    _, _, done = measured
    assert not any(t.known for t in done.timings)
    found = {t.ops: t.result for t in done.timings if t.backend == "odd"}
    reasons = {ops[0]: r.reason for ops, r in found.items() if isinstance(r, Excluded)}
    assert {ops[0] for ops, r in found.items() if isinstance(r, Measured)} == {
        "relax.negative", "relax.abs",
    }  # fmt: skip
    assert reasons["relax.nn.relu"] == "it crashes: the server's session ended when it was called"
    assert reasons["relax.exp"] == f"it hangs: no result within {TIMEOUT:g} s when it was called"
    assert reasons["relax.tanh"].startswith("its result is wrong: ")
    assert reasons["relax.sqrt"].startswith("it does not build: CompilerError: error: ")
    by_tvm = {t.ops: t.result for t in done.timings if t.backend == "tvm"}
    assert len(by_tvm) > 6 and all(isinstance(r, Measured) for r in by_tvm.values())


def test_what_is_excluded_stays_with_tvm_and_says_why(measured: Any) -> None:
    mod, _, done = measured
    assert {op for t in done.taken for op in t.ops} <= {"relax.negative", "relax.abs"}
    whys = {left.op: left.why for left in done.left}
    assert whys["relax.nn.relu"].startswith("odd, pattern relu: it crashes: ")
    assert whys["relax.exp"].startswith("odd, pattern exp: it hangs: ")
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    for a, b in zip(run(mod, [x]), run(done.module, [x]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_second_run_measures_nothing(measured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mod, database, first = measured

    def refuse(*_: Any) -> None:
        raise AssertionError("something is measured")

    monkeypatch.setattr(running, "MeasureSession", refuse)
    seen: list[tuple[int, int, str]] = []
    again = dispatch(mod, [ODD], measure=Measure(database, progress=lambda *a: seen.append(a)))
    assert all(t.known for t in again.timings)
    assert [t.result for t in again.timings] == [t.result for t in first.timings]
    assert again.taken == first.taken
    assert seen == [(len(first.timings), len(first.timings), "")]
    other = replace(ODD, version=lambda: "2")
    with pytest.raises(AssertionError, match="something is measured"):
        dispatch(mod, [other], measure=Measure(database))
    with pytest.raises(AssertionError, match="something is measured"):
        dispatch(mod, [ODD], measure=Measure(database, threads=2))


def test_the_command_line_uses_the_database(
    measured: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mod, database, done = measured
    model, out = tmp_path / "model.json", tmp_path / "model.so"
    model.write_text(tvm.ir.save_json(mod))
    register(ODD)
    command = ["compile", str(model), "-o", str(out), "--backend", "odd,tvm", "--tune",
               "--database", str(database), "--verify", "--explain",
               "--target", "llvm"]  # fmt: skip
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert f"{len(done.timings)} candidates, 0 measured now, 4 excluded" in result.output
    assert (
        "odd for relax.exp of float32[8, 32], float32[8, 32]: excluded: it hangs" in result.output
    )
    assert out.exists()
    for option, text in (("--tracker", "host:9190"), ("--extent", "n=few")):
        result = CliRunner().invoke(app, [*command, option, text])
        assert result.exit_code == 2
        assert capfd.readouterr().err.startswith(f"opinfo: {option} {text}: expected ")


def test_priority_goes_before_what_was_measured(measured: Any) -> None:
    """In a class above TVM's all that runs is taken, however slow."""
    mod, database, _ = measured
    done = dispatch(mod, [ODD], {"odd": 3, "tvm": 1}, measure=Measure(database))
    assert sorted(t.ops for t in done.taken) == [("relax.abs",), ("relax.negative",)]


def test_drawn_values_may_repeat() -> None:
    few, many = (
        drawn([Buffer((8, 9), "float32")], distinct=10)[0],
        drawn([Buffer((8, 9), "float32")]),
    )
    assert len(np.unique(few)) == 10 and len(np.unique(many[0])) == 72
    assert few.shape == (8, 9) and str(few.dtype) == "float32"


def test_names_do_not_count() -> None:
    def both(emit: Any, rng: Any, x: Any, y: Any) -> Any:
        return emit(relax.Tuple([emit(relax.op.add(x, x)), emit(relax.op.add(y, y))]))

    other, same = read(nets.net(both, (2, 3), SHAPE), "test").ops
    (alone,) = read(nets.net(lambda e, r, y: e(relax.op.add(y, y)), SHAPE), "test").ops
    assert same.name != alone.name
    assert subject([same], {}).hash == subject([alone], {}).hash != subject([other], {}).hash


@pytest.mark.parametrize(
    ("dtype", "change", "same"),
    [("float32", 1e-5, True), ("float32", 0.05, False), ("float32", np.nan, False),
     ("float16", 5e-3, True), ("float16", 0.1, False), ("int32", 1, False),
     ("bool", True, False)],
)  # fmt: skip
def test_results_are_compared(dtype: str, change: Any, same: bool) -> None:
    a = np.arange(12).reshape(3, 4).astype(dtype)
    b = a.copy()
    b[0, 0] += change
    assert (difference([b], [a]) is None) == same
    assert difference([a], [a]) is None
    assert "int64[3, 4] instead of" in str(difference([a.astype("int64")], [a]))
    assert difference([], [a]) == "it has 0 results instead of 1"


def test_an_error_of_small_elements_shows_beside_large_ones() -> None:
    """One more than it should be, everywhere, beside a largest value of 3000."""
    a = np.exp(np.linspace(0, 8, 1000)).astype("float32")
    assert difference([a + 1], [a]) is not None


def test_a_configuration_that_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="timeout must be positive, got 0"):
        Measure(timeout=0)
    with pytest.raises(ValueError, match=r"extents\['n'\] must be positive numbers"):
        Measure(extents={"n": (0,)})


@pytest.mark.parametrize("seed", range(40))
def test_in_the_class_of_tvm_the_cheapest_is_chosen(seed: int) -> None:
    rng = random.Random(seed)
    ops = [Op(str(k), None, None, (), ()) for k in range(6)]
    matches = [
        Match(rng.choice(["a", "b", "tvm"]), "p", tuple(ops[i : i + rng.randint(1, 3)]),
              rng.randint(0, 20))
        for i in (rng.randrange(6) for _ in range(8))
    ]  # fmt: skip
    priority = {"a": rng.choice([2, 3]), "b": rng.choice([1, 2]), "tvm": 2}
    default = {op: float(rng.randint(0, 20)) for op in ops}

    def value(chosen: tuple[Match, ...]) -> tuple[float, ...] | None:
        covered = [op for m in chosen for op in m.ops]
        if len(covered) != len(set(covered)):
            return None
        first = -sum(len(m.ops) for m in chosen if priority[m.backend] > 2)
        left = sum(default[op] for op in ops if op not in covered)
        return (first, sum(m.cost for m in chosen) + left)

    subsets = (c for n in range(9) for c in itertools.combinations(matches, n))
    best = min(v for v in map(value, subsets) if v is not None)
    assert value(choose(matches, priority, default).matches) == pytest.approx(best)
