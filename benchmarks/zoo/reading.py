"""Worker: read a model as shipped, compile it for its symbolic shapes, compare its outputs."""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.resources import use_threads

from .peers import onnx_runtime
from .subject import Arrays, Subject, one_line, subject

#: Standard deviation of what weights are multiplied by: a few roundings of float32.
MOVED = 3e-7


@dataclass(frozen=True)
class Reading:
    """What became of a model as shipped.

    Attributes:
        name: The model.
        refusal: Why it was not read or compiled; empty if it was.
        symbols: The number of symbolic dimensions.
        differences: The largest difference to the reference for each set of inputs, relative to
            an output's largest value; infinite if a call failed.
        spread: The same difference between ONNX Runtime with the model's weights and with weights
            that are moved by `MOVED`. It is large where rounding decides: between quantised
            values, or the order of near ties.
        failure: The first call that failed, with its error.
        seconds: CPU seconds of reading.
    """

    name: str
    refusal: str
    symbols: int
    differences: tuple[float, ...]
    spread: float
    failure: str
    seconds: float


def measure(name: str) -> Reading:
    """Read, compile and compare one model."""
    use_threads(1)
    import opinfo

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        model = subject(name, Path(folder))
        start = time.process_time()
        try:
            mod = opinfo.load(model.path)
        except Exception as error:
            return Reading(name, one_line(error), 0, (), 0.0, "", time.process_time() - start)
        seconds = time.process_time() - start
        try:
            compiled = opinfo.compile(mod)
        except Exception as error:
            refusal = f"compile: {one_line(error)}"
            return Reading(name, refusal, _symbols(mod), (), 0.0, "", seconds)
        differences, failure = _differences(model, compiled)
        spread = _spread(model)
    return Reading(name, "", _symbols(mod), differences, spread, failure, seconds)


def _differences(model: Subject, compiled: Any) -> tuple[tuple[float, ...], str]:
    differences, failure = [], ""
    for inputs in model.inputs:
        expected = reference(model, inputs)
        try:
            got = flat(compiled.run(*inputs.values()))
        except Exception as error:
            failure = failure or one_line(error)
            differences.append(float("inf"))
            continue
        differences.append(difference(expected, got))
    return tuple(differences), failure


def _spread(model: Subject) -> float:
    """Return how far ONNX Runtime's outputs are from those with moved weights; 0 for torch."""
    if model.module is not None:
        return 0.0
    import onnx

    proto = onnx.load(model.path)
    random = np.random.default_rng(0)
    for tensor in proto.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and tensor.dims:  # exponents stay
            values = onnx.numpy_helper.to_array(tensor)
            moved = values * (1 + MOVED * random.standard_normal(values.shape))
            tensor.CopyFrom(onnx.numpy_helper.from_array(moved.astype("float32"), tensor.name))
    path = Path(tempfile.mkdtemp(dir=model.path.parent)) / "moved.onnx"
    try:
        onnx.save(proto, path)
        return max(difference(reference(model, inputs), onnx_runtime(path, inputs, 1)())
                   for inputs in model.inputs)  # fmt: skip
    except Exception:  # ONNX Runtime fails on a few models if they are written again
        return 0.0
    finally:
        shutil.rmtree(path.parent)


def reference(model: Subject, inputs: Arrays) -> list[Any]:
    """Return the outputs of the torch module or of ONNX Runtime."""
    if model.module is None:
        return list(onnx_runtime(model.path, inputs, 1)())
    import torch

    with torch.no_grad():
        result = model.module(**{key: torch.from_numpy(value) for key, value in inputs.items()})
    return flat(result)


def flat(result: Any) -> list[Any]:
    """Return all arrays of a result, in order; ``None`` is left out."""
    if result is None:
        return []
    if isinstance(result, dict):
        return [array for value in result.values() for array in flat(value)]
    if isinstance(result, Sequence):
        return [array for value in result for array in flat(value)]
    return [result.numpy() if hasattr(result, "numpy") else np.asarray(result)]


def difference(expected: Sequence[Any], got: Sequence[Any]) -> float:
    """Return the largest difference relative to the largest value of an output."""
    if len(expected) != len(got):
        return float("inf")
    return max((_difference(a, b) for a, b in zip(expected, got, strict=True)), default=0.0)


def _difference(expected: Any, got: Any) -> float:
    if expected.shape != got.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    a, b = expected.astype("float64"), got.astype("float64")
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    finite = np.abs(a[np.isfinite(a)])
    error = np.where(same, 0.0, np.abs(a - b))
    scale = max(float(finite.max(initial=0.0)), 1e-30)
    return float(np.nan_to_num(error, nan=np.inf, posinf=np.inf).max()) / scale


def _symbols(mod: Any) -> int:
    """Return the number of symbolic dimensions of `main`'s parameters."""
    import tvm

    dims = {
        str(dim)
        for parameter in mod["main"].params
        for dim in getattr(parameter.ty.shape, "values", ())
        if not isinstance(dim, (int, tvm.tirx.IntImm))
    }
    return len(dims)
