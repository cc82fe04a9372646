"""C++ of call sites: what all models share is compiled once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opinfo.byoc.codegen.compilers import toolchain
from opinfo.jit import compile_shapes
from opinfo.jit.compile.call_site_code import runtime

from .. import modules


def test_what_all_call_sites_do_is_compiled_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))  # an earlier run may have filled the user's
    compile_shapes(modules.dense())
    compiled: list[str] = []
    write = toolchain._write

    def noted(stage: str, command: Any, *more: Any) -> None:
        if stage == "compile":
            compiled.append(Path(command[-1]).read_text())
        write(stage, command, *more)

    monkeypatch.setattr(toolchain, "_write", noted)
    others = ("-O1", "-DOF_A_BACKEND")  # code of backends has options of its own
    monkeypatch.setattr("opinfo.byoc.codegen.export.OPTIONS", (*toolchain.OPTIONS, *others))
    compile_shapes(modules.dense(3))
    assert any("opinfo_jit::call(0, self" in text for text in compiled)
    assert runtime() not in compiled
    assert not any("class Site" in text for text in compiled)
