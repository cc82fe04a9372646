"""Models that serve: kernels for the shapes that come in are compiled beside it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import from_source

from opinfo.jit import (
    BoundaryError,
    CompiledShapes,
    Compiler,
    Config,
    Dim,
    Generic,
    Jit,
    KernelStore,
    Recording,
    Session,
    ShapeOutOfRange,
    compile_shapes,
    stats,
)

from .. import modules
from ..sessions import ask, stub


def test_shapes_get_kernels_and_results_stay(compiled: CompiledShapes, compiler: Compiler,
                                             tmp_path: Path) -> None:  # fmt: skip
    with Session(compiled, store=KernelStore(tmp_path), compiler=compiler) as session:
        ask(session, [1, 1, 3, 3, 16, 16])
        assert not str(session.stats()).endswith("; ")
        assert session.settle()
        ask(session, [1, 3, 16, 5])
        counts = session.stats()
    assert counts.counts == {"compiled": 3}
    assert {(e.shape, e.rule) for e in counts.events} == {
        ((n,), "contraction") for n in (1, 3, 16)}  # fmt: skip
    (site,) = counts.sites
    assert (site.hits, site.misses, site.kernels) == (3, 7, 3)
    assert site.shapes == {(1,): 3, (3,): 3, (16,): 3, (5,): 1}
    assert site.hit_rate == counts.hit_rate == 0.3

    with Session(compiled, store=KernelStore(tmp_path), compiler=stub("break")) as again:
        ask(again, [1, 1, 3, 3, 16, 16])
        assert again.settle()
        ask(again, [1, 3, 16])
        assert again.stats().counts == {"loaded": 3}
        assert again.stats().hit_rate == 3 / 9


def test_likely_shapes_are_compiled_before_they_come(compiler: Compiler) -> None:
    given = Config(Jit("eager"), dims={"n": Dim(0, 64, likely=(0, 4, 9))})
    with Session(compile_shapes(modules.dense(), given), compiler=compiler) as session:
        assert session.settle()
        ask(session, [4, 9])
        assert session.stats().hit_rate == 1
        assert [e.why for e in session.stats().events] == ["likely"] * 2


def test_two_dimensions_and_several_sites(compiler: Compiler) -> None:
    with Session(compile_shapes(modules.attention()), compiler=compiler) as session:
        for n, m in [(2, 3), (2, 3), (3, 2), (2, 3), (3, 2), (1, 1), (1, 1)]:
            q, k = modules.rows(n), modules.rows(m + 10)[:m]
            scores = q @ k.T
            e = np.exp(scores - scores.max(-1, keepdims=True))
            right = e / e.sum(-1, keepdims=True) @ k
            for _ in range(2):
                got = session(tvm.runtime.tensor(q), tvm.runtime.tensor(k)).numpy()
                np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-5)
            assert session.settle()
        counts = session.stats()
    assert "failed" not in counts.counts and counts.hit_rate > 0
    assert all(len(shape) <= 2 for s in counts.sites for shape in s.shapes)


def test_generic_functions_have_no_sites() -> None:
    done = compile_shapes(modules.dense(), Config("jit", by_op={"relax.matmul": Generic()}))
    with Session(done) as session:
        ask(session, [1, 1, 1])
        assert session.stats().sites == ()
        assert str(session.stats()).startswith("calls are not counted")
    assert [type(f.strategy) for f in done.functions] == [Generic]


def test_each_function_of_a_model_is_served() -> None:
    mod = from_source(modules.SEVERAL)
    with Session(compile_shapes(mod, Config(dims={"n": Dim(1, 8)})), strict=True) as session:
        assert set(session.functions) == {"prefill", "decode"}
        prefill, decode = session["prefill"], session["decode"]
        assert session["decode"] is decode and str(decode.signature) == "decode(x: float32[b, 16])"
        for n in (3, 5, 3, 3, 5, 5):
            x = modules.rows(n)
            e = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
            got = prefill(tvm.runtime.tensor(x[None])).numpy()
            np.testing.assert_allclose(got, 2 * e[None], rtol=1e-4)
            got = decode(tvm.runtime.tensor(x)).numpy()
            np.testing.assert_array_equal(got, np.maximum(x, 0))
            session.settle()
        hits = {s.caller: s.hits for s in session.stats().sites}
        assert hits.keys() == {"prefill", "decode", "twice"} and min(hits.values()) > 0
        x = tvm.runtime.tensor(modules.rows(9))
        decode(x)
        with pytest.raises(ShapeOutOfRange, match="prefill: dimension 1 of argument x"):
            prefill(tvm.runtime.tensor(modules.rows(9)[None]))
        with pytest.raises(ValueError, match="no function main; it has "):
            session(x)
        with pytest.raises(ValueError, match="no function twice; it has "):
            session["twice"]


def test_a_library_has_one_session(compiled: CompiledShapes) -> None:
    with Session(compiled) as session:
        with pytest.raises(ValueError, match="has a session in this process"):
            Session(compiled)
        assert len([s for s in stats() if s.sites]) == 1
        ask(session, [1])
    with Session(compiled):
        pass


@pytest.mark.parametrize("name", ["budget", "store", "compiler"])
def test_settings_of_a_session_are_what_they_are_called(
    compiled: CompiledShapes, name: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {name: str(tmp_path)}
    with pytest.raises(TypeError, match=f"Session: {name}: expected a .*, got .*{tmp_path.name}"):
        Session(compiled, **given)
    with Session(compiled):
        pass


def test_numpy_arrays_are_copied_where_they_must_be(compiled: CompiledShapes) -> None:
    with Session(compiled) as session:
        raw = np.zeros(3 * modules.WIDTH + 1, "float32")[1:].reshape(3, -1)  # not aligned
        raw[...] = modules.rows(3)
        right = modules.expected(modules.rows(3))
        np.testing.assert_allclose(session(raw).numpy(), right, rtol=1e-4, atol=1e-5)
        with pytest.raises(BoundaryError, match="float64"):
            session(modules.rows(3).astype("float64"))


def test_strict_refuses_what_is_out_of_the_declared_range() -> None:
    given = Config(Generic(), dims={"n": Dim(2, 8, 2)})
    done = compile_shapes(modules.dense(), given)
    with Session(done, strict=True) as session:
        ask(session, [2, 8])
        for n in (1, 3, 10):
            message = rf"main: dimension 0 of argument x \(n\) is {n}; expected 2 to 8, a multiple"
            with pytest.raises(ShapeOutOfRange, match=message):
                session(tvm.runtime.tensor(modules.rows(n)))
    with Session(done) as session:
        ask(session, [1, 3, 10])


def test_each_compile_is_a_line_in_the_log(
    compiled: CompiledShapes, compiler: Compiler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "opinfo.jit")
    with Session(compiled, compiler=compiler) as session:
        ask(session, [2, 2])
        assert session.settle()
    (record,) = caplog.records
    assert record.getMessage().startswith("compiled 0:fused_matmul_relu [2] ")
    assert record.getMessage().endswith("ms: requested")


def test_recorded_shapes_have_their_counts_and_functions(tmp_path: Path) -> None:
    done = compile_shapes(modules.dense(2), "record")
    with Session(done) as session:
        ask(session, [1, 4, 4], layers=2)
        found = session.recording()
        assert session.stats().counts == {}
    found.save(tmp_path / "shapes.json")
    again = Recording.load(tmp_path / "shapes.json")
    assert again == found and len(again.functions) == 1
    counts = {(s.site, s.values): n for s, n in again.counts().items()}
    name = "fused_matmul_relu"
    assert counts == {(f"{k}:{name}", (("n", n),)): times
                      for k in (0, 1) for n, times in ((1, 1), (4, 2))}  # fmt: skip
