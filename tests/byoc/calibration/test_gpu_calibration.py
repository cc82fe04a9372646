"""Calibrations of GPUs: measured with fakes, kept, shared, and used to cost regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from opinfo.analysis.results.op_info import OpInfo
from opinfo.byoc.backend import catalog
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backend.region import Tensor
from opinfo.byoc.backends.nvidia.libraries.estimated_cost import RATES, conversion, cost
from opinfo.byoc.calibration import calibrations
from opinfo.byoc.calibration.calibration import Calibration, CalibrationRefused
from opinfo.byoc.calibration.calibrations import (
    ActiveCalibration,
    gpu_in_force,
    named,
    store,
    this_gpu,
)
from opinfo.byoc.calibration.device_rates import DeviceRates, rates_of
from opinfo.byoc.calibration.measuring import calibrate as measuring
from opinfo.byoc.calibration.measuring.gpu_grid import DTYPES, gpu_points
from opinfo.byoc.calibration.measuring.workload_grid import module
from opinfo.byoc.codegen.loading import cuda_device
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.measure import Measure, Measured
from opinfo.byoc.measure import measure as measures
from opinfo.byoc.prepare.prepare import prepare
from opinfo.cli import app
from opinfo.front.backend_choice import choose_backends

from ..nvidia.test_nvidia import on_stub
from .calibrated import alone, call, table

TARGET = {"kind": "cuda", "arch": "sm_90", "max_threads_per_block": 1024,
          "thread_warp_size": 32, "max_shared_memory_per_block": 49152}  # fmt: skip
BIG = 1 << 28
#: 3 us to launch, 1000 bytes in a microsecond; 200 multiplications of float32, 800 of halves.
ROWS = [
    ("elementwise", (64,), 64, 512, 3.0),
    ("elementwise", (1 << 20,), 1 << 20, 1 << 23, (1 << 23) / 5000),  # in a cache
    ("elementwise float16", (BIG // 4,), BIG // 4, BIG, BIG / 1000),
    ("transpose", (BIG // 8, 512), BIG // 8, BIG, BIG / 500),
]
PRODUCTS = [
    ("matmul weights", (1, 64, 64, 64), 64**3, 49152, 64**3 / 200),
    ("matmul weights", (1, 8, 8, 8), 512, 768, 3.1),
    ("matmul weights float16", (1, 64, 64, 64), 64**3, 24576, 64**3 / 800),
]


def on(calibration: Calibration, cpu: str = "a GPU", vectors: str = "sm_90") -> Calibration:
    return replace(calibration, machine=replace(calibration.machine, cpu=cpu, vectors=vectors))


GPU = on(table(tvm=ROWS, cublaslt=PRODUCTS))


def test_rates_are_the_best_of_the_samples() -> None:
    rates = rates_of(GPU)
    assert rates.launch == 3.0
    assert rates.bandwidth == pytest.approx(1000)
    assert rates.products == pytest.approx({"float32": 200, "float16": 800})


def test_calibrations_that_do_not_fit_a_gpu_are_refused() -> None:
    with pytest.raises(CalibrationRefused, match=r"of a CPU, a CPU.*calibrate --target cuda"):
        rates_of(table(tvm=ROWS))
    with pytest.raises(CalibrationRefused, match="no stream of 256 MiB"):
        rates_of(on(table(tvm=ROWS[:2])))
    with pytest.raises(CalibrationRefused, match=r"of a GPU, a GPU .*expected one of a CPU"):
        named(GPU)


def test_a_region_costs_its_bytes_or_its_multiplications() -> None:
    rates = DeviceRates(3.0, 1000.0, {"float32": 200.0, "float16": 800.0})
    product = call("relax.matmul", (64, 64), (64, 64), out=(64, 64))
    assert cost(alone(product), rates) == pytest.approx(3 + 64**3 / 200)
    thin = call("relax.matmul", (1, 64), (64, 64), out=(1, 64))
    assert cost(alone(thin), rates) == pytest.approx(3 + 64 * 64 / 200)
    faster = replace(rates, products={"float32": 2000.0})
    assert cost(alone(thin), faster) == pytest.approx(3 + 4 * (64 + 64 * 64 + 64) / 1000)
    halves = tuple(replace(o, dtype="float16") for o in product.operands
                   if isinstance(o, Tensor))  # fmt: skip
    region = alone(replace(product, operands=halves))  # as float32, from halves
    assert cost(region, rates) == pytest.approx(3 + 64**3 / 800)
    assert conversion(5000, rates) == pytest.approx(3 + 5)
    assert cost(alone(product), replace(rates, products={})) == pytest.approx(
        3 + 4 * 3 * 4096 / 1e3
    )


def test_halves_with_channels_first_cost_two_transposes() -> None:
    attrs = {"kernel_layout": "OIHW", "out_layout": "", "groups": 1, "strides": [1, 1]}
    shapes = ((1, 8, 4, 4), (8, 8, 1, 1))
    conv = call("relax.nn.conv2d", *shapes, out=(1, 8, 4, 4), data_layout="NCHW", **attrs)
    halves = tuple(replace(o, dtype="float16") for o in conv.operands if isinstance(o, Tensor))
    region = alone(replace(conv, operands=halves))
    moved = 2 * (128 + 64) + 4 * 128
    rates = DeviceRates(3.0, 1000.0)
    assert cost(alone(conv), rates) == pytest.approx(3 + 4 * (128 + 64 + 128) / 1000)
    assert cost(region, rates) == pytest.approx(3 * (3 + moved / 1000))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A GPU is visible; a cache of its own."""
    device = SimpleNamespace(device_name="a GPU", compute_version="9.0", exist=True)
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    for place in (calibrations, measures):
        monkeypatch.setattr(place, "cuda_device", lambda: device)
    monkeypatch.setattr(calibrations, "no_gpu", lambda: None)
    monkeypatch.setattr(measures, "needed_gpu", lambda what: device)


