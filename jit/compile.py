"""The whole way for symbolic shapes: lower, fuse, choose strategies, build one library."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from ..byoc.compile import fuse
from ..byoc.prepare import prepare
from .specialize import Told, specialize_shapes
from .strategy import Config, Strategy

#: For the C++ compiler; what two libraries have in common must not be one in a process.
OPTIONS = ["-O2", "-fno-gnu-unique"]


@dataclass(frozen=True)
class CompiledShapes:
    """A shared library for TVM's virtual machine, and how each symbolic function is compiled."""

    library: Path
    functions: tuple[Told, ...]
    _folder: Any = None

    def export(self, path: str | Path) -> None:
        """Write the library; it loads in any process that has the TVM runtime."""
        shutil.copyfile(self.library, path)


def compile_shapes(mod: Any, given: Config | Strategy | str = "jit",
                   target: Any = None) -> CompiledShapes:  # fmt: skip
    """Compile a Relax module with symbolic shapes; ``mod`` is not changed.

    Raises ``ValueError`` for a configuration that is none.
    """
    wanted = tvm.target.Target(target if target is not None else native_target())
    done = specialize_shapes(lowered(mod), given, wanted)
    folder = tempfile.TemporaryDirectory(prefix="opinfo-")
    library = Path(folder.name) / "model.so"
    executable = tvm.compile(done.module, target=wanted)
    executable.export_library(str(library), options=OPTIONS)
    return CompiledShapes(library, done.functions, folder)


def lowered(mod: Any) -> Any:
    """Prepared, lowered and fused; what only reshapes is a view, which needs no kernel."""
    return relax.transform.RewriteDataflowReshape()(fuse(prepare(mod)))


def native_target() -> Any:
    """The CPU of this machine, one thread."""
    cpu = tvm.get_global_func("target.llvm_get_system_cpu")()
    return tvm.target.Target({"kind": "llvm", "mcpu": str(cpu), "num-cores": 1})
