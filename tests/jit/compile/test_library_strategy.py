"""Functions that a backend runs for any shape, and what it cannot take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

import opinfo
from opinfo.byoc import Code, Region
from opinfo.byoc.backend.catalog import _REGISTRY, find
from opinfo.jit import (
    Config,
    Generic,
    Library,
    Session,
    compile_shapes,
)
from tests.jit import modules

from .test_strategies import attention


@pytest.mark.parametrize("backend", ["blas", "onednn"])
def test_a_library_takes_products_of_any_shape(backend: str) -> None:
    given = Config("generic", by_op={"relax.matmul": Library((backend,))})
    done = compile_shapes(modules.attention(), given)
    assert done.dispatched is not None
    assert [t.backend for t in done.dispatched.taken] == [backend] * 2
    assert {o.op for o in done.dispatched.left} == {"relax.permute_dims", "relax.nn.softmax"}
    with Session(done) as session:
        for n, m in ((1, 1), (3, 7), (16, 5)):
            attention(session, n, m)


ABSENT = 'extern "C" int absent(); int x() { return absent(); }'


@pytest.mark.parametrize("text", ["no C++;", ABSENT])
def test_a_product_that_a_library_fails_on_is_generic(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blas = find("blas")

    def broken(regions: Sequence[Region]) -> Code:
        code = blas.convert(regions)
        bad = any(r.result.shape[-1] == modules.WIDTH for r in regions)
        return replace(code, source=code.source + text) if bad else code

    monkeypatch.setitem(_REGISTRY, "half", replace(blas, name="half", convert=broken))
    with pytest.warns(UserWarning, match="half, pattern matmul, region .*; run by tvm"):
        done = compile_shapes(modules.attention(), Config("generic", by_op={
            "relax.matmul": Library(("half",))}))  # fmt: skip
    assert done.dispatched is not None
    assert len(done.dispatched.taken) == len(done.dispatched.lost) == 1
    with Session(done) as session:
        attention(session, 3, 7)


def test_what_no_library_takes_is_generic() -> None:
    done = compile_shapes(modules.attention(), Library(("blas",)))
    assert {(f.strategy, f.why) for f in done.functions} == {(Generic(), "no backend takes it")}
    with Session(done) as session:
        attention(session, 4, 9)


def test_a_fused_function_cannot_have_the_library_strategy() -> None:
    with pytest.raises(ValueError, match="the strategy of fused_matmul_relu is Library"):
        compile_shapes(modules.dense(), Config(by_function={"fused_matmul_relu": "library"}))


def test_named_backends_are_the_only_libraries() -> None:
    """`opinfo compile --backend tvm --shapes library` called oneDNN."""
    for names, expected in ((["tvm"], set()), ([], set()), (["blas"], {"blas"})):
        done = opinfo.compile(modules.attention(), names, shapes="library", race=False)
        assert {t.backend for t in (done.dispatched.taken if done.dispatched else ())} == expected
