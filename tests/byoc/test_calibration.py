"""Calibrated costs: a pure function of samples, which decides between backends, TVM included."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from typer.testing import CliRunner

import opinfo
from opinfo.byoc import Measure, Measured, dispatch
from opinfo.byoc.backend.backend import Backend
from opinfo.byoc.backend.match import Match
from opinfo.byoc.backend.region import Call, Region, Tensor, region
from opinfo.byoc.calibration import calibrations
from opinfo.byoc.calibration.calibrated_costing import expected, tvm_cost
from opinfo.byoc.calibration.calibration import (
    CalibratedMachine,
    Calibration,
    CalibrationRefused,
    Sample,
)
from opinfo.byoc.calibration.calibrations import InForce, nearest, shipped
from opinfo.byoc.calibration.cost_model import CostModel
from opinfo.byoc.calibration.prune_matches import FACTOR, Pruning
from opinfo.byoc.calibration.workload import Workload, workload
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.measure import costs
from opinfo.byoc.patterns.pattern import Pattern, many, one
from opinfo.cli import app
from opinfo.front.fastest import fastest
from opinfo.layout.graph.relax_graph import Op
from opinfo.verify.trial_runs import TrialRun

from ..layout import nets
from ..layout.nets import const
from ..run import run
from .toy import convert, static

MACHINE = CalibratedMachine("a CPU", "avx2", 1, {"tvm": "0"})
#: Sizes of a matrix product: batch, rows, columns, depth.
SMALL, LARGE = (1, 8, 8, 8), (1, 512, 512, 512)


def table(**times: Any) -> Calibration:
    """A calibration; each keyword is a backend with (kind, sizes, work, moved, microseconds)."""
    samples = [
        Sample(name, Workload(kind, sizes, work, moved), time)
        for name, rows in times.items()
        for kind, sizes, work, moved, time in rows
    ]
    return Calibration(MACHINE, tuple(samples))  # fmt: skip


def streams(rate: float, call: float = 1.0) -> list[Any]:
    """Elementwise samples at ``rate`` bytes in a microsecond."""
    return [("elementwise", (n,), n, 8 * n, call + 8 * n / rate) for n in (64, 1 << 14, 1 << 20)]


def call(op: str, *shapes: tuple[int, ...], out: tuple[int, ...], **attrs: Any) -> Call:
    operands = tuple(Tensor("input", k, s, "float32") for k, s in enumerate(shapes))
    return Call(op, attrs, operands, Tensor("call", 0, out, "float32"))


def alone(*calls: Call) -> Region:
    inputs = tuple(o for c in calls for o in c.operands if isinstance(o, Tensor))
    return Region("r", calls, inputs, (), (calls[-1].result,))


def test_a_workload_is_what_the_speed_depends_on() -> None:
    attrs = {"data_layout": "NHWC", "kernel_layout": "OHWI", "out_layout": "NHWC",
             "strides": [2, 2]}  # fmt: skip
    conv = call("relax.nn.conv2d", (1, 56, 28, 64), (128, 5, 1, 64), out=(1, 28, 14, 128),
                groups=1, **attrs)  # fmt: skip
    load = workload(conv)
    assert load.kind == "conv2d last dense window"
    assert load.sizes == (28, 14, 64, 128, 1, 5, 4)
    assert load.work == 28 * 14 * 128 * 64 * 5
    assert load.moved == 4 * (56 * 28 * 64 + 128 * 5 * 64 + 28 * 14 * 128)
    first = {**attrs, "data_layout": "NCHW", "out_layout": "NCHW", "kernel_layout": "OIHW"}
    deep = call("relax.nn.conv2d", (1, 64, 9, 9), (64, 1, 1, 1), out=(1, 64, 5, 5), groups=64,
                **first)  # fmt: skip
    assert workload(deep).kind == "conv2d first depthwise pointwise"
    assert workload(deep).work == 64 * 25


@pytest.mark.parametrize(("axis", "kind", "sizes"), [
    (-1, "softmax inner", (6, 4)), (1, "softmax outer", (8, 3)), (2, "softmax inner", (6, 4)),
])  # fmt: skip
def test_the_axis_of_a_softmax_is_part_of_its_kind(
    axis: int, kind: str, sizes: tuple[int, ...]
) -> None:
    load = workload(call("relax.nn.softmax", (2, 3, 4), out=(2, 3, 4), axis=axis))
    assert (load.kind, load.sizes, load.work) == (kind, sizes, 24)


def test_products_with_one_matrix_of_weights_are_one_product() -> None:
    many_rows = workload(call("relax.matmul", (2, 5, 8), (8, 3), out=(2, 5, 3)))
    assert (many_rows.kind, many_rows.sizes) == ("matmul weights", (1, 10, 3, 8))
    batched = workload(call("relax.matmul", (2, 5, 8), (2, 8, 3), out=(2, 5, 3)))
    assert (batched.kind, batched.sizes, batched.work) == ("matmul batched", (2, 5, 3, 8), 240)


def test_a_cost_is_that_of_a_sample_and_scales_between_and_beyond() -> None:
    slow, fast = 8**3 / 1e2, 512**3 / 1e5
    model = CostModel(table(lib=[("matmul weights", SMALL, 8**3, 1, 1 + slow),
                                 ("matmul weights", LARGE, 512**3, 1, 1 + fast),
                                 ("copy", (1,), 1, 1 << 20, 100.0)]))  # fmt: skip

    def cost(n: int) -> float:
        load = call("relax.matmul", (n, n), (n, n), out=(n, n))
        estimate = model.cost("lib", alone(load))
        assert estimate is not None and estimate.source == "calibrated"
        return estimate.microseconds

    assert cost(512) == pytest.approx(1 + fast, rel=0.02)
    assert cost(8) == pytest.approx(1 + slow, rel=0.02)
    rates = [n**3 / cost(n) for n in (8, 32, 64, 128, 512)]
    assert rates == sorted(rates)
    assert 6 < cost(1024) / cost(512) < 10


def test_a_kind_without_samples_is_estimated_from_its_family() -> None:
    model = CostModel(table(lib=[("softmax inner", (64, 64), 4096, 32768, 41.0), *streams(1e4)]))
    known = model.cost("lib", alone(call("relax.nn.softmax", (64, 64), out=(64, 64), axis=1)))
    other = model.cost("lib", alone(call("relax.nn.softmax", (64, 64), out=(64, 64), axis=0)))
    assert known is not None and other is not None
    assert known.source == "calibrated" and other.source == "estimated"
    assert other.microseconds == pytest.approx(known.microseconds)
    assert model.cost("another", alone(call("relax.exp", (4,), out=(4,)))) is None


def test_reference_code_is_a_kind_of_its_own() -> None:
    model = CostModel(table(lib=[("softmax outer", (64, 64), 4096, 32768, 5.0), *streams(1e4)]))
    softmax = alone(call("relax.nn.softmax", (64, 64), out=(64, 64), axis=0))
    plain, reference = (model.cost("lib", softmax, kernel=k) for k in ("jit:avx2", "ref:any"))
    assert plain is not None and reference is not None
    assert plain.microseconds == pytest.approx(5.0, rel=0.01) and plain.source == "calibrated"
    assert reference.microseconds > 2 * plain.microseconds and reference.source == "estimated"


def test_a_convolution_by_winograd_is_a_kind_of_its_own() -> None:
    kind, sizes, work = "conv2d last dense window", (56, 56, 64, 64, 1, 9, 1), 9 * (56 * 64) ** 2
    moved = 4 * (2 * 56 * 56 * 64 + 9 * 64 * 64)
    direct = (kind, sizes, work, moved, 1000.0)
    faster = (f"winograd {kind}", sizes, work, moved, 400.0)
    image = (1, 56, 56, 64)
    conv = alone(
        call(
            "relax.nn.conv2d",
            image,
            (64, 3, 3, 64),
            out=image,
            data_layout="NHWC",
            kernel_layout="OHWI",
            out_layout="NHWC",
            groups=1,
            strides=[1, 1],
        )
    )

    def cost(*samples: Any, kernel: str) -> Any:
        model = CostModel(table(lib=[*samples, *streams(1e5)]))
        estimate = model.cost("lib", conv, kernel=kernel)
        assert estimate is not None
        return pytest.approx(estimate.microseconds, rel=0.01), estimate.source

    assert cost(direct, kernel="brgconv:avx2") == (1000, "calibrated")
    assert cost(direct, kernel="winograd:brg:avx2") == (500, "estimated")
    assert cost(direct, faster, kernel="winograd:brg:avx2") == (400, "calibrated")
    assert cost(direct, faster, kernel="brgconv:avx2") == (1000, "calibrated")


def test_fusion_saves_the_traffic_between_operators() -> None:
    n = 1 << 20
    model = CostModel(table(tvm=streams(1e4)))
    first = Call("relax.nn.relu", {}, (Tensor("input", 0, (n,), "float32"),),
                 Tensor("call", 0, (n,), "float32"))  # fmt: skip
    second = Call("relax.abs", {}, (first.result,), Tensor("call", 1, (n,), "float32"))
    one_call, two = (model.cost("tvm", alone(*calls)) for calls in ((first,), (first, second)))
    apart = model.cost("tvm", alone(first, second), coarse=True)
    assert one_call is not None and two is not None and apart is not None
    assert two.microseconds == pytest.approx(one_call.microseconds, rel=0.02)
    assert apart.microseconds == pytest.approx(2 * one_call.microseconds, rel=0.02)


def test_views_cost_nothing_and_conversions_their_bytes() -> None:
    model = CostModel(table(tvm=[("transpose", (1 << 20, 64), 1 << 20, 8 << 20, 2001.0),
                                 *streams(1e4)]))  # fmt: skip
    view = model.cost("tvm", alone(call("relax.reshape", (4, 4), out=(16,))))
    assert view is not None and view.microseconds == pytest.approx(1.0, rel=0.06)
    assert model.conversion(8 << 20) == pytest.approx(2001.0, rel=0.02)
    assert model.conversion(16 << 20) == pytest.approx(4000.0, rel=0.05)


#: Fields of a sample with values that would make a choice worthless, or raise later.
BAD = (
    ("microseconds", float("nan"), ": expected a finite number, got nan"),
    ("microseconds", float("inf"), ": expected a finite number, got inf"),
    ("microseconds", 0, ": expected a positive number"),
    ("microseconds", 1e300, ": expected 0.001 to 1e+09"),
    ("microseconds", 1e-300, ": expected 0.001 to 1e+09"),
    ("microseconds", 10**400, ": expected 0.001 to 1e+09"),
    ("microseconds", "5", ": expected a number"),
    ("microseconds", True, ": expected a number"),
    ("work", 10**400, ": expected at most"),
    ("moved", -1, ": expected at"),
    ("sizes", [2**70], "[0]: expected at most"),
    ("sizes", [1, 2], ": expected 1 sizes for"),
    ("kind", "elementvise", ": expected a kind of"),
    ("kind", None, ": expected a string"),
    ("backend", ["tvm"], ": expected a string"),
)


def test_a_file_is_read_back_and_anything_else_is_refused(tmp_path: Path) -> None:
    path, calibration = tmp_path / "c.json", table(lib=streams(1e3), tvm=streams(2e3))
    calibration.save(path)
    assert Calibration.load(path) == calibration
    good: dict[str, Any] = json.loads(path.read_text())
    changes: list[tuple[dict[str, Any], str]] = [
        ({"format": 2}, "expected a calibration of format 1, got format 2"),
        ({"machine": {**good["machine"], "threads": 0}}, "machine.threads: expected at least 1"),
        ({"samples": [{**good["samples"][0], "microseconds": -1.0}]},
         "samples[0].microseconds: expected a positive number"),
        ({"samples": [{**good["samples"][0], "sizes": [0]}]},
         "samples[0].sizes[0]: expected at least 1"),
        ({"samples": {}}, "samples: expected a list"),
        ({"samples": []}, "samples: expected samples of 'tvm', got none"),
        ({"samples": [{**good["samples"][0], "backend": "lib"}]}, "expected samples of 'tvm'"),
        ({"machine": {**good["machine"], "cpu": 7}}, "machine.cpu: expected a string, got 7"),
        *(({"samples": [{**good["samples"][0], field: value}]}, f"samples[0].{field}{text}")
          for field, value, text in BAD),
    ]  # fmt: skip
    for change, text in changes:
        path.write_text(json.dumps({**good, **change}))
        with pytest.raises(CalibrationRefused) as raised:
            Calibration.load(path)
        assert text in str(raised.value) and str(raised.value).startswith(f"{path}: ")
    twice = json.dumps(good).replace('"work":', '"microseconds": 0.5, "work":', 1)
    for text, expected_text in (("[", "this is not JSON"), ("[" * 100_000, "nested too deeply"),
                                (twice, 'the field "microseconds" occurs twice')):  # fmt: skip
        path.write_text(text)
        with pytest.raises(CalibrationRefused, match=expected_text):
            Calibration.load(path)
    with path.open("wb") as hole:
        hole.truncate(100 << 20)
    with pytest.raises(OSError, match="it has 104857600 bytes, expected at most"):
        Calibration.load(path)


def test_a_fast_time_for_much_work_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    table(tvm=[("elementwise", (1 << 40,), 1 << 40, 8 << 40, 1.0)]).save(path)
    with pytest.raises(CalibrationRefused, match=r"samples\[0\].microseconds: expected 0.001 to"):
        Calibration.load(path)


@pytest.mark.parametrize("path", sorted(calibrations.SHIPPED.glob("*.json")), ids=lambda p: p.stem)
def test_what_opinfo_ships_is_plausible(path: Path) -> None:
    assert len(Calibration.load(path).samples) > 100


def test_a_stored_calibration_is_of_this_machine_and_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    machine = calibrations.this_machine()
    own = Calibration(machine, table(tvm=streams(1e3)).samples)
    path = calibrations.store(own)
    assert path.parent.stat().st_mode & 0o077 == 0
    assert calibrations.in_force() == calibrations.InForce(own, True)
    table(tvm=streams(1e3)).save(path)  # of another machine
    os.utime(path, ns=(1, 1))
    with pytest.warns(UserWarning, match="machine: expected"):
        assert calibrations.in_force().own is False
    own.save(path)
    path.parent.chmod(0o777)
    os.utime(path, ns=(2, 2))
    with pytest.warns(UserWarning, match="other users can write"):
        assert calibrations.in_force().own is False


def test_a_named_calibration_says_if_it_is_of_another_machine() -> None:
    other = calibrations.named(table(tvm=streams(1e3)))
    assert "on another machine, a CPU (avx2)" in str(other) and "opinfo calibrate" in str(other)
    here = Calibration(calibrations.this_machine(), other.calibration.samples)
    assert "another machine" not in str(calibrations.named(here))


# The choice.
BLUE = Backend("blue", (Pattern("relu", one("relax.nn.relu", static)),
                        Pattern("exp", one("relax.exp", static))), convert)  # fmt: skip
RED = replace(BLUE, name="red")
#: A chain, as `TOY` has, but with any elementwise operators.
CHAIN = Backend("chain", (Pattern("chain", one("relax.nn.relu", static),
                                  many("relax.exp", static)),), convert)  # fmt: skip


def _two(emit: Any, rng: Any, x: Any) -> Any:
    return emit(relax.op.exp(emit(relax.op.nn.relu(x))))


def _taken(mod: Any, backends: list[Backend], calibration: Calibration, **more: Any) -> Any:
    done = dispatch(mod, backends, more.pop("priority", {"tvm": 3}), calibration=calibration,
                    **more)  # fmt: skip
    return done, [(t.backend, t.ops) for t in done.taken]


def _slow_exp(call_: float, rate: float, exp: float) -> list[Any]:
    n = 1 << 16
    return [*streams(rate, call_), ("transcendental", (n,), n, 8 * n, exp)]


def test_the_least_cost_wins_across_backends_and_tvm() -> None:
    mod = nets.net(_two, (256, 256))
    tvm, fast, slow = _slow_exp(1, 1e4, 900), _slow_exp(1, 1e4, 90), _slow_exp(1, 1e2, 9000)
    relu, exp = ("relax.nn.relu",), ("relax.exp",)
    done, taken = _taken(mod, [BLUE, RED], table(tvm=tvm, blue=fast, red=slow))
    assert taken == [("blue", exp)] or taken == [("blue", relu), ("blue", exp)]
    _, taken = _taken(mod, [BLUE, RED], table(tvm=tvm, blue=slow, red=fast))
    assert ("red", exp) in taken and not any(b == "blue" for b, _ in taken)
    _, taken = _taken(mod, [BLUE, RED], table(tvm=fast, blue=slow, red=slow))
    assert taken == []
    x = np.random.default_rng(0).standard_normal((256, 256)).astype("float32")
    for a, b in zip(run(mod, [x]), run(done.module, [x]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_tvm_is_costed_with_what_it_fuses() -> None:
    """relu then exp: alone the library's relu is faster, but TVM does both in one pass."""
    mod = nets.net(_two, (256, 256))
    tvm, library = _slow_exp(1, 1e4, 53), _slow_exp(1, 2e4, 500)
    model = CostModel(table(tvm=tvm, blue=library))
    lowered = read(mod, "test")
    relu, exp = lowered.ops
    apart = [tvm_cost((op,), lowered.infos, model).microseconds for op in (relu, exp)]
    both = tvm_cost((relu, exp), lowered.infos, model).microseconds
    theirs = expected(BLUE, region("", (relu,), lowered.infos).region, model).microseconds
    assert theirs < apart[0] and both < theirs + apart[1]
    _, taken = _taken(mod, [BLUE], table(tvm=tvm, blue=library))
    assert taken == []


