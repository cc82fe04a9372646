"""Readers of model files by suffix.

>>> from opinfo.frontend.formats import LOADERS
>>> sorted(LOADERS)
['.json', '.onnx', '.pt2', '.py']
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import tvm

from ..checks.input_shapes import Shapes, bind_shapes

__all__ = ["LOADERS", "read_file"]


def _reader(module: str) -> Callable[[Path, Shapes], tvm.IRModule]:
    """Return the reader in a module, which is imported when it is called."""

    def load(path: Path, shapes: Shapes) -> tvm.IRModule:
        return import_module(f".{module}", __name__).load(path, shapes)

    return load


#: The module of each format, and its reader.
MODULES = {".onnx": "from_onnx", ".pt2": "from_torch", ".json": "from_json", ".py": "from_script"}
LOADERS = {suffix: _reader(module) for suffix, module in MODULES.items()}


def read_file(path: Path, shapes: Shapes) -> list[Any]:
    """Read a file and return its module as the parts of a message; runs in the reader process."""
    from ..checks.ir_json.large_constants import packed
    from ..checks.normalise_module import tidy

    return packed(bind_shapes(tidy(LOADERS[path.suffix.lower()](path, shapes)), shapes))
