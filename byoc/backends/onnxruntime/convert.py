"""Regions as ONNX models, each with its own session."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from ...backend.backend import Code
from ...backend.region import Region
from ..onnx_models.runtime_source import runtime_code
from .locate import available, library


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    shared = library()
    if shared is None:
        raise RuntimeError(available() or "ONNX Runtime is not installed")
    runtime = (files(__package__) / "session.hpp").read_text(encoding="utf-8")
    return runtime_code(regions, runtime, shared, integers=True)