def test_classes_that_the_user_names_go_first() -> None:
    mod = nets.net(_two, (256, 256))
    tvm, slow = _slow_exp(1, 1e4, 90), _slow_exp(1, 1e2, 9000)
    calibration = table(tvm=tvm, blue=slow, red=slow)
    _, taken = _taken(mod, [BLUE], calibration, priority=None)
    assert [b for b, _ in taken] == ["blue", "blue"]
    _, taken = _taken(mod, [BLUE, RED], calibration, priority={"red": 5, "tvm": 3, "blue": 3})
    assert [b for b, _ in taken] == ["red", "red"]
    _, taken = _taken(mod, [BLUE], calibration, force={"exp": "blue"})
    assert taken == [("blue", ("relax.exp",))]


def test_a_backend_without_samples_costs_what_it_says() -> None:
    mod = nets.net(_two, (256, 256))
    calibration = table(tvm=_slow_exp(1, 1e4, 90))
    _, taken = _taken(mod, [replace(BLUE, cost=lambda r: 1.0)], calibration)
    assert [b for b, _ in taken] == ["blue", "blue"]
    _, taken = _taken(mod, [replace(BLUE, cost=lambda r: 1e6)], calibration)
    assert taken == []


def test_a_region_says_what_each_backend_was_expected_to_cost() -> None:
    mod = nets.net(_two, (256, 256))
    calibration = table(tvm=_slow_exp(1, 1e4, 900), blue=_slow_exp(1, 1e4, 90))
    done, _ = _taken(mod, [BLUE, replace(RED, cost=lambda r: 7e3)], calibration)
    (exp,) = [t for t in done.taken if t.ops == ("relax.exp",)]
    costs = dict(exp.costs)
    assert costs["blue"].microseconds == pytest.approx(90, rel=0.02)
    assert costs["tvm"].microseconds == pytest.approx(900, rel=0.02)
    assert costs["red"].microseconds == 7e3
    assert [costs[n].source for n in ("blue", "tvm", "red")] == [
        "calibrated", "calibrated", "estimated",
    ]  # fmt: skip


