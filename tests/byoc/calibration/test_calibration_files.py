"""Calibrations as files: what is read back, shipped, nearest to a machine, and refused."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tvm
from typer.testing import CliRunner

from opinfo.byoc.calibration import calibrations
from opinfo.byoc.calibration.calibration import (
    Calibration,
    CalibrationRefused,
)
from opinfo.byoc.calibration.calibrations import nearest, shipped
from opinfo.byoc.calibration.cost_model import CostModel
from opinfo.cli import app

from ...layout import nets
from .calibrated import MACHINE, alone, call, slow_exp, streams, table, two

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
    assert calibrations.in_force() == calibrations.ActiveCalibration(own, True)
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


def test_times_of_more_threads_are_estimated_but_for_the_call() -> None:
    """Of two threads, one works alone for 7 % of the time of one: 0.07 + 0.93 / 2 of it remain."""
    calibration = table(tvm=streams(1e3), onednn=streams(2e3))
    assert calibration.for_threads(MACHINE.threads) is calibration
    two = calibration.for_threads(2)
    assert two.machine == replace(calibration.machine, threads=2)
    for backend in ("tvm", "onednn"):
        before, after = ([s.microseconds for s in c.samples if s.backend == backend]
                         for c in (calibration, two))  # fmt: skip
        call = min(before)
        assert call < max(before)
        assert after == pytest.approx([call + (t - call) * 0.535 for t in before])


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


def test_the_command_line_measures_and_reads_calibrations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    made = table(tvm=slow_exp(1, 1e4, 900), onednn=slow_exp(1, 1e4, 90))
    module = "opinfo.byoc.calibration.measuring.calibrate"
    monkeypatch.setattr(f"{module}.calibrate", lambda how: made)
    file, model = tmp_path / "costs.json", tmp_path / "model.json"
    got = CliRunner().invoke(app, ["calibrate", "-o", str(file)])
    assert got.exit_code == 0 and got.output.startswith("8 samples of 2 backends in ")
    assert Calibration.load(file) == made
    model.write_text(tvm.ir.save_json(nets.net(two, (256, 256), legal=False)))
    got = CliRunner().invoke(app, ["dispatch", str(model), "--calibration", str(file), "--json"])
    assert got.exit_code == 0
    (region,) = json.loads(got.stdout)["taken"]
    assert region["backend"] == "onednn" and "relax.exp" in region["ops"]
    assert region["costs"]["onednn"]["source"] == "calibrated"
    file.write_text("{}")
    capfd.readouterr()
    got = CliRunner().invoke(app, ["dispatch", str(model), "--calibration", str(file)])
    assert got.exit_code == 2
    text = f"opinfo: {file}: expected a calibration of format 1, got format None\n"
    assert capfd.readouterr().err == text
