"""Libraries that sessions serve: exported, written anew, forked, or none at all."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tvm

from opinfo.jit import (
    CompiledShapes,
    Compiler,
    Generic,
    Session,
    compile_shapes,
    stats,
)

from .. import modules
from ..sessions import ask


def test_an_exported_library_serves(
    compiled: CompiledShapes, compiler: Compiler, tmp_path: Path
) -> None:
    compiled.export(tmp_path / "model.so")
    with Session(tmp_path / "model.so", compiler=compiler) as session:
        ask(session, [2, 2])
        assert session.settle()
        ask(session, [2])
        assert session.stats().hit_rate == 1 / 3


def test_a_model_may_be_exported_over_one_that_serves(
    compiled: CompiledShapes, tmp_path: Path
) -> None:
    path = tmp_path / "model.so"
    compiled.export(path)
    with Session(path) as session:
        compiled.export(path)
        ask(session, range(1, 20))
    assert [p.name for p in tmp_path.iterdir()] == ["model.so"]


def test_what_was_exported_last_is_what_is_served(compiled: CompiledShapes, tmp_path: Path) -> None:
    """The loader goes by the name of a file; who opened the first keeps it."""
    path = tmp_path / "model.so"
    compiled.export(path)
    first = Session(path)
    compile_shapes(modules.dense(2)).export(path)
    with Session(path) as second, first:
        for _ in range(2):
            ask(second, [3], layers=2)
            ask(first, [3])


def test_a_function_has_the_name_that_it_has_outside() -> None:
    mod = modules.dense()
    mod.update_func(mod.get_global_var("main"), mod["main"].with_attr("global_symbol", "other"))
    with Session(compile_shapes(mod, Generic())) as session:
        assert session.functions == ("other",)
        x = modules.rows(3)
        np.testing.assert_allclose(session["other"](x).numpy(), modules.expected(x), 1e-4, 1e-5)
    taken = tvm.IRModule({"opinfo_site_0": mod["main"].with_attr("global_symbol", "opinfo_site_0")})
    with pytest.raises(ValueError, match="the function name opinfo_site_0 is reserved by opinfo"):
        compile_shapes(taken)


def test_a_forked_process_leaves_its_parent_alone(
    compiled: CompiledShapes, compiler: Compiler
) -> None:
    with Session(compiled, compiler=compiler) as session:
        ask(session, [2, 2])
        assert session.settle()
        child = os.fork()
        if child == 0:
            ask(session, [2, 3])
            refused = False
            try:
                session.stats()
            except RuntimeError as e:  # the locks of the counts may be held by threads that are not
                refused = "call this" in str(e)
            session.close()
            os._exit(0 if refused and stats() == () else 1)
        assert os.waitpid(child, 0)[1] == 0
        ask(session, [2, 5, 5])
        assert session.settle()
        assert session.stats().counts == {"compiled": 2}


def test_a_file_that_is_not_a_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    path.write_text("hello")
    for _ in range(2):  # it is not taken for served after the first time
        with pytest.raises(ValueError, match=r"is not a loadable library: .*too short"):
            Session(path)