def test_reference_code_of_a_library_is_left_to_tvm() -> None:
    mod = nets.net(_two, (256, 256))
    calibration = table(tvm=_slow_exp(1, 1e4, 120), blue=_slow_exp(1, 1e4, 60))
    named = replace(BLUE, implementation=lambda r: "jit:avx2")
    reference = replace(BLUE, implementation=lambda r: "ref:any")
    assert ("blue", ("relax.exp",)) in _taken(mod, [named], calibration)[1]
    assert _taken(mod, [reference], calibration)[1] == []


def test_layouts_are_chosen_by_what_conversions_cost() -> None:
    """A convolution that is faster channels last is converted only where that costs less."""

    def conv(emit: Any, rng: Any, x: Any) -> Any:
        return emit(relax.op.nn.conv2d(x, const(rng, 16, 16, 3, 3), padding=1))

    def sizes(last: bool) -> tuple[str, tuple[int, ...]]:
        return f"conv2d {'last' if last else 'first'} dense window", (16, 16, 16, 16, 1, 9, 1)

    def calibration(transpose: float) -> Calibration:
        work, moved = 16**4 * 9, 40000
        convs = [(*sizes(last), work, moved, 50.0 if last else 90.0) for last in (True, False)]
        naive = [(*sizes(last), work, moved, 5000.0) for last in (True, False)]
        return table(onednn=[*convs, *streams(1e4)],
                     tvm=[*naive, *streams(1e4),
                          ("transpose", (4096, 16), 4096, 32768, transpose)])  # fmt: skip

    mod = nets.net(conv, (1, 16, 16, 16))
    for transpose, layout in ((2.0, "NHWC"), (200.0, "NCHW")):
        done = dispatch(mod, ["onednn"], {"tvm": 3}, layouts="best",
                        calibration=calibration(transpose))  # fmt: skip
        assert [t.ops for t in done.taken] == [("relax.nn.conv2d",)]
        assert done.report is not None
        assert done.report.after.number == (2 if layout == "NHWC" else 0)


