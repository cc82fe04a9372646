"""Which backends are chosen by default, whose costs decide, and what is raced."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import opinfo
from opinfo.byoc import CalibratedMachine, Calibration, Sample, Workload
from opinfo.byoc.calibration import calibrations
from opinfo.byoc.calibration.calibrations import CALIBRATED, in_force, store, this_machine
from opinfo.front.backend_choice import choose_backends

from .test_front import expected, model


@pytest.mark.parametrize("fastest", ["onednn", "blas", "tvm"])
def test_by_default_the_least_expected_cost_decides(fastest: str, tmp_path: Path) -> None:
    machine = CalibratedMachine("a CPU", "avx2", 1, {})
    product, other = Workload("matmul weights", (1, 4, 16, 8), 512, 896), (64, 1024, 1 << 20)
    samples = [Sample(n, product, 5.0 if n == fastest else 500.0) for n in (*CALIBRATED, "tvm")]
    samples += [Sample(s.backend, Workload("elementwise", (n,), n, 8 * n), 1 + n / 1e3)
                for s in tuple(samples) for n in other]  # fmt: skip
    calibration = Calibration(machine, tuple(samples))
    compiled = opinfo.compile(model(4), calibration=calibration, race=False)
    x = np.random.default_rng(1).standard_normal((4, 8)).astype("float32")
    np.testing.assert_allclose(compiled.run(x), expected(x), rtol=1e-5, atol=1e-5)
    assert {t.backend for t in compiled.dispatched.taken} == {fastest} - {"tvm"}  # type: ignore[union-attr]
    assert "costs as calibrated on another machine, a CPU (avx2)" in compiled.report()
    done = opinfo.dispatch(model(4), calibration=calibration)
    assert {t.backend for t in done.taken} == {fastest} - {"tvm"}


def test_a_backend_without_samples_is_not_chosen_by_default() -> None:
    product, stream = Workload("matmul weights", (1, 4, 16, 8), 512, 896), (64, 1 << 20)
    samples = [Sample("onednn", product, 5.0), Sample("tvm", product, 500.0)]
    samples += [Sample(name, Workload("elementwise", (n,), n, 8 * n), 1 + n / 1e3)
                for name in ("onednn", "tvm") for n in stream]  # fmt: skip
    calibration = Calibration(CalibratedMachine("a CPU", "avx2", 1, {}), tuple(samples))
    choice = choose_backends(None, None, calibration)
    assert list(choice.backends) == ["onednn", "weight_only", "experts"]  # these come first
    assert choice.priority == {"tvm": 3, "weight_only": 4, "experts": 4}
    assert "without blas, onnxruntime" in str(choice.costs)
    named = choose_backends(["blas"], None, calibration)
    assert (list(named.backends), named.priority) == (["blas"], None)


def test_on_a_gpu_its_libraries_are_the_default() -> None:
    """A model takes several times as long without them, so dispatch says why one is missing."""
    target = {"kind": "cuda", "arch": "sm_90"}
    choice = choose_backends(None, None, None, target)
    assert list(choice.backends) == ["cudnn", "cublaslt"]
    assert (choice.priority, choice.costs) == (None, None)
    assert list(choose_backends([], None, None, target).backends) == []


def test_the_report_says_whose_calibration_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cache of calibrations only: objects of g++, which take it ten seconds, are in the other.
    monkeypatch.setattr(calibrations, "user_cache", lambda name: tmp_path / name)
    report = opinfo.compile(model(4)).report()
    assert "costs as calibrated on another machine, " in report and "opinfo calibrate" in report
    shipped = in_force().calibration
    path = store(replace(shipped, machine=this_machine()))
    assert path.parent == tmp_path / "calibration"
    assert "costs as calibrated on this machine, " in opinfo.compile(model(4)).report()
    path.write_text("{}")
    with pytest.warns(UserWarning, match="the stored calibration is ignored: .*format 1"):
        assert not in_force().own


@pytest.mark.parametrize("race", [True, False])
def test_default_builds_are_raced(race: bool) -> None:
    compiled = opinfo.compile(model(4), race=race)
    assert ("of onnxruntime alone" in compiled.kept) == race
    assert compiled.verify(model(4)).same


@pytest.mark.parametrize("more", [
    {"backends": ["onnxruntime"]}, {"priority": {"tvm": 3}}, {"force": {"relax.matmul": "blas"}},
])  # fmt: skip
def test_what_the_user_chose_is_not_raced(more: dict[str, Any]) -> None:
    assert opinfo.compile(model(4), **more).kept == ""


@pytest.mark.parametrize("race", [True, False])
def test_symbolic_models_are_raced_at_several_sizes(race: bool) -> None:
    compiled = opinfo.compile(model(tvm.tirx.Var("n", "int64")), race=race)
    assert (" with n=1 and n=64 (n is x:0); " in compiled.kept) == race
    assert ("of onnxruntime alone" in compiled.kept) == race
    for n in (1, 3, 64):
        x = np.random.default_rng(n).standard_normal((n, 8)).astype("float32")
        np.testing.assert_allclose(compiled.run(x), expected(x), rtol=1e-5, atol=1e-5)


def test_a_backend_that_is_not_available_is_in_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.byoc.backends.onnxruntime.locate.library", lambda: None)
    with pytest.warns(UserWarning, match="onnxruntime is not available"):
        compiled = opinfo.compile(model(4), ["onnxruntime"])
    assert "onnxruntime is not available: libonnxruntime is not installed" in str(compiled)


def test_defaults_of_library_that_are_not_installed_do_not_warn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opinfo.jit.compile.library_calls.unusable", lambda b: "not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        done = opinfo.compile(model(tvm.tirx.Var("n", "int64")), shapes="library").dispatched
    assert done is not None and not done.failed and not done.taken
