"""Python imports this in processes that tests start: there, TVM does not import torch.

TVM and its FFI import torch wherever it is installed, which takes twice as long as all the rest.
Commands and processes of opinfo leave it out as well; a program that imports torch gets it. Nor do
errors that TVM catches while it is imported read the symbols of all libraries.
"""

from __future__ import annotations

import contextlib
import runpy
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import FrameType, ModuleType

#: A module that is run from its file: the process may be one without opinfo.
SYMBOLS = Path(__file__).parents[2] / "byoc" / "process" / "without_symbols.py"
#: Packages that import torch if they find it.
IMPORTERS = {"tvm", "tvm_ffi"}


class _TorchForOthers(MetaPathFinder):
    """Says that torch is missing to TVM, and comes before TVM is imported."""

    symbols_are_read = True

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if name == "torch" and _importer(sys._getframe(1)) in IMPORTERS:
            raise ModuleNotFoundError("left out of TVM", name=name)
        if name == "tvm" and self.symbols_are_read:
            self.symbols_are_read = False
            with contextlib.suppress(Exception):  # it is not installed: the import says so
                runpy.run_path(str(SYMBOLS))["leave_symbols_unread"]()


def _importer(frame: FrameType | None) -> str:
    """The package whose code imports."""
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame.f_globals.get("__name__", "").partition(".")[0] if frame is not None else ""


sys.meta_path.insert(0, _TorchForOthers())
