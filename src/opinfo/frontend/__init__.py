"""Load model files of every supported format as Relax modules.

>>> from opinfo import frontend
>>> sorted(frontend.LOADERS)
['.json', '.onnx', '.pt2', '.py']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import tvm

from ..analysis.support.progress import stage
from .checks.error import FrontendError, one_line
from .checks.input_shapes import parse_shape
from .checks.json_graph import BadGraph
from .formats import LOADERS, from_json
from .process.apart import shared_reader

__all__ = ["LOADERS", "FrontendError", "load", "parse_shape"]


def load(path: str | Path, shapes: Mapping[str, Sequence[int | str]] | None = None) -> tvm.IRModule:
    """Read a model file into a Relax module, without legalising its operators.

    A child process with limits on time and memory reads the file and executes nothing in it.

    Args:
        path: The file. Its suffix determines the format: ``.onnx``; ``.pt2`` from
            `torch.export.save`; ``.json`` from `tvm.ir.save_json`; or ``.py`` with TVMScript, of
            which only declarative text is evaluated.
        shapes: Shapes of inputs by name; others keep the shape in the file. A string is a symbolic
            dimension, and equal strings are one dimension: ``{"x": ("n", 3, 224, 224)}``.

    Returns:
        The module.

    Raises:
        FrontendError: The file cannot be read, the package for its format is not installed, an
            operator is not supported, or a shape does not fit.
    """
    return read(path, shapes)


def read(
    path: str | Path,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    seconds: int | None = None,
) -> tvm.IRModule:
    """Load a model like `load`, with a limit in CPU `seconds` that replaces the default."""
    path, wanted = Path(path), {k: tuple(v) for k, v in (shapes or {}).items()}
    if path.suffix.lower() not in LOADERS:
        known = ", ".join(LOADERS)
        raise FrontendError(f"{path}: expected a suffix of {known}, got '{path.suffix}'")
    if not path.is_file():
        other = "not a regular file" if path.exists() else "no such file"
        raise FrontendError(f"{path}: {'is a folder' if path.is_dir() else other}")
    stage(f"reading {path.name}")
    text = shared_reader().read(path, wanted, seconds)
    try:
        return from_json.loaded(text)
    except BadGraph as error:
        raise FrontendError(f"{path}: the module is not well typed: {one_line(error)}") from error
