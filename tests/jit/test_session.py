"""Models that serve: kernels for the shapes that come in are compiled beside it."""

from __future__ import annotations

import logging
import os
import re
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.script import from_source

from opinfo.byoc.codegen.host import native_target
from opinfo.byoc.prepare.fuse import fuse
from opinfo.jit import (
    BoundaryError,
    Budget,
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
from opinfo.jit.compile.compile_shapes import lowered
from opinfo.jit.dims.symbolic_dims import bind
from opinfo.jit.kernels import build_kernel as kernel
from opinfo.jit.store import kernel_key
from tests.jit import modules
from tests.jit.legalised import kernel as kernel_of

#: A process that is ready, and then does this with each job (`job` is a line).
STUB = """
import json, os, sys, time
print('{"ready": 1}', flush=True)
for job in sys.stdin:
    %s
"""


@pytest.fixture(scope="module")
def compiled() -> CompiledShapes:
    return compile_shapes(modules.dense())


@pytest.fixture(scope="module")
def compiler() -> Iterator[Compiler]:
    """A real one; it takes seconds to start."""
    found = Compiler()
    yield found
    found.close()


def stub(what: str, seconds: float = 20.0) -> Compiler:
    return Compiler(seconds=seconds, command=(sys.executable, "-c", STUB % what))


def ask(session: Session, sizes: Sequence[int], layers: int = 1) -> None:
    """Call with each size, and compare."""
    for n in sizes:
        x = modules.rows(n)
        got = session(tvm.runtime.tensor(x)).numpy()
        np.testing.assert_allclose(got, modules.expected(x, layers), rtol=1e-4, atol=1e-5)


def test_shapes_get_kernels_and_results_stay(compiled: CompiledShapes, compiler: Compiler,
                                             tmp_path: Path) -> None:  # fmt: skip
    with Session(compiled, store=KernelStore(tmp_path), compiler=compiler) as session:
        ask(session, [1, 1, 3, 3, 16, 16])
        assert session.settle()
        ask(session, [1, 3, 16, 5])
        told = session.stats()
    assert told.counts == {"compiled": 3}
    assert {e.shape for e in told.events} == {(1,), (3,), (16,)}
    (site,) = told.sites
    assert (site.hits, site.misses, site.kernels) == (3, 7, 3)
    assert site.shapes == {(1,): 3, (3,): 3, (16,): 3, (5,): 1}
    assert site.hit_rate == told.hit_rate == 0.3

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
        told = session.stats()
    assert "failed" not in told.counts and told.hit_rate > 0
    assert all(len(shape) <= 2 for s in told.sites for shape in s.shapes)


@pytest.mark.parametrize(
    ("what", "seconds", "why"),
    [("os.abort()", 20, "ended with signal 6"),
     ("sys.exit(3)", 20, "ended with exit status 3"),
     ("time.sleep(60)", 0.3, "compiling took more than 0.3 s; it was stopped"),
     ("print('no JSON', flush=True)", 20, "answered b'no JSON'"),
     ("print('{\"error\": \"no schedule\"}', flush=True)", 20, "no schedule"),
     ("open(json.loads(job)['library'], 'wb').write(b'garbage'); "
      "print('{\"rule\": \"x\", \"milliseconds\": 1}', flush=True)", 20, "invalid ELF|too short"),
     ("print('{\"rule\": \"x\", \"milliseconds\": 1}', flush=True)", 20, "cannot find file")],
)  # fmt: skip
def test_a_failing_compiler_costs_only_its_kernels(
    compiled: CompiledShapes, tmp_path: Path, what: str, seconds: float, why: str
) -> None:
    store = KernelStore(tmp_path)
    with Session(compiled, store=store, compiler=stub(what, seconds)) as session:
        ask(session, [2, 2, 2])
        assert session.settle()
        ask(session, [2, 2, 3])
        (event,) = session.stats().events
        assert event.what == "failed" and event.shape == (2,)
        assert re.search(why, event.why), event.why
    assert store.ls() == []


def test_a_function_that_kills_the_compiler_is_given_up(compiled: CompiledShapes) -> None:
    with Session(compiled, compiler=stub("os.abort()")) as session:
        for n in range(1, 6):
            ask(session, [n, n])
            assert session.settle()
        last = session.stats().events[-1]
    assert last.why == "the compiler died of this function 3 times"


def counted(tmp_path: Path, kernel: Path, what: str) -> Compiler:
    """A process that copies a kernel; before that `what` is done, where ``runs`` is how many
    processes there were with this one, and ``jobs`` how many jobs this one has."""
    started = str(tmp_path / "started")
    code = f"""
import json, os, shutil, signal, sys
with open({started!r}, "a") as file:
    file.write("x")
runs, jobs = os.path.getsize({started!r}), 0
print(json.dumps({{"ready": 1, "toolchain": {kernel_key.toolchain()!r}}}), flush=True)
for job in sys.stdin:
    jobs += 1
    {what}
    shutil.copy({str(kernel)!r}, json.loads(job)["library"])
    print('{{"rule": "x", "milliseconds": 1}}', flush=True)
"""
    return Compiler(command=(sys.executable, "-c", code))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel that is right for all shapes."""
    func = next(f for f in lowered(modules.dense()).functions.values()
                if isinstance(f, tirx.PrimFunc))  # fmt: skip
    path = tmp_path_factory.mktemp("plain") / "kernel.so"
    kernel.compiled(func, native_target(), kernel.ENTRY).export_library(str(path))
    return path


@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM"])
def test_who_kills_the_compiler_costs_no_kernel(
    number: str, compiled: CompiledShapes, plain: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A limit on memory, or an administrator: the function is not to blame, nor is the shape."""
    monkeypatch.setattr("opinfo.jit.runtime.postponed.RETRIES", (0.01, 0.02, 0.03, 0.04))
    killing = f"runs % 4 and os.kill(os.getpid(), signal.{number})"
    with Session(compiled, compiler=counted(tmp_path, plain, killing)) as session:
        ask(session, [1, 1, 2, 2, 3, 3])
        assert session.settle()
        ask(session, [1, 2, 3])
        told = session.stats()
    assert told.counts["compiled"] == 3 and told.counts["postponed"] == 3
    assert (
        f"was ended by {number}" in told.events[0].why and "again in 0.01 s" in told.events[0].why
    )
    assert told.sites[0].hits == 3


def test_what_is_always_killed_is_tried_rarely_and_others_have_kernels(
    compiled: CompiledShapes, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opinfo.jit.runtime.postponed.RETRIES", (0.01, 0.02))
    killing = "json.loads(job)['values'] == {'n': 2} and os.kill(os.getpid(), signal.SIGKILL)"
    with Session(compiled, compiler=counted(tmp_path, plain, killing)) as session:
        for n in (2, 3, 4, 5):
            ask(session, [n, n])
            assert session.settle()
        told = session.stats()
    assert [e.what for e in told.events] == ["postponed"] * 2 + ["failed"] + ["compiled"] * 3
    assert told.events[2].why.endswith("it is tried again in 600 s")


def test_a_full_disk_costs_no_kernel(
    compiled: CompiledShapes, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of this process are cut at 8 KiB until the shape was tried."""
    monkeypatch.setattr("opinfo.jit.runtime.postponed.RETRIES", (0.2,) * 50)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Session(compiled, compiler=counted(tmp_path, plain, "pass")) as session:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
        try:
            ask(session, [2, 2])
            while not session.stats().events:
                time.sleep(0.01)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert session.settle()
        told = session.stats()
    assert set(told.counts) == {"postponed", "compiled"} and told.counts["compiled"] == 1
    assert "there is no room for a kernel: File too large" in told.events[0].why


def test_a_compiler_that_crashes_of_what_was_before_costs_no_kernel(
    compiled: CompiledShapes, plain: Path, tmp_path: Path
) -> None:
    compiler = counted(tmp_path, plain, "jobs == 2 and os.abort()")
    with Session(compiled, compiler=compiler) as session:
        for n in range(1, 6):
            ask(session, [n, n])
            assert session.settle()
        assert session.stats().counts == {"compiled": 5}
    assert (tmp_path / "started").stat().st_size == 5


def test_a_compiler_that_does_not_start_blames_no_shape(
    compiled: CompiledShapes, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is killed before it is ready, every shape has its kernel in the end."""
    monkeypatch.setattr("opinfo.jit.kernels.compiler.FIRST", 0.001)
    monkeypatch.setattr("opinfo.jit.kernels.compiler.TIMES", 20)
    late = counted(tmp_path, plain, "pass")
    start = "runs, jobs"
    killed = "if os.path.getsize(sys.argv[1]) < 12: os.kill(os.getpid(), signal.SIGKILL)\n" + start
    code = late.command[-1].replace(start, killed, 1)
    late.command = (*late.command[:-1], code, str(tmp_path / "started"))
    with Session(compiled, compiler=late) as session:
        for n in range(1, 5):
            ask(session, [n, n])
        assert session.settle()
        told = session.stats()
    assert told.counts["compiled"] == 4 and told.counts["postponed"] == 11
    assert "did not start: the compiler process was ended by SIGKILL" in told.events[0].why


@pytest.mark.parametrize(
    ("command", "why"),
    [((sys.executable, "-c", "raise SystemExit(3)"), "process ended with exit status 3"),
     (("/there/is/no/such/program",), "No such file")],
)  # fmt: skip
def test_nobody_waits_for_a_compiler_that_never_starts(
    command: tuple[str, ...], why: str, compiled: CompiledShapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opinfo.jit.kernels.compiler.FIRST", 0.001)
    monkeypatch.setattr("opinfo.jit.kernels.compiler.TIMES", 3)
    monkeypatch.setattr("opinfo.jit.kernels.compiler.LAST", 60.0)
    with Session(compiled, compiler=Compiler(command=command)) as session:
        for n in range(1, 5):
            ask(session, [n, n])
        assert session.settle()
        told = session.stats()
    assert told.counts["postponed"] == 3 and told.counts["failed"] >= 1
    assert why in told.events[0].why and not told.kernels


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
    assert [r.getMessage()[:20] for r in caplog.records if r.levelname == "WARNING"] == [
        "kernels are not kept"]  # fmt: skip


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


def test_a_kernel_that_breaks_is_told_and_not_made_again(compiled: CompiledShapes) -> None:
    def broken(*args: Any) -> None:
        raise RuntimeError("no memory")

    with Session(compiled, compiler=stub("break")) as session:
        session._manager.sites.insert(0, (2,), tvm_ffi.convert(broken))
        ask(session, [2] * 5)
        assert session.settle()
        told = session.stats()
    assert {(e.what, e.shape, e.why) for e in told.events} == {
        ("failed", (2,), "a call of its kernel failed: RuntimeError: no memory")}  # fmt: skip
    (site,) = told.sites
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

    kernel.compare(right, right, func, {"n": 3})
    with pytest.raises(kernel.Differs, match="parameter 2 differs"):
        kernel.compare(negated, right, func, {"n": 3})


def test_what_is_empty_gets_no_kernel(compiled: CompiledShapes) -> None:
    with Session(compiled, compiler=stub("os.abort()")) as session:
        for _ in range(3):
            assert session(modules.rows(0)).numpy().shape == (0, modules.WIDTH)
        assert session.settle()
        assert session.stats().events == () and session.stats().sites[0].misses == 3


def test_the_budget_bounds_kernels_and_says_so(
    compiled: CompiledShapes, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opinfo.jit.runtime.manager.IDLE", 1 << 30)  # however long compiling takes
    with Session(compiled, budget=Budget(kernels=2), compiler=compiler) as session:
        for n in range(1, 6):
            ask(session, [n, n])
            assert session.settle()
        told = session.stats()
    assert told.kernels == 2
    assert told.counts == {"compiled": 2, "refused": 3}
    assert "the budget is used up: 2 kernels of" in told.events[-1].why


def test_a_kernel_that_is_idle_gives_room(
    compiled: CompiledShapes, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opinfo.jit.runtime.manager.IDLE", 3)
    with Session(compiled, budget=Budget(kernels=2), compiler=compiler) as session:
        ask(session, [1, 1, 2, 2])
        assert session.settle()
        ask(session, [1])
        end = time.monotonic() + 1
        while time.monotonic() < end:
            ask(session, [2])
        ask(session, [3, 3])
        assert session.settle()
        told = session.stats()
    assert [(e.what, e.shape) for e in told.events[2:]] == [("evicted", (1,)), ("compiled", (3,))]
    assert told.kernels == 2


def test_generic_functions_have_no_sites() -> None:
    done = compile_shapes(modules.dense(), Config("jit", by_op={"relax.matmul": Generic()}))
    with Session(done) as session:
        ask(session, [1, 1, 1])
        assert session.stats().sites == ()
    assert [type(f.strategy) for f in done.functions] == [Generic]


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


def test_an_exported_library_serves(
    compiled: CompiledShapes, compiler: Compiler, tmp_path: Path
) -> None:
    compiled.export(tmp_path / "model.so")
    with Session(tmp_path / "model.so", compiler=compiler) as session:
        ask(session, [2, 2])
        assert session.settle()
        ask(session, [2])
        assert session.stats().hit_rate == 1 / 3


def test_each_compile_is_a_line_in_the_log(
    compiled: CompiledShapes, compiler: Compiler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "opinfo.jit")
    with Session(compiled, compiler=compiler) as session:
        ask(session, [2, 2])
        assert session.settle()
    (record,) = caplog.records
    assert record.getMessage().startswith("compiled 0:fused_matmul_relu [2] ")
    assert record.getMessage().endswith("ms: asked for")


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
            told = rf"main: dimension 0 of argument x \(n\) is {n}; allowed is 2 to 8, a multiple"
            with pytest.raises(ShapeOutOfRange, match=told):
                session(tvm.runtime.tensor(modules.rows(n)))
    with Session(done) as session:
        ask(session, [1, 3, 10])


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


@pytest.mark.parametrize("slower, rule", [(False, "contraction"), (True, "generic")])
def test_a_kernel_that_is_slower_than_the_generic_one_is_that_one(
    slower: bool, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    func = next(f for f in lowered(modules.dense()).functions.values()
                if isinstance(f, tirx.PrimFunc))  # fmt: skip
    maker = kernel.Maker(func, native_target())
    monkeypatch.setattr(kernel, "slower", lambda *_: slower)
    found = maker.make({"n": 40}, tmp_path / "made.so")
    assert found.rule == rule
    assert [p.name for p in tmp_path.iterdir()] == ["made.so"]
    loaded = tvm.runtime.load_module(str(found.library))[kernel.ENTRY]
    kernel.compare(loaded, maker.plain, func, {"n": 40})


@pytest.mark.parametrize("took, slow", [(9, False), (10, False), (11, True)])
def test_slower_is_by_more_than_the_noise(
    took: int, slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0]
    monkeypatch.setattr(kernel, "perf_counter", lambda: now[0])

    def kernel_that_takes(ticks: int) -> Any:
        first = iter([100 * ticks])  # the first call, of cold caches, does not count
        return lambda *_: now.__setitem__(0, now[0] + next(first, ticks))

    func = next(f for f in lowered(modules.dense()).functions.values()
                if isinstance(f, tirx.PrimFunc))  # fmt: skip
    bound = bind(func, {"n": 3})
    assert kernel.slower(kernel_that_takes(took), kernel_that_takes(10), bound, {"n": 3}) == slow


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


def test_a_forked_process_leaves_its_parent_alone(
    compiled: CompiledShapes, compiler: Compiler
) -> None:
    with Session(compiled, compiler=compiler) as session:
        ask(session, [2, 2])
        assert session.settle()
        child = os.fork()
        if child == 0:
            ask(session, [2, 3])
            told = False
            try:
                session.stats()
            except RuntimeError as e:  # the locks of the counts may be held by threads that are not
                told = "ask it there" in str(e)
            session.close()
            os._exit(0 if told and stats() == () else 1)
        assert os.waitpid(child, 0)[1] == 0
        ask(session, [2, 5, 5])
        assert session.settle()
        assert session.stats().counts == {"compiled": 2}


def test_a_file_that_is_no_library_is_told(tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    path.write_text("hello")
    for _ in range(2):  # it is not taken for served after the first time
        with pytest.raises(ValueError, match=r"is no library that loads here: .*too short"):
            Session(path)


NAMED_INDEX = """
@T.prim_func(s_tir=True)
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


def test_a_function_has_the_name_that_it_has_outside() -> None:
    mod = modules.dense()
    mod.update_func(mod.get_global_var("main"), mod["main"].with_attr("global_symbol", "other"))
    with Session(compile_shapes(mod, Generic())) as session:
        assert session.functions == ("other",)
        x = modules.rows(3)
        np.testing.assert_allclose(session["other"](x).numpy(), modules.expected(x), 1e-4, 1e-5)
    taken = tvm.IRModule({"opinfo_site_0": mod["main"].with_attr("global_symbol", "opinfo_site_0")})
    with pytest.raises(ValueError, match="a name of opinfo's own: opinfo_site_0"):
        compile_shapes(taken)


def test_a_compiler_that_is_idle_ends_and_starts_again() -> None:
    compiler = Compiler(idle=0.0)
    with Session(compile_shapes(modules.dense()), compiler=compiler) as session:
        for n in (3, 5):
            for _ in range(3):
                x = modules.rows(n)
                np.testing.assert_allclose(session(x).numpy(), modules.expected(x), 1e-4, 1e-5)
                session.settle()
            assert compiler._process is None
        assert session.stats().counts == {"compiled": 2}
        assert session.stats().sites[0].hits == 2


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
