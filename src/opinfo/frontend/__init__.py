"""Load model files of every supported format as Relax modules.

>>> from opinfo import frontend
>>> sorted(frontend.LOADERS)
['.json', '.onnx', '.pt2', '.py']
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import tvm

from ..analysis.support.progress import stage
from ..analysis.support.warn import warn
from .checks.error import FrontendError, one_line
from .checks.input_shapes import KEPT, parse_shape
from .checks.ir_json.json_graph import BadGraph
from .checks.ir_json.large_constants import attached, unpacked
from .checks.not_a_path import described
from .checks.notes import without_digest, without_notes
from .checks.suffix import wrong_suffix
from .formats import LOADERS, from_json
from .process.kept_programs import kept_program
from .process.reader_client import shared_reader
from .source_file import SourceFile, remember

__all__ = ["LOADERS", "FrontendError", "load", "parse_shape"]


def load(
    path: str | Path, shapes: Mapping[str, Sequence[int | str | None]] | None = None
) -> tvm.IRModule:
    """Load a model file as a Relax module, without legalising it.

    A separate process reads the file, with limits on time and memory. No code in the file is run.

    Args:
        path: The suffix selects the format: ``.onnx``; ``.pt2`` of `torch.export.save`; ``.json``
            of `tvm.ir.save_json`; ``.py`` with TVMScript, restricted to declarative syntax.
        shapes: Shapes of inputs by name; other inputs keep the shape in the file. A string is a
            symbolic dimension, and equal strings are the same one: ``{"x": ("n", 3, 224, 224)}``.
            ``"?"`` or None leaves a dimension as in the file: ``{"x": (1, 3, "?", "?")}``.

    Returns:
        The module.

    Raises:
        UserWarning: A branch of the model cannot run with these shapes; it fails when it is taken.
        TypeError: `path` is not a path, or `shapes` not a mapping from names to sequences.
        FrontendError: The file cannot be read, the package for its format is not installed, an
            operator is not supported, or a shape does not fit. The message is one line.
    """
    return read(path, shapes)


def read(
    path: str | Path,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    seconds: int | None = None,
) -> tvm.IRModule:
    """Load a model like `load`, with a limit in CPU `seconds` that replaces the default."""
    if not isinstance(path, (str, os.PathLike)) or path == "":
        raise TypeError(f"load: expected the path of a model, got {described(path)}")
    path, requested = Path(path), _requested(shapes or {})
    if path.suffix.lower() not in LOADERS:
        raise FrontendError(f"{path}: {wrong_suffix(path, LOADERS)}")
    if not path.is_file():
        problem = "not a regular file" if path.exists() else "no such file"
        raise FrontendError(f"{path}: {'is a folder' if path.is_dir() else problem}")
    stage(f"reading {path.name}")
    program = kept_program(path, requested)
    known = program.find() if program is not None else None
    message = b"" if known is not None else shared_reader().read(path, requested, seconds)
    try:
        text, arrays = known or unpacked(message)
        mod = attached(from_json.loaded(text), arrays)
    except BadGraph as error:
        raise FrontendError(f"{path}: the module is not well typed: {one_line(error)}") from error
    except Exception as error:  # TVM's reader of JSON raises various types
        raise FrontendError(f"{path}: TVM cannot load the module: {one_line(error)}") from error
    if program is not None and known is None:
        program.keep(message)
    mod, digest = without_digest(mod)
    mod, notes = without_notes(mod)
    if digest and path.suffix.lower() == ".onnx":
        remember(mod, SourceFile(path.absolute(), digest))
    for note in notes:
        warn(f"{path}: {note}")
    return mod


def _requested(
    shapes: Mapping[str, Sequence[int | str | None]],
) -> dict[str, tuple[int | str, ...]]:
    """The shapes with ``"?"`` for None; raises ``TypeError`` if they are not sequences by name."""
    expected = 'expected a shape by the name of an input, as {"x": (1, 3, 224, 224)}'
    if not isinstance(shapes, Mapping):
        raise TypeError(f"load: shapes: {expected}, got {shapes!r}")
    for name, dims in shapes.items():
        if isinstance(dims, str) or not isinstance(dims, Iterable):
            raise TypeError(f"load: shapes: {expected}, got {dims!r} for {name!r}")
    return {n: tuple(KEPT if d is None else d for d in dims) for n, dims in shapes.items()}
