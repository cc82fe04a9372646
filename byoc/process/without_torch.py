"""Processes of opinfo's own import TVM without torch.

TVM and its FFI import torch wherever it is installed, which takes twice as long as all the rest of
TVM. They need torch only to convert tensors of torch, which these processes do not pass to TVM.

    python -m opinfo.byoc.process.without_torch MODULE ARGUMENTS    runs a module that imports TVM
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ...analysis.support.garbage import rare_collections
from .without_symbols import leave_symbols_unread

LEFT_OUT = "torch"
#: Packages that import it if they find it.
IMPORTERS = ("tvm_ffi", "tvm")


def leave_out_torch() -> None:
    """When TVM is first imported, let it not find torch; torch can be imported before and after."""
    if not any(name in sys.modules for name in IMPORTERS):
        sys.meta_path.insert(0, _Finder())


def is_own(modules: Iterable[str]) -> bool:
    """Whether all modules are opinfo's; those of others may pass tensors of torch to TVM."""
    return all(name.partition(".")[0] == "opinfo" for name in modules)


def command(module: str, *words: str) -> tuple[str, ...]:
    """The command that runs a module in a new process, whose TVM does without torch."""
    return sys.executable, "-m", "opinfo.byoc.process.without_torch", module, *words


class _Finder(MetaPathFinder):
    """Finds each package once, and lets it be executed while torch is missing."""

    def __init__(self) -> None:
        self.open = set(IMPORTERS)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self.open:
            return None
        self.open.remove(name)
        if not self.open:
            sys.meta_path.remove(self)
        spec = find_spec(name)  # asks this finder too
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module: ModuleType) -> None:
                with _missing(LEFT_OUT):
                    execute(module)
                    if name == IMPORTERS[0]:
                        leave_symbols_unread()

            spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


@contextmanager
def _missing(name: str) -> Iterator[None]:
    """While this runs, importing a module fails that has not been imported."""
    if name in sys.modules:
        yield
        return
    modules: dict[str, Any] = sys.modules
    modules[name] = None
    try:
        yield
    finally:
        del modules[name]


if __name__ == "__main__":
    leave_out_torch()
    del sys.argv[0]
    with rare_collections():
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
