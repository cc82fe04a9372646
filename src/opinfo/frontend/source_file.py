"""Which file a module was loaded from, while the module is the one that was loaded.

A module is known by its structural hash, elements of constants included: what was changed has
another hash, and what was loaded twice has the same one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from .checks.error import FrontendError
from .process.reader_client import shared_reader

Array = np.ndarray[Any, Any]
#: The number of modules that are remembered, the latest ones.
MOST = 256
_loaded: dict[int, SourceFile] = {}
_guard = threading.Lock()


@dataclass(frozen=True)
class SourceFile:
    """An ONNX file that a module was loaded from.

    Attributes:
        path: The file, absolute.
        digest: SHA-256 of it and of the weights that are in other files.
    """

    path: Path
    digest: str

    def static(self, extents: Sequence[Sequence[int]]) -> StaticFile:
        """Return what a runtime gets; the reader process writes it (`formats.static_onnx`).

        Args:
            extents: The shapes of the inputs, in order.

        Raises:
            FrontendError: The file has changed, or runtimes cannot get it.
        """
        message = shared_reader().static_file(self.path, self.digest, extents)
        end = message.find(b"\n") + 1
        try:
            inputs, outputs = json.loads(message[:end])
            names = [*inputs, *outputs]
        except (ValueError, TypeError, RecursionError) as error:
            raise FrontendError(f"{self.path}: expected names, and an ONNX file") from error
        if not all(isinstance(name, str) and "\0" not in name for name in names):
            raise FrontendError(f"{self.path}: expected names of inputs and outputs")
        content = np.frombuffer(message, "uint8", offset=end)
        return StaticFile(content, tuple(inputs), tuple(outputs))


@dataclass(frozen=True, eq=False)
class StaticFile:
    """An ONNX file with static shapes and all weights.

    Attributes:
        content: Its bytes, of dtype uint8.
        inputs: The names of its inputs, in the order of the module's parameters.
        outputs: The names of its outputs, in the order of the module's results.
    """

    content: Array
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def remember(mod: tvm.IRModule, file: SourceFile) -> None:
    """Remember the file of a module that was loaded."""
    key = tvm_ffi.structural_hash(mod)
    with _guard:
        _loaded.pop(key, None)
        _loaded[key] = file
        if len(_loaded) > MOST:
            del _loaded[next(iter(_loaded))]


def source_of(mod: tvm.IRModule) -> SourceFile | None:
    """Return the file that a module was loaded from; None if it is unknown or was changed."""
    with _guard:
        if not _loaded:
            return None
    key = tvm_ffi.structural_hash(mod)
    with _guard:
        return _loaded.get(key)
