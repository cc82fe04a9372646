"""Whether outputs are those of ONNX Runtime, or differ as rounding lets them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import noise
from .graphs.runtime import Array

#: Accepted differences by dtype, relative to the element and to the output's largest one.
WITHIN = {"float16": (4e-3, 4e-3), "float32": (1e-4, 1e-5), "float64": (1e-7, 1e-8)}
#: Accepted difference of quantised models, relative to the largest: see `verify.verification`.
STEPS = 2 / 127
#: How many times as far as the runs with noise a result may be.
FARTHER = 8.0


def verdict(
    model: Any, feeds: Mapping[str, Array], got: Sequence[Array], want: Mapping[str, Array]
) -> tuple[str, str]:
    """Return "right", "by rounding", "disputed" or "wrong", and what differs.

    Args:
        model: The `onnx.ModelProto`.
        feeds: Its inputs.
        got: The outputs that are judged, in the model's order.
        want: Those of ONNX Runtime, by name.
    """
    if len(got) != len(want):
        return "wrong", f"{len(got)} outputs, expected {len(want)}"
    named = dict(zip(want, got, strict=True))
    faults = {name: fault for name, out in named.items() if (fault := _fault(out, want[name]))}
    if not faults:
        return "right", ""
    text = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
    runs = _noisy(model, feeds)
    noisy = {name: [r[name] for r in runs] for name in faults}
    if runs and all(_explained(named[name], want[name], noisy[name]) for name in faults):
        return "by rounding", text
    reference = _reference(model, feeds)
    if reference and all(not _fault(named[n], reference[n]) for n in faults if n in reference):
        return "disputed", f"as the reference implementation, not as ONNX Runtime: {text}"
    if _quantizes(model) and all(_within_steps(named[name], want[name]) for name in faults):
        return "by rounding", f"by steps of quantised values: {text}"
    return "wrong", text


def _fault(got: Array, want: Array) -> str:
    """Return how an output differs; empty if it does not."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    bad = _different(got, want)
    if not bad.any():
        return ""
    at = tuple(int(k) for k in np.argwhere(bad)[0])
    return (f"{int(bad.sum())} of {bad.size} elements of {want.dtype}{list(want.shape)} differ, "
            f"at {list(at)} {got[at]!s}, expected {want[at]!s}")  # fmt: skip


def _different(got: Array, want: Array) -> Array:
    if want.dtype.kind != "f":
        return np.asarray(got != want)
    a, b = got.astype("float64"), want.astype("float64")
    with np.errstate(all="ignore"):
        relative, absolute = WITHIN[str(want.dtype)]
        finite = np.isfinite(b)
        largest = np.abs(b[finite]).max(initial=0.0)
        close = np.abs(a - b) <= relative * np.abs(b) + absolute * largest + 1e-30
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (finite & close)
    return np.asarray(~same)


def _noisy(model: Any, feeds: Mapping[str, Array]) -> list[dict[str, Array]]:
    try:
        return noise.samples(model, feeds)
    except Exception:  # such as a model whose shapes depend on rounded values
        return []


def _explained(got: Array, want: Array, runs: Sequence[Array]) -> bool:
    """Return whether each different element is about as far as runs with noise move it."""
    if any(r.shape != want.shape for r in runs):
        return bool(got.dtype == want.dtype)
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    bad = _different(got, want)
    a, b = got.astype("float64"), want.astype("float64")
    with np.errstate(all="ignore"):
        other = [r.astype("float64") for r in runs]
        spread = np.nanmax([np.abs(r - b) for r in other] + [np.zeros_like(b)], axis=0)
        near = np.abs(a - b) <= FARTHER * spread
        alike = np.any([~_different(got, r) for r in runs], axis=0)
    return bool((~bad | near | alike).all())


def _reference(model: Any, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of ONNX's reference implementation; empty if it does not run."""
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
            results = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception:  # it raises various types
        return {}
    names = [output.name for output in model.graph.output]
    return {n: np.asarray(r) for n, r in zip(names, results, strict=True)}


def _quantizes(model: Any) -> bool:
    return any("Quantize" in n.op_type or n.op_type.startswith("QLinear") for n in model.graph.node)


def _within_steps(got: Array, want: Array) -> bool:
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    a, b = got.astype("float64"), want.astype("float64")
    if not np.isfinite(b).all() or not np.isfinite(a).all():
        return False
    step = 1.0 if want.dtype.kind in "iu" else 0.0
    return bool((np.abs(a - b) <= max(STEPS * np.abs(b).max(initial=0.0), step)).all())
