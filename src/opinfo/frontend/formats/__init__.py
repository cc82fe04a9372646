"""Readers of model files by suffix.

>>> from opinfo.frontend.formats import LOADERS
>>> sorted(LOADERS)
['.json', '.onnx', '.pt2', '.py']
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm

from ..checks.input_shapes import Shapes, bind_shapes
from ..checks.large_constants import packed
from ..checks.tidy import tidy
from . import from_json, from_onnx, from_script, from_torch
from .static_onnx import static_file

__all__ = ["LOADERS", "read_file", "static_file"]

LOADERS: dict[str, Callable[[Path, Shapes], tvm.IRModule]] = {
    ".onnx": from_onnx.load,
    ".pt2": from_torch.load,
    ".json": from_json.load,
    ".py": from_script.load,
}


def read_file(path: Path, shapes: Shapes) -> list[Any]:
    """Read a file and return its module as the parts of a message; runs in the reader process."""
    return packed(bind_shapes(tidy(LOADERS[path.suffix.lower()](path, shapes)), shapes))
