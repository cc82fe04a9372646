"""What differs for candidates on a GPU, and what a machine without one says."""

from __future__ import annotations

import multiprocessing
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from typer.testing import CliRunner

import opinfo
from opinfo.byoc import Measure, Tracker
from opinfo.byoc.backends.nvidia import tvm_schedules
from opinfo.byoc.backends.nvidia.tvm_schedules import GRAPHS
from opinfo.byoc.building.read_target import compile_target
from opinfo.byoc.codegen.loading import cuda_device
from opinfo.byoc.codegen.loading.cuda_device import NoGpu
from opinfo.byoc.codegen.loading.load_checked import LoadError, check_opens
from opinfo.byoc.measure import measure, measure_jobs, measure_session
from opinfo.byoc.measure.measure_jobs import Build, Compute, Serve
from opinfo.cli import app
from opinfo.cli.options.measure_options import MeasureOptions
from opinfo.front import fastest
from opinfo.front.compiled_model import _on
from opinfo.front.fastest import run_builds
from opinfo.verify import timing_process
from opinfo.verify.trial_runs import TrialRun

H100 = {"kind": "cuda", "arch": "sm_90", "max_threads_per_block": 1024, "thread_warp_size": 32,
        "max_shared_memory_per_block": 49152}  # fmt: skip
TARGET = str(tvm.target.Target(H100))
ABSENT = "nothing can be measured here (name the RPC tracker of a GPU): no driver"


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU is visible."""
    monkeypatch.setattr(cuda_device, "no_gpu", lambda: "no driver")
    monkeypatch.setattr("opinfo.byoc.building.read_target.no_gpu", lambda: "no driver")


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU is visible where candidates are measured."""
    device = SimpleNamespace(device_name="a GPU")
    monkeypatch.setattr(measure, "needed_gpu", lambda what: device)
    monkeypatch.setattr(measure, "cuda_device", lambda: device)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gpu") / "model.json"
    path.write_text(tvm.ir.save_json(relu()))
    return path


def relu() -> Any:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.relu(x))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.usefixtures("present")
def test_one_server_times_what_runs_on_the_gpu_and_keeps_it_under_its_name() -> None:
    how = Measure(target=TARGET)
    assert (how.on_gpu, how.number, how.machine.device) == (True, 1, "a GPU")
    assert Measure(target=TARGET, servers=3).number == 3
    assert measure_session._reference(how) == how.machine.target == TARGET


@pytest.mark.usefixtures("present")
def test_measuring_on_a_gpu_has_a_limit_unless_another_is_chosen() -> None:
    options = MeasureOptions(tune=True)
    assert options.measure(TARGET, lambda *_: None).seconds == 180
    assert options.measure("llvm", lambda *_: None).seconds is None
    assert replace(options, seconds=9).measure(TARGET, lambda *_: None).seconds == 9
    with pytest.raises(ValueError, match="seconds must be positive, got 0"):
        Measure(seconds=0)


@pytest.mark.usefixtures("present")
@pytest.mark.parametrize(("cpus", "builders"), [(2, 1), (8, 4), (64, 8)])
def test_libraries_are_built_beside_the_one_that_is_timed(
    cpus: int, builders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "_cpus", lambda: cpus)
    assert Measure(target=TARGET).builders == builders
    assert Measure(target="llvm").builders == cpus


@pytest.mark.usefixtures("absent")
def test_without_a_gpu_nothing_is_measured_but_by_a_tracker() -> None:
    with pytest.raises(NoGpu) as raised:
        _ = Measure(target=TARGET).machine
    assert str(raised.value) == ABSENT
    fleet = Measure(target=TARGET, tracker=Tracker("host", 9190, "h100"))
    assert fleet.machine.device == "fleet h100"
    assert measure_session._reference(fleet) == str(tvm.target.Target("llvm"))
    assert not Measure(target="llvm").on_gpu
    Measure(target="llvm").check()


