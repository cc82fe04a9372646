"""Regions as ONNX models that OpenVINO reads when the library is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from ...backend.backend import Code
from ...backend.region import Region
from ..onnx_models.runtime_source import runtime_code
from .locate import available, include, library


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    headers, shared = include(), library()
    if headers is None or shared is None:
        raise RuntimeError(available() or "OpenVINO is not installed")
    runtime = (files(__package__) / "requests.hpp").read_text(encoding="utf-8")
    return runtime_code(regions, runtime, shared, [f"-I{headers}"])
