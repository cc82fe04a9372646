"""Which kernels a session has: not those that are broken, wrong, slow or idle."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.byoc.codegen.host_target import native_target
from opinfo.byoc.dims.symbolic_dims import bind
from opinfo.byoc.prepare.fuse import fuse
from opinfo.jit import (
    Budget,
    CompiledShapes,
    Compiler,
    KernelStore,
    Session,
)
from opinfo.jit.compile.compile_shapes import lowered
from opinfo.jit.kernels import build_kernel as kernel
from opinfo.jit.kernels.generic_kernel import GenericKernel, identity
from opinfo.jit.kernels.worker import _generic

from .. import modules
from ..legalised import kernel as kernel_of
from ..sessions import ask, counted, stub


def test_kernels_of_other_sources_are_not_kept(
    compiled: CompiledShapes, plain: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The package was written anew while this process ran; its compiler was started after that."""
    store = KernelStore(tmp_path / "kernels")
    newer = counted(tmp_path, plain, "pass")
    newer.command = (*newer.command[:-1], newer.command[-1].replace('"toolchain"', '"older"'))
    for compiler, kept in ((newer, 0), (counted(tmp_path, plain, "pass"), 2)):
        with Session(compiled, store=store, compiler=compiler) as session:
            ask(session, [2, 2, 3, 3])
            assert session.settle()
            assert session.stats().counts == {"compiled": 2}
        assert len(store.ls()) == kept
    assert [r.getMessage()[:22] for r in caplog.records if r.levelname == "WARNING"] == [
        "kernels are not stored"]  # fmt: skip


def test_a_stored_kernel_that_is_cut_while_it_serves(
    compiled: CompiledShapes, plain: Path, tmp_path: Path
) -> None:
    """What is mapped is not what lies in the store: a file that is cut under it would be SIGBUS."""
    store = KernelStore(tmp_path / "kernels")
    for what in ("compiled", "loaded"):
        with Session(compiled, store=store, compiler=counted(tmp_path, plain, "pass")) as session:
            ask(session, [2, 2])
            assert session.settle() and session.stats().counts == {what: 1}
            ask(session, [2])
            if what == "loaded":
                os.truncate(tmp_path / "kernels" / f"{store.ls()[0].key}.so", 0)
                ask(session, [2, 2])
                assert session.stats().sites[0].hits == 3


def test_a_kernel_that_fails_is_reported_and_not_rebuilt(compiled: CompiledShapes) -> None:
    def broken(*args: Any) -> None:
        raise RuntimeError("no memory")

    with Session(compiled, compiler=stub("break")) as session:
        session._manager.sites.insert(0, (2,), tvm_ffi.convert(broken))
        ask(session, [2] * 5)
        assert session.settle()
        stats = session.stats()
    assert {(e.what, e.shape, e.why) for e in stats.events} == {
        ("failed", (2,), "a call of its kernel failed: RuntimeError: no memory")}  # fmt: skip
    (site,) = stats.sites
    assert (site.hits, site.misses, site.failed_calls, site.kernels) == (0, 5, 1, 0)


def test_a_kernel_that_breaks_or_does_not_load_leaves_the_disk(
    compiled: CompiledShapes, compiler: Compiler, tmp_path: Path
) -> None:
    """A restart does not meet it again."""

    def broken(*args: Any) -> None:
        raise RuntimeError("no memory")

    store = KernelStore(tmp_path / "kernels")
    with Session(compiled, store=store, compiler=compiler) as session:
        ask(session, [2, 2, 3, 3])
        assert session.settle() and len(store.ls()) == 2
        with pytest.warns(UserWarning, match="is ignored and removed: a call of its kernel failed"):
            session._manager.sites.insert(0, (2,), tvm_ffi.convert(broken))
            ask(session, [2])
            assert session.settle()
    (left,) = store.ls()
    assert left.about["shape"] == "n=3"

    (tmp_path / "text").write_text("no library")
    assert store.put(left.key, tmp_path / "text") is not None
    with pytest.warns(UserWarning, match="is ignored and removed: it does not load"):
        with Session(compiled, store=store, compiler=compiler) as again:
            ask(again, [2, 2, 3, 3])
            assert again.settle()
            assert again.stats().counts == {"compiled": 2}
    assert {r.about.get("shape") for r in store.ls()} == {"n=2", "n=3"}


def test_a_wrong_kernel_is_found_before_it_serves() -> None:
    lowered = fuse(relax.transform.LegalizeOps()(modules.dense()))
    func = next(f for f in lowered.functions.values() if isinstance(f, tirx.PrimFunc))
    right = kernel.compiled(func, "llvm", "f")["f"]

    def negated(*args: Any) -> None:
        right(*args)
        out = np.from_dlpack(args[-1])
        out[...] = -out

    args = kernel.arguments(bind(func, {"n": 3}), {"n": 3})
    kernel.compare(right, right, args, {"n": 3})
    with pytest.raises(kernel.ResultsDiffer, match="parameter 2 differs"):
        kernel.compare(negated, right, args, {"n": 3})


def test_what_is_empty_gets_no_kernel(compiled: CompiledShapes) -> None:
    with Session(compiled, compiler=stub("os.abort()")) as session:
        for _ in range(3):
            assert session(modules.rows(0)).numpy().shape == (0, modules.WIDTH)
        assert session.settle()
        assert session.stats().events == () and session.stats().sites[0].misses == 3


