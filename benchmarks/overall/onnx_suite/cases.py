"""Load, compile and call the model of a test case, and compare its outputs."""

from __future__ import annotations

import contextlib
import io
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .outcomes import (
    CONSTANT,
    LATE,
    OTHER,
    REFUSED,
    RIGHT,
    UNCALLED,
    UNCOMPILED,
    WRONG,
    Outcome,
)  # fmt: skip

#: Least relative tolerances of dtypes with few bits: twice the distance of neighbouring numbers.
COARSE = {"float16": 2**-9, "bfloat16": 2**-6}
#: The same of other floats, which reassociation costs.
FINE, NEAR_ZERO = 1e-3, 1e-5


def collected() -> list[Any]:
    """Return the cases of ONNX's operator tests that have models, by name."""
    from onnx.backend.test.case.node import collect_testcases

    with contextlib.redirect_stdout(io.StringIO()):
        cases = collect_testcases(None)
    return sorted((case for case in cases if case.model), key=lambda case: case.name)


def outcome(case: Any, seconds: int) -> Outcome:
    """Return what becomes of a case within a time."""
    inputs, outputs = case.data_sets[0]
    if any(not isinstance(x, np.ndarray) for x in [*inputs, *outputs]):
        return Outcome(case.name, OTHER)
    try:
        with _limit(seconds):
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


@contextlib.contextmanager
def _limit(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


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
        return Outcome(case.name, UNCOMPILED, f"{type(error).__name__}: {error}"[:300])
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
    bad = [text for a, b in pairs if (text := difference(a, b, case.rtol, case.atol))]
    return Outcome(case.name, WRONG, "; ".join(bad)) if bad else Outcome(case.name, RIGHT)


def difference(got: Any, expected: Any, rtol: float = FINE, atol: float = 0.0) -> str:
    """Return how an array differs from the expected one; empty if it does not."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    if got.dtype != expected.dtype:
        return f"dtype {got.dtype}, expected {expected.dtype}"
    name = str(expected.dtype)
    if "float" not in name and expected.dtype.kind != "c":
        count = int((got != expected).sum())
        return f"{count} of {expected.size} elements differ" if count else ""
    wide = "complex128" if expected.dtype.kind == "c" else "float64"
    a, b = got.astype(wide), expected.astype(wide)
    largest = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    coarse = COARSE.get(name, 0.0)
    near = np.isclose(a, b, rtol=max(rtol, FINE, coarse), equal_nan=True,
                      atol=max(atol, NEAR_ZERO, coarse * largest))  # fmt: skip
    if near.all():
        return ""
    place = tuple(np.argwhere(~near)[0].tolist())
    return f"{int((~near).sum())} of {b.size} elements, first {a[place]:g}, expected {b[place]:g}"