def test_the_nearest_calibration_has_the_same_vectors() -> None:
    def of(vectors: str, threads: int = 1) -> Calibration:
        return Calibration(replace(MACHINE, vectors=vectors, threads=threads), ())

    wide, narrow, two = of("avx512"), of("avx2"), of("avx2", 2)
    for vectors, threads, best in (
        ("avx512", 1, wide), ("avx2", 1, narrow), ("avx2", 2, two), ("", 1, narrow),
        ("avx512", 2, wide),
    ):  # fmt: skip
        machine = replace(MACHINE, vectors=vectors, threads=threads)
        assert nearest((wide, narrow, two), machine) is best
    assert nearest((narrow,), replace(MACHINE, vectors="avx512")) is narrow


@pytest.mark.parametrize("vectors", ["avx512", "avx2"])
def test_a_calibration_is_shipped_for_each_kind_of_vectors(vectors: str) -> None:
    (calibration,) = [c for c in shipped() if c.machine.vectors == vectors]
    assert calibration.machine.threads == 1
    model = CostModel(calibration)
    for name in ("onednn", "blas", "onnxruntime", "tvm"):
        kinds = {s.workload.family for s in calibration.samples if s.backend == name}
        assert model.knows(name) and "matmul" in kinds
    softmax = alone(call("relax.nn.softmax", (1, 80, 1600), out=(1, 80, 1600), axis=1))
    for name in ("onednn", "onnxruntime", "tvm"):
        estimate = model.cost(name, softmax)
        assert estimate is not None and estimate.source == "calibrated"
        assert estimate.microseconds > 0