@pytest.mark.usefixtures("gpu")
def test_the_calibration_of_this_gpu_is_kept_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog._REGISTRY, "cublaslt",
                        replace(find("cublaslt"), available=lambda: None))  # fmt: skip
    product = alone(call("relax.matmul", (64, 64), (64, 64), out=(64, 64)))
    before = choose_backends(["cublaslt", "tvm"], None, None, TARGET)
    assert (list(before.backends), before.costs) == (["cublaslt", "tvm"], None)
    store(replace(GPU, machine=this_gpu()))
    choice = choose_backends(["cublaslt", "tvm"], None, None, TARGET)
    (backend,) = choice.backends
    assert not isinstance(backend, str) and backend.cost and backend.conversion
    assert backend.cost(product) == pytest.approx(3 + 64**3 / 200) != cost(product)
    assert backend.conversion(5000) == pytest.approx(8)
    assert choice.calibration is None  # samples do not cost regions of a GPU
    assert str(choice.costs) == "costs as calibrated on this machine, a GPU (sm_90)"
    assert cost(product) == pytest.approx(RATES.launch + 4 * 3 * 4096 / RATES.bandwidth)


@pytest.mark.usefixtures("gpu")
def test_a_calibration_is_shared_as_a_file(tmp_path: Path) -> None:
    GPU.save(tmp_path / "gpu.json")
    shared = Calibration.load(tmp_path / "gpu.json")
    assert gpu_in_force(shared) == ActiveCalibration(GPU, None)
    other = gpu_in_force(on(GPU, "another GPU"))
    assert str(other).endswith("run `opinfo calibrate --target cuda`")
    with pytest.raises(CalibrationRefused, match="of a CPU"):
        gpu_in_force(table(tvm=ROWS))


@pytest.mark.usefixtures("gpu")
def test_a_gpu_is_calibrated_by_what_it_launches_moves_and_multiplies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backends = {n: replace(on_stub(n), name=n) for n in ("cudnn", "cublaslt")}
    for name, backend in backends.items():
        monkeypatch.setitem(catalog._REGISTRY, name, backend)

    def results(candidates: Sequence[Any], how: Measure) -> tuple[dict[Any, Measured], set[Any]]:
        """3 us, and a microsecond for 1000 bytes, or a million ends of multiplications."""
        out = {}
        for c in candidates:
            bytes_ = sum(prod(b.shape) * DTYPES[b.dtype] for b in (*c.subject.buffers,
                                                                   *c.subject.results))  # fmt: skip
            out[c.key] = Measured(3.0 + bytes_ / 1000 if c.key.backend == "tvm" else 3.0 + 1e6)
        return out, set()

    monkeypatch.setattr(measuring, "results", results)
    few = [p for p in gpu_points() if p.dtype == "float16"]
    made = measuring.calibrate(measuring.measuring(1, str(target())), few)
    assert (made.machine.cpu, made.machine.vectors) == ("a GPU", "sm_90")
    assert {s.backend for s in made.samples} == {"tvm", "cublaslt", "cudnn"}
    rates = rates_of(made)
    assert rates.launch == pytest.approx(3, abs=10)  # the least stream has bytes, too
    assert rates.bandwidth == pytest.approx(1000, rel=1e-3)
    assert rates.products == pytest.approx({"float16": 8192 * 4096 * 4096 / 1e6}, rel=1e-3)


def target() -> Any:
    import tvm

    return tvm.target.Target(TARGET)


@pytest.mark.usefixtures("gpu")
def test_a_gpu_is_measured_within_a_limit_and_what_says_most_first() -> None:
    how = measuring.measuring(1, str(target()))
    assert (how.seconds, how.checked) == (measuring.SECONDS, False)
    assert measuring.measuring(1, "llvm").seconds is None
    first = gpu_points()[: 3 * len(DTYPES)]
    assert [p.dtype for p in first] == [*DTYPES] * 3
    assert {p.shapes for p in first if p.dtype == "float16"} == {
        ((1 << 20, 64),), ((8192, 4096),), ((32, 56, 56, 64),)
    }  # fmt: skip


def test_each_point_is_an_operator_that_is_recovered() -> None:
    points = [p for p in gpu_points() if p.dtype == "float16"]
    assert {p.dtype for p in gpu_points()} == set(DTYPES)
    lowered = read(prepare(module(points), [on_stub("cudnn"), on_stub("cublaslt")]), "calibrate")
    for graph in lowered.functions.values():
        assert [isinstance(lowered.infos[op].info, OpInfo) for op in graph.ops] == [True]


def test_without_a_gpu_the_command_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cuda_device, "no_gpu", lambda: "no driver")
    result = CliRunner().invoke(app, ["calibrate", "--target", "nvidia/nvidia-h100"])
    assert result.exit_code == 2
    line = "opinfo: nothing can be measured here (name the RPC tracker of a GPU): no driver\n"
    assert capfd.readouterr().err == line
