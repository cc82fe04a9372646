"""What tests of sessions share: a model, a compiler, a kernel."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tvm import tirx

from opinfo.byoc.codegen.host_target import native_target
from opinfo.jit import (
    CompiledShapes,
    Compiler,
    compile_shapes,
)
from opinfo.jit.compile.compile_shapes import lowered
from opinfo.jit.kernels import build_kernel as kernel

from . import modules


@pytest.fixture(scope="module")
def compiled() -> CompiledShapes:
    return compile_shapes(modules.dense())


#: A compiler process for which every kernel is faster than the generic one, on every machine.
FASTER = """import sys
from opinfo.byoc.process.without_torch import leave_out_torch
leave_out_torch()
from opinfo.jit.kernels import build_kernel, worker
build_kernel.seconds = lambda *_: (1.0, 2.0)
sys.exit(worker.main())
"""


@pytest.fixture(scope="session")
def compiler() -> Iterator[Compiler]:
    """A real one, except that it does not measure; it takes seconds to start."""
    found = Compiler(command=(sys.executable, "-c", FASTER))
    yield found
    found.close()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel that is right for all shapes."""
    func = next(f for f in lowered(modules.dense()).functions.values()
                if isinstance(f, tirx.PrimFunc))  # fmt: skip
    path = tmp_path_factory.mktemp("plain") / "kernel.so"
    kernel.compiled(func, native_target(), kernel.ENTRY).export_library(str(path))
    return path
