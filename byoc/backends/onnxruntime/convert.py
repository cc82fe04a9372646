"""Regions as ONNX models, each with its own session; or the file of a model."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ...backend.backend import Code
from ...backend.onnx_file import OnnxModel
from ...backend.region import Region
from ..onnx_models.runtime_source import models_code, runtime_code
from .locate import available, library


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    return runtime_code(regions, _runtime(), _library(), integers=True)


def convert_file(model: OnnxModel) -> Code:
    """The C++ of a file."""
    return models_code([model], _runtime(), _library())


def _runtime() -> str:
    return (files(__package__) / "session.hpp").read_text(encoding="utf-8")


def _library() -> Path:
    shared = library()
    if shared is None:
        raise RuntimeError(available() or "ONNX Runtime is not installed")
    return shared
