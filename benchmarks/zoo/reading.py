"""Worker: read a model as shipped, compile it for its symbolic shapes, compare its outputs."""

from __future__ import annotations

import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.resources import use_threads

from . import reference_error, torch_reference
from .differences import TOLERANCE, difference, tolerance
from .models.subject import Arrays, Subject, one_line, subject
from .peers import onnx_runtime
from .torch_reference import flat


@dataclass(frozen=True)
class Reading:
    """What became of a model as shipped.

    Attributes:
        name: The model.
        refusal: Why it was not read or compiled; empty if it was.
        symbols: The number of symbolic dimensions.
        differences: The largest difference to the reference for each set of inputs, relative to
            an output's largest value; infinite if a call failed.
        spread: The same difference between the reference with the model's weights and with weights
            that are moved by a few roundings. It is large where rounding decides: between
            quantised values, the order of near ties, or in nets that magnify differences.
        failure: The first call that failed, with its error.
        seconds: CPU seconds of reading.
        second: The same difference between OpenVINO and ONNX Runtime; 0 for torch.
        to_second: The differences to OpenVINO, for each set of inputs; empty for torch.
        tolerance: Of outputs of these dtypes.
        unknown: Why `spread` or `second` is not known.
    """

    name: str
    refusal: str
    symbols: int
    differences: tuple[float, ...]
    spread: float
    failure: str
    seconds: float
    second: float = 0.0
    to_second: tuple[float, ...] = ()
    tolerance: float = TOLERANCE
    unknown: tuple[str, ...] = ()


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
        outputs, failure = _outputs(model, compiled)
        expected = [reference(model, inputs) for inputs in model.inputs]
        spread, others, unknown = 0.0, list[list[Any]](), []
        if model.module is not None:
            spread = torch_reference.spread(model.module, model.inputs)
        else:
            spread, no_spread = reference_error.spread(model)
            others, no_second = reference_error.second(model)
            unknown = [text for text in (no_spread, no_second) if text]
    return Reading(
        name, "", _symbols(mod), tuple(map(difference, expected, outputs)), spread, failure,
        seconds, second=max(map(difference, expected, others), default=0.0),
        to_second=tuple(map(difference, others, outputs)), tolerance=tolerance(expected[0]),
        unknown=tuple(unknown),
    )  # fmt: skip


def _outputs(model: Subject, compiled: Any) -> tuple[list[list[Any]], str]:
    """Return the outputs for each set of inputs, none where a call failed, and the first error."""
    outputs, failure = [], ""
    for inputs in model.inputs:
        try:
            outputs.append(flat(compiled.run(*inputs.values())))
        except Exception as error:
            failure = failure or one_line(error)
            outputs.append([])
    return outputs, failure


def reference(model: Subject, inputs: Arrays) -> list[Any]:
    """Return the outputs of the torch module or of ONNX Runtime."""
    if model.module is None:
        return list(onnx_runtime(model.path, inputs, 1, exact=True)())
    return torch_reference.outputs(model.module, inputs)


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
