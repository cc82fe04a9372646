"""Python imports this in processes that tests start: there, TVM does not import torch.

TVM and its FFI import torch wherever it is installed, which takes twice as long as all the rest.
Commands and processes of opinfo leave it out as well; a program that imports torch gets it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import FrameType, ModuleType

#: Packages that import torch if they find it.
IMPORTERS = {"tvm", "tvm_ffi"}


class _TorchForOthers(MetaPathFinder):
    """Says that torch is missing to TVM."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if name == "torch" and _importer(sys._getframe(1)) in IMPORTERS:
            raise ModuleNotFoundError("left out of TVM", name=name)


def _importer(frame: FrameType | None) -> str:
    """The package whose code imports."""
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame.f_globals.get("__name__", "").partition(".")[0] if frame is not None else ""


sys.meta_path.insert(0, _TorchForOthers())
