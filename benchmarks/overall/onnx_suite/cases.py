"""Load, compile and call the model of a test case, and compare its outputs."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..operator_suites.array_differences import FINE, difference, limit
from ..operator_suites.outcomes import (
    CONSTANT,
    CRASHED,
    LATE,
    OTHER,
    REFUSED,
    RIGHT,
    UNCALLED,
    UNCOMPILED,
    WRONG,
    Outcome,
)  # fmt: skip

#: Limit on the time of a case, in seconds.
SECONDS = 120
MEANINGS: Mapping[str, str] = {
    RIGHT: "outputs as expected",
    CONSTANT: "outputs as expected once all inputs but the first are constants",
    REFUSED: "`opinfo.load` names the node, or `opinfo.compile` the value, and the reason",
    UNCALLED: "the call raises",
    UNCOMPILED: "`opinfo.compile` raises",
    WRONG: "an output differs",
    CRASHED: "the process died",
    LATE: "no outcome in time",
    OTHER: "an input or output is a sequence or an optional: not run",
}


def collected() -> list[tuple[str, Any]]:
    """Return the names and cases of ONNX's operator tests that have models, by name."""
    from onnx.backend.test.case.node import collect_testcases

    with contextlib.redirect_stdout(io.StringIO()):
        cases = collect_testcases(None)
    return sorted(((case.name, case) for case in cases if case.model), key=lambda case: case[0])


def outcome(case: Any, seconds: int = SECONDS) -> Outcome:
    """Return what becomes of a case within a time."""
    inputs, outputs = ([as_array(x) for x in values] for values in case.data_sets[0])
    if any(not isinstance(x, np.ndarray) for x in [*inputs, *outputs]):
        return Outcome(case.name, OTHER)
    try:
        with limit(seconds):
            first = _attempt(case, case.model, inputs, outputs)
            constant = with_constants(case.model, inputs) if first.verdict == REFUSED else None
            if constant is None:
                return first
            second = _attempt(case, constant, inputs[:1], outputs)
    except TimeoutError:
        return Outcome(case.name, LATE)
    if second.verdict == RIGHT:
        return Outcome(case.name, CONSTANT, first.reason)
    return second


def as_array(value: Any) -> Any:
    """Return a number or an `onnx.TensorProto` as an array, and other values unchanged."""
    from onnx import TensorProto, numpy_helper

    if isinstance(value, np.generic):
        return np.asarray(value)
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def with_constants(model: Any, inputs: Sequence[Any]) -> Any:
    """Return the model with all inputs but the first as constants; None if it has one input."""
    import onnx
    from onnx import numpy_helper

    if len(inputs) < 2 or len(model.graph.input) != len(inputs):
        return None
    result = onnx.ModelProto()
    result.CopyFrom(model)
    rest = list(model.graph.input)[1:]
    for entry, array in zip(rest, inputs[1:], strict=True):
        result.graph.initializer.append(numpy_helper.from_array(array, entry.name))
    del result.graph.input[1:]
    return result


def _attempt(case: Any, model: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> Outcome:
    import onnx

    import opinfo

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        try:
            mod = opinfo.load(path)
        except opinfo.FrontendError as error:
            return Outcome(case.name, REFUSED, str(error).removeprefix(f"{path}: ")[:300])
    try:
        compiled = opinfo.compile(mod, [])
    except TimeoutError:
        raise
    except Exception as error:  # what is not caught by name is a result of the benchmark
        text = f"{type(error).__name__}: {error}"
        refused = isinstance(error, ValueError) and str(error).startswith("compile: ")
        return Outcome(case.name, REFUSED if refused else UNCOMPILED, text[:300])
    try:
        got = compiled.run(*inputs)
    except TimeoutError:
        raise
    except Exception as error:
        return Outcome(case.name, UNCALLED, f"{type(error).__name__}: {error}"[:300])
    results = list(got) if isinstance(got, (list, tuple)) else [got]
    results = [x.numpy() if hasattr(x, "numpy") else np.asarray(x) for x in results]
    if len(results) != len(outputs):
        return Outcome(case.name, WRONG, f"{len(results)} outputs, expected {len(outputs)}")
    pairs = zip(results, outputs, strict=True)
    bad = [text for a, b in pairs if (text := difference(a, b, max(case.rtol, FINE), case.atol))]
    return Outcome(case.name, WRONG, "; ".join(bad)) if bad else Outcome(case.name, RIGHT)
