"""Regions as ONNX models that OpenVINO reads when the library is loaded; or the file of a model."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ...backend.backend import Code
from ...backend.onnx_file import OnnxModel
from ...backend.region import Region, Tensor
from ...patterns.clamped_values import COMPARISONS
from ..onnx_models.runtime_source import models_code, runtime_code
from .locate import available, include, library


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    headers, shared = _installed()
    return runtime_code(regions, _runtime(), shared, [f"-I{headers}"], clamped=_decisive)


def convert_file(model: OnnxModel) -> Code:
    """The C++ of a file."""
    headers, shared = _installed()
    return models_code([model], _runtime(), shared, [f"-I{headers}"])


def _decisive(region: Region) -> frozenset[int]:
    """The inputs of int64 that a region compares or casts to bool; only they may be wide."""
    calls = [c for c in region.calls if c.op in COMPARISONS or c.op == "relax.astype"]
    operands = [t for c in calls for t in c.operands if isinstance(t, Tensor)]
    return frozenset(t.index for t in operands if t.source == "input" and t.dtype == "int64")


def _runtime() -> str:
    return (files(__package__) / "requests.hpp").read_text(encoding="utf-8")


def _installed() -> tuple[Path, Path]:
    """The folder of headers, and the library."""
    headers, shared = include(), library()
    if headers is None or shared is None:
        raise RuntimeError(available() or "OpenVINO is not installed")
    return headers, shared
