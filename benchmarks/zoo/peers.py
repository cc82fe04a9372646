"""The other runtimes at their best settings, as calls on the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common.resources import Call

from .models.subject import Arrays, Subject


def peers(subject: Subject, threads: int) -> dict[str, Callable[[], Call]]:
    """Return what builds the call of each runtime that can run a model.

    A torch module goes to ONNX Runtime and OpenVINO through `torch.onnx.export`.
    """
    inputs = subject.inputs[0]
    path = subject.path

    def onnx_path() -> Path:
        return path if path.suffix == ".onnx" else _exported(subject)

    out: dict[str, Callable[[], Call]] = {
        "onnx_runtime": lambda: onnx_runtime(onnx_path(), inputs, threads),
        "openvino": lambda: openvino(onnx_path(), inputs, threads),
    }
    if subject.module is not None:
        out["torch_compile"] = lambda: torch_compile(subject.module, inputs, threads)
    return out


def onnx_runtime(path: Path, inputs: Arrays, threads: int, *, exact: bool = False) -> Call:
    """Return a call of a session with all optimisations, which are its default.

    On CPUs without VNNI its products of uint8 with int8 saturate pairs of sums at int16; `exact`
    asks for kernels that do not, which are slower.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    if exact:
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    used = {key: inputs[key] for key in (i.name for i in session.get_inputs())}
    return lambda: session.run(None, used)


def openvino(path: Path, inputs: Arrays, threads: int) -> Call:
    """Return a call of a model with static shapes, optimised for latency, in float32."""
    import openvino as ov

    model = ov.Core().read_model(path)
    model.reshape({key: list(value.shape) for key, value in inputs.items()})
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads,
                "INFERENCE_PRECISION_HINT": "f32"}  # fmt: skip
    request = ov.Core().compile_model(model, "CPU", settings).create_infer_request()
    for key, value in inputs.items():
        request.set_tensor(key, ov.Tensor(value, shared_memory=True))
    return lambda: request.infer()


def torch_compile(module: Any, inputs: Arrays, threads: int) -> Call:
    """Return a call of the module compiled by inductor with static shapes."""
    import torch

    torch.set_num_threads(threads)
    tensors = {key: torch.from_numpy(value) for key, value in inputs.items()}
    compiled = torch.compile(module, dynamic=False)

    def call() -> Any:
        with torch.no_grad():
            return compiled(**tensors)

    call()
    return call


def _exported(subject: Subject) -> Path:
    """Write a torch module as ONNX beside its own file."""
    import torch

    path = subject.path.with_name("peer.onnx")
    tensors = {key: torch.from_numpy(value) for key, value in subject.inputs[0].items()}
    with torch.no_grad():
        torch.onnx.export(subject.module, (), path, kwargs=tensors, input_names=list(tensors),
                          dynamo=False, opset_version=18)  # fmt: skip
    return path