# Pruning: what is measured at all.
def _op(name: str) -> Op:
    return Op(name, None, None, (), ())


A, B, C = map(_op, "abc")


def _match(backend: str, ops: tuple[Op, ...], cost: float) -> Match:
    return Match(backend, "p", ops, cost)


def test_candidates_that_cannot_be_the_best_are_not_measured() -> None:
    pruning = Pruning(CostModel(table(**dict.fromkeys(("blue", "red", "green"), streams(1e3)))))
    near, far = _match("blue", (A,), 2 * FACTOR), _match("red", (A,), 7 * FACTOR)
    best = _match("green", (A,), 2.5)
    assert pruning.worthwhile([near, far, best], {A: 100.0}) == [near, best]
    assert pruning.by_tvm([near, far, best], {A: 100.0, B: 5.0}) == {B}
    assert pruning.by_tvm([near], {A: 2 * FACTOR, B: 5.0}) == {A, B}
    kept = Pruning(pruning.model, keep=lambda m: m.backend == "red")
    assert kept.worthwhile([near, far, best], {A: 100.0}) == [near, far, best]
    unknown = [_match("new", (A,), cost) for cost in (0.1, 900.0)]
    assert pruning.worthwhile([best, *unknown], {A: 100.0}) == [best, *unknown]
    assert pruning.by_tvm(unknown, {A: 100.0}) == {A}