@pytest.mark.usefixtures("absent")
@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--target", "nvidia/nvidia-h100", "--tune"], ABSENT),
        (["--target", "cuda"], "target 'cuda': name the GPU's architecture, as -arch=sm_90 does, "
         "or the GPU, as nvidia/nvidia-h100 does: no driver"),
    ],
)  # fmt: skip
def test_the_command_line_says_what_is_missing(
    options: list[str], line: str, model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result = CliRunner().invoke(
        app, ["compile", str(model), "-o", str(tmp_path / "m.so"), *options]
    )
    assert result.exit_code == 2
    assert capfd.readouterr().err == f"opinfo: {line}\n"


@pytest.mark.usefixtures("absent")
def test_a_gpu_that_is_named_needs_not_be_there() -> None:
    assert compile_target("cuda -arch=sm_90").attrs["arch"] == "sm_90"
    assert compile_target("llvm").kind.name == "llvm"


def test_candidates_have_the_schedules_of_a_build_and_no_graphs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Any] = []

    def compiled(mod: Any, target: Any, fuse: Callable[[Any], Any]) -> Any:
        seen.append((target, tvm.transform.PassContext.current().config[GRAPHS]))
        return tvm.compile(fuse(mod), "llvm")

    monkeypatch.setattr(tvm_schedules, "compiled", compiled)
    library = str(tmp_path / "model.so")
    mod = relax.transform.LegalizeOps()(relu())
    assert Build(tvm.ir.save_json(mod), None, TARGET, library).run() is None
    assert [(t, bool(graphs)) for t, graphs in seen] == [(TARGET, False)]
    assert Build(tvm.ir.save_json(mod), None, "llvm", library).run() is None and len(seen) == 1


def test_cases_are_computed_on_the_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def device() -> Any:
        asked.append("gpu")
        return tvm.cpu()

    monkeypatch.setattr(measure_jobs, "cuda_device", device)
    library = str(tmp_path / "model.so")
    tvm.compile(relu(), "llvm").export_library(library)
    for on_gpu in (False, True):
        inputs = (np.full((4, 8), -1.0, "float32"),)
        assert Compute(library, "main", inputs, str(tmp_path / "case"), on_gpu).run() is None
    assert asked == ["gpu"]


def test_a_server_loads_the_runtime_before_its_sessions_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []
    monkeypatch.setattr(measure_jobs, "no_runtime", lambda: steps.append("runtime"))
    monkeypatch.setattr(multiprocessing, "set_start_method", lambda *_, **__: None)

    def serve(*_: Any, **__: Any) -> Any:
        steps.append("serve")
        return SimpleNamespace(thread=SimpleNamespace(join=lambda: None))

    monkeypatch.setattr(measure_jobs, "PopenRPCServerState", serve)
    Serve(("127.0.0.1", 1), "key").run()
    Serve(("127.0.0.1", 1), "key", on_gpu=True).run()
    assert steps == ["serve", "runtime", "serve"]


def test_a_clock_waits_until_the_gpu_is_idle() -> None:
    synced: list[int] = []
    gpu = SimpleNamespace(dlpack_device_type=lambda: 2, sync=lambda: synced.append(1))
    before = timing_process._clock(1, gpu)()
    assert timing_process._clock(1, gpu)() >= before and len(synced) == 2


def test_builds_for_a_gpu_are_raced_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str]] = []

    def runs(libraries: Any, inputs: Any, threads: int, process: Any, device: str) -> Any:
        asked.append((threads, device))
        return [TrialRun((1.0,), ()) for _ in libraries]

    monkeypatch.setattr(fastest, "trial_runs", runs)
    for target in (H100, "llvm"):
        build: Any = SimpleNamespace(target=tvm.target.Target(target), library=Path("m.so"))
        run_builds({"a": build}, relu())
    assert asked == [(1, "gpu"), (1, "cpu")]


@pytest.mark.usefixtures("absent")
def test_a_model_for_a_gpu_that_is_not_there_is_compiled_and_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def compiled(mod: Any, target: Any, fuse: Callable[[Any], Any], **_: Any) -> Any:
        return tvm.compile(fuse(mod), "llvm")

    monkeypatch.setattr(tvm_schedules, "compiled", compiled)
    monkeypatch.setattr("opinfo.byoc.compile.no_kernel_compiler", lambda: None)
    monkeypatch.setattr("opinfo.byoc.building.build_library.cuda_device",
                        lambda: SimpleNamespace(exist=False))  # fmt: skip
    model = opinfo.compile(relu(), target="cuda -arch=sm_90")
    assert model.library.exists()
    with pytest.raises(NoGpu, match=r"^run: no driver$"):
        model.run(np.zeros((4, 8), "float32"))
    with pytest.raises(NoGpu, match=r"^verify: no driver$"):
        model.verify(relu())


@pytest.mark.parametrize(("text", "missing"), [
    ("int f() { return 1; }", ""),
    ("int g(); int f() { return g(); }", "undefined symbol: _Z1gv"),
])  # fmt: skip
def test_a_library_that_cannot_run_here_has_all_symbols(
    text: str, missing: str, tmp_path: Path
) -> None:
    library = tmp_path / "some.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)], input=text,
                   text=True, check=True)  # fmt: skip
    if not missing:
        check_opens(str(library))
        return
    with pytest.raises(LoadError, match=missing):
        check_opens(str(library))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_arrays_of_halves_are_copied_to_the_gpu(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    copied = _on(tvm.cpu(), array.T)
    assert str(copied.dtype) == dtype and (copied.numpy() == array.T).all()