def test_the_budget_bounds_kernels_and_says_so(
    compiled: CompiledShapes, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long compiling takes.
    monkeypatch.setattr("opinfo.jit.runtime.kernel_manager.IDLE", 1 << 30)
    with Session(compiled, budget=Budget(kernels=2), compiler=compiler) as session:
        for n in range(1, 6):
            ask(session, [n, n])
            assert session.settle()
        stats = session.stats()
    assert stats.kernels == 2
    assert stats.counts == {"compiled": 2, "refused": 3}
    assert "the budget is exhausted: 2 kernels of" in stats.events[-1].why


def test_a_kernel_that_is_idle_gives_room(
    compiled: CompiledShapes, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opinfo.jit.runtime.kernel_manager.IDLE", 3)
    with Session(compiled, budget=Budget(kernels=2), compiler=compiler) as session:
        ask(session, [1, 1, 2, 2])
        assert session.settle()
        ask(session, [1])
        end = time.monotonic() + 1
        while time.monotonic() < end:
            ask(session, [2])
        ask(session, [3, 3])
        assert session.settle()
        stats = session.stats()
    assert [(e.what, e.shape) for e in stats.events[2:]] == [("evicted", (1,)), ("compiled", (3,))]
    assert stats.kernels == 2


def dense_func() -> Any:
    return next(f for f in lowered(modules.dense()).functions.values()
                if isinstance(f, tirx.PrimFunc))  # fmt: skip


@pytest.mark.parametrize("took, rule", [(104, "contraction"), (106, "generic")])
def test_a_kernel_that_is_slower_than_the_generic_one_is_not_kept(
    took: int, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    func = dense_func()
    maker = kernel.KernelBuilder(func, native_target())
    monkeypatch.setattr(kernel, "seconds", lambda *_: (took, 100))
    found = maker.make({"n": 40}, tmp_path / "made.so")
    assert found.rule == rule
    kept = rule != "generic"
    assert [p.name for p in tmp_path.iterdir()] == ["made.so"] * kept
    assert (found.library is not None) == kept
    if found.library is not None:
        args = kernel.arguments(bind(func, {"n": 40}), {"n": 40})
        kernel.compare(kernel.loaded(found.library), maker.generic, args, {"n": 40})


def test_after_two_shapes_that_gained_nothing_larger_ones_are_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = kernel.KernelBuilder(dense_func(), native_target())
    monkeypatch.setattr(kernel, "seconds", lambda *_: (1.0, 1.0))
    for n, built in ((4, True), (8, True), (16, False), (8, False), (2, True)):
        assert (maker.make({"n": n}, tmp_path / f"{n}.so").library is not None) == built, n


def test_shapes_that_gain_or_are_short_teach_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for times in ((1.0, 1.2), (1e-6, 1e-6)):
        maker = kernel.KernelBuilder(dense_func(), native_target())
        monkeypatch.setattr(kernel, "seconds", lambda *_, t=times: t)
        made = [maker.make({"n": n}, tmp_path / f"{n}.so") for n in (4, 8, 16)]
        assert all(m.library is not None for m in made), times


def test_the_first_calls_of_cold_caches_do_not_count() -> None:
    now = [0]

    def kernel_that_takes(ticks: int) -> Any:
        first = iter([100 * ticks])
        return lambda *_: now.__setitem__(0, now[0] + next(first, ticks))

    times = kernel.seconds(kernel_that_takes(9), kernel_that_takes(10), [], lambda: now[0] * 1e-6)
    assert times == pytest.approx((9e-6, 10e-6))


def test_a_kernel_is_compared_with_the_one_of_the_library(
    compiled: CompiledShapes, tmp_path: Path
) -> None:
    """And where it is as fast, that one serves, in the next process, too."""
    store = KernelStore(tmp_path / "kernels")
    answer = 'print(\'{"rule": "generic", "milliseconds": 1}\', flush=True); continue'
    asked = f"open({str(tmp_path / 'jobs')!r}, 'a').write(job); {answer}"
    for what in ("compiled", "loaded"):
        compiler = counted(tmp_path, tmp_path, asked)
        with Session(compiled, store=store, compiler=compiler) as session:
            ask(session, [5, 5])
            settled = session.settle()
            ask(session, [5])
            assert settled.counts == {what: 1} and session.stats().sites[0].hits == 1
    job = json.loads((tmp_path / "jobs").read_text())  # one job only
    place = GenericKernel.from_json(job["generic"])
    assert place.library == str(compiled.library) and place.identity == identity(place.library)
    assert _generic(job["generic"]) is not None
    assert _generic({**job["generic"], "identity": [0, 0, 0, 0]}) is None
    assert _generic(None) is None


NAMED_INDEX = """@T.prim_func(s_tir=True)
def main(x: T.Buffer((T.int64(4),), "float32"), i: T.Buffer((T.int64(1),), "int64"),
         y: T.Buffer((T.int64(4),), "float32")):
    k: T.int64 = i[0]
    y[0] = x[k]
"""


def test_integers_that_decide_where_are_zero() -> None:
    """A read at 1 would be outside where an extent is 1: the compiler would crash of it."""
    taken = kernel_of(lambda x, i: relax.op.take(x, i, 0), [("n", 3), (2,)], ["float32", "int64"])
    added = kernel_of(relax.op.add, [("n", 64), (64,)], ["int8", "int8"])
    named = tvm.script.from_source(NAMED_INDEX)
    assert [kernel.indexed_by_data(f) for f in (taken, added, named)] == [True, False, True]
    _, indices, _ = kernel.arguments(bind(taken, {"n": 1}), {"n": 1})
    assert not indices.any()
    one, _, _ = kernel.arguments(bind(added, {"n": 9}), {"n": 9})
    assert one.min() < 0 < one.max()