def test_a_part_of_a_chain_is_measured_only_if_another_wants_the_rest() -> None:
    pruning = Pruning(CostModel(table(blue=streams(1e3))))
    part, whole = _match("blue", (A, B), 10.0), _match("blue", (A, B, C), 11.0)
    tvm = dict.fromkeys((A, B, C), 5.0)
    assert pruning.worthwhile([part, whole], tvm) == [whole]
    rival = _match("blue", (_op("d"), C), 4.0)
    tvm[rival.ops[0]] = 5.0
    assert pruning.worthwhile([part, whole, rival], tvm) == [part, whole, rival]
    dear = _match("blue", (A, B, C), 16.0)
    assert pruning.worthwhile([part, dear], tvm) == [part, dear]


def test_only_what_is_worthwhile_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def made_up(candidates: Any, how: Measure) -> Any:
        asked.extend(c.name for c in candidates)
        return {c.key: Measured(70.0) for c in candidates}, set()

    monkeypatch.setattr(costs, "results", made_up)
    mod = nets.net(_two, (256, 256))
    tvm, fast, slow = _slow_exp(1, 1e4, 900), _slow_exp(1, 1e4, 90), _slow_exp(1, 1e2, 9000)
    calibration = table(tvm=tvm, blue=fast, red=slow)
    done, taken = _taken(mod, [BLUE, RED], calibration, measure=Measure())
    assert sorted(asked) == ["blue: relu", "blue: tir_exp", "tvm: relu"]
    assert ("blue", ("relax.exp",)) in taken
    (exp,) = [t for t in done.taken if t.ops == ("relax.exp",)]
    assert exp.microseconds == 70.0
    assert {n: c.source for n, c in exp.costs} == {"blue": "measured", "tvm": "calibrated"}
    asked.clear()
    _taken(mod, [BLUE, RED], calibration, measure=Measure(), priority={"red": 4, "tvm": 3})
    assert "red: tir_exp" in asked


