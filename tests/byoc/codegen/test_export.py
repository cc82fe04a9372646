"""Libraries of compiled programs: their constants, and where they are written."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.codegen.compilers.toolchain import CompilerError
from opinfo.byoc.codegen.export import export_library

NUMBERS = np.arange(-40, 600, dtype="float32")


def program(computes: bool) -> Any:
    """A program that adds a constant to its input, or returns the constant."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((640,), "float32"))
    with builder.function("main", [x]):
        constant = relax.const(NUMBERS)
        value = relax.op.add(x, constant) if computes else relax.Tuple([constant])
        builder.emit_func_output(builder.emit(value))
    return tvm.compile(relax.transform.LegalizeOps()(builder.get()), "llvm")


def results(library: Path) -> Any:
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    return machine["main"](tvm.runtime.tensor(np.ones(640, "float32")))


@pytest.mark.parametrize("computes", [True, False])
def test_a_library_has_its_constants(tmp_path: Path, computes: bool) -> None:
    """Without code of LLVM in a library, TVM would write its constants as text of C."""
    library = tmp_path / "model.so"
    export_library(program(computes), library)
    found = results(library)
    np.testing.assert_array_equal((found if computes else found[0]).numpy(), NUMBERS + computes)


def test_the_folder_of_temporary_files_has_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a \\ 'b' \"c\" %s {d} é"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    export_library(program(True), tmp_path / "model.so")
    np.testing.assert_array_equal(results(tmp_path / "model.so").numpy(), NUMBERS + 1)


def test_no_time_is_spent_on_a_hash_of_the_constants(tmp_path: Path) -> None:
    export_library(program(True), tmp_path / "model.so")
    assert b".note.gnu.build-id" not in (tmp_path / "model.so").read_bytes()


def test_options_reach_the_compiler(tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match="no-such-option"):
        export_library(program(True), tmp_path / "model.so", ["-no-such-option"])