def _crashing(*_: Any) -> None:
    raise RuntimeError("it crashes")


ONES, TWOS = (np.ones((4, 4), "float32"),), (np.full((4, 4), 2.0, "float32"),)


@pytest.mark.parametrize(("runs", "kept"), [
    ([TrialRun((2.0, 2.1, 9.0), ONES), TrialRun((4.0, 4.2, 9.0), ONES)], "measured"),
    ([TrialRun((4.3, 4.4, 4.0), ONES), TrialRun((9.0, 3.9, 4.1), ONES)], "expected"),
    ([TrialRun((4.0,), ONES), TrialRun((), ())], "measured"),
    ([TrialRun((), ()), TrialRun((4.0,), ONES)], "expected"),
])  # fmt: skip
def test_the_fastest_build_is_kept(runs: Any, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.front.fastest.trial_runs", lambda *_: runs)
    mod = nets.net(_two, (4, 4))
    plain, tuned = opinfo.compile(mod, []), opinfo.compile(mod, [BLUE])
    builds = {"by measured costs": tuned, "by expected costs": plain}
    best = fastest(builds, mod, {"of red alone": TrialRun((5.0,), ONES)})
    assert best.library == (tuned if kept == "measured" else plain).library
    assert f"kept the choice by {kept} costs: " in best.report()
    same = fastest({"by measured costs": tuned, "by expected costs": replace(tuned)}, mod)
    assert same.kept == ""


def test_builds_that_cannot_be_run_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = nets.net(_two, (4, 4))
    plain, tuned = opinfo.compile(mod, []), opinfo.compile(mod, [BLUE])
    monkeypatch.setattr("opinfo.front.fastest.trial_runs", _crashing)
    untimed = fastest({"by measured costs": tuned, "by expected costs": plain}, mod)
    assert untimed.library == tuned.library
    assert "kept the choice by measured costs, untimed: it crashes" in untimed.report()


@pytest.mark.parametrize(("wrong", "warning"), [
    ("measured", "the build by measured costs is left out, as its outputs differ from all others"),
    ("expected", "the build by expected costs is left out, as its outputs differ from all others"),
    ("both", "the outputs of all builds differ"),
])  # fmt: skip
def test_a_build_with_other_outputs_is_left_out(
    wrong: str, warning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = {"measured": (TWOS, ONES), "expected": (ONES, TWOS), "both": (TWOS, (-TWOS[0],))}
    first, second = outputs[wrong]
    runs = [TrialRun((1.0,), first), TrialRun((2.0,), second)]
    monkeypatch.setattr("opinfo.front.fastest.trial_runs", lambda *_: runs)
    mod = nets.net(_two, (4, 4))
    plain, tuned = opinfo.compile(mod, []), opinfo.compile(mod, [BLUE])
    builds = {"by measured costs": tuned, "by expected costs": plain}
    with pytest.warns(UserWarning, match=warning):
        best = fastest(builds, mod, {"of red alone": TrialRun((5.0,), ONES)})
    assert best.library == (plain if wrong == "measured" else tuned).library


def _rounded(emit: Any, rng: Any, x: Any) -> Any:
    return emit(relax.op.exp(emit(relax.op.round(x))))


@pytest.mark.parametrize("rounds", [True, False])
def test_builds_may_differ_by_steps_where_values_are_rounded(
    rounds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = (np.float32(1.01) * ONES[0],)
    runs = [TrialRun((1.0,), near), TrialRun((2.0,), ONES)]
    monkeypatch.setattr("opinfo.front.fastest.trial_runs", lambda *_: runs)
    mod = nets.net(_rounded if rounds else _two, (4, 4))
    plain, tuned = opinfo.compile(mod, []), opinfo.compile(mod, [BLUE])
    builds = {"by measured costs": tuned, "by expected costs": plain}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        best = fastest(builds, mod, {"of red alone": TrialRun((5.0,), ONES)})
    assert best.library == (tuned if rounds else plain).library
    assert any("is left out" in str(w.message) for w in told) == (not rounds)


def test_times_of_a_whole_model_correct_expected_costs() -> None:
    (calibration,) = [c for c in shipped() if c.machine.vectors == "avx512"]
    corrected = InForce(calibration, None).corrected({"blas": 2.0})
    for before, after in zip(calibration.samples, corrected.calibration.samples, strict=True):
        factor = 2.0 if before.backend == "blas" else 1.0
        assert after.microseconds == factor * before.microseconds
    assert "corrected by the times of this model: blas 2.00x" in str(corrected)


def test_the_command_line_measures_and_reads_calibrations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    made = table(tvm=_slow_exp(1, 1e4, 900), onednn=_slow_exp(1, 1e4, 90))
    module = "opinfo.byoc.calibration.measuring.calibrate"
    monkeypatch.setattr(f"{module}.calibrate", lambda how: made)
    file, model = tmp_path / "costs.json", tmp_path / "model.json"
    got = CliRunner().invoke(app, ["calibrate", "-o", str(file)])
    assert got.exit_code == 0 and got.output.startswith("8 samples of 2 backends in ")
    assert Calibration.load(file) == made
    model.write_text(tvm.ir.save_json(nets.net(_two, (256, 256), legal=False)))
    got = CliRunner().invoke(app, ["dispatch", str(model), "--calibration", str(file), "--json"])
    assert got.exit_code == 0
    (taken,) = json.loads(got.stdout)["taken"]
    assert taken["backend"] == "onednn" and "relax.exp" in taken["ops"]
    assert taken["costs"]["onednn"]["source"] == "calibrated"
    file.write_text("{}")
    capfd.readouterr()
    got = CliRunner().invoke(app, ["dispatch", str(model), "--calibration", str(file)])
    assert got.exit_code == 2
    text = f"opinfo: {file}: expected a calibration of format 1, got format None\n"
    assert capfd.readouterr().err == text
