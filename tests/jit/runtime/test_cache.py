"""The cache of a call site, in C++, with Python functions as kernels."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.jit.compile.compile_shapes import CompiledShapes
from opinfo.jit.runtime.library import Sites
from tests.jit import modules
from tests.jit.modules import WIDTH


class Loaded:
    """A model and its one site, without a manager."""

    def __init__(self, compiled: CompiledShapes, mode: str = "jit") -> None:
        library = tvm.runtime.load_module(str(compiled.library))
        self.library = library
        self.thread = threading.local()  # a virtual machine has one call at a time
        self.sites = Sites(library)
        self.site = self.sites.sites[0]
        self.sites.open(4)
        self.sites.configure(self.site, mode, 100)

    def __call__(self, n: int) -> Any:
        if not hasattr(self.thread, "main"):
            self.thread.main = relax.VirtualMachine(self.library, tvm.cpu())["main"]
        return self.thread.main(tvm.runtime.tensor(modules.rows(n))).numpy()

    def insert(self, n: int, kernel: Any) -> None:
        self.sites.insert(self.site.place, (n,), kernel)

    def stats(self) -> dict[str, Any]:
        return self.sites.stats(self.site.place)


def filled(value: float) -> Any:
    """A kernel that gives this number everywhere."""
    n = tirx.Var("n", "int64")
    x, w, out = (tirx.decl_buffer(s, name=k) for k, s in (
        ("x", (n, WIDTH)), ("w", (WIDTH, WIDTH)), ("out", (n, WIDTH))))  # fmt: skip
    i, j = tirx.Var("i", "int64"), tirx.Var("j", "int64")
    store = tirx.BufferStore(out, tirx.FloatImm("float32", value), [i, j])
    zero, wide = tirx.IntImm("int64", 0), tirx.IntImm("int64", WIDTH)
    loops = tirx.For(i, zero, n, tirx.ForKind.SERIAL,
                     tirx.For(j, zero, wide, tirx.ForKind.SERIAL, store))  # fmt: skip
    func = tirx.PrimFunc([x, w, out], loops).with_attr("global_symbol", "kernel")
    return tvm.tirx.build(tvm.IRModule({"kernel": func}), "llvm")["kernel"]


@pytest.fixture
def loaded(compiled: CompiledShapes) -> Iterator[Loaded]:
    found = Loaded(compiled)
    yield found
    found.sites.close()


def test_without_kernels_the_generic_one_serves(loaded: Loaded) -> None:
    for n in (1, 3, 8):
        np.testing.assert_allclose(loaded(n), modules.expected(modules.rows(n)), rtol=1e-5,
                                   atol=1e-6)  # fmt: skip


def test_a_kernel_serves_its_shape_and_no_other(loaded: Loaded) -> None:
    loaded.insert(3, filled(7))
    assert np.all(loaded(3) == 7)
    np.testing.assert_allclose(loaded(4), modules.expected(modules.rows(4)), rtol=1e-5, atol=1e-6)


def test_forty_kernels_are_distinguished(loaded: Loaded) -> None:
    kernels = [filled(k) for k in range(7)]
    for n in range(1, 41):
        loaded.insert(n, kernels[n % 7])
    for n in (*range(1, 41), *range(40, 0, -1)):
        assert np.all(loaded(n) == n % 7)
    assert sum(hits for _, hits, _ in loaded.stats()["kernels"]) == 80


def test_a_kernel_takes_the_place_of_one_of_the_same_shape(loaded: Loaded) -> None:
    loaded.insert(2, filled(1))
    loaded.insert(2, filled(5))
    assert np.all(loaded(2) == 5)
    assert len(loaded.stats()["kernels"]) == 1


def test_a_dropped_kernel_serves_no_more(loaded: Loaded) -> None:
    loaded.insert(2, filled(1))
    loaded(2)
    loaded.sites.drop(loaded.site.place, (2,), True)
    np.testing.assert_allclose(loaded(2), modules.expected(modules.rows(2)), rtol=1e-5, atol=1e-6)
    assert loaded.stats()["gone"] == 1


def test_a_shape_is_asked_for_once_at_its_second_call(loaded: Loaded) -> None:
    loaded(5)
    assert loaded.sites.next(0) is None
    loaded(5)
    assert loaded.sites.next(0) == (0, (5,))
    for _ in range(10):
        loaded(5)
    assert loaded.sites.next(0) is None


def test_no_more_shapes_wait_than_the_queue_has_room_for(loaded: Loaded) -> None:
    for n in range(1, 8):
        loaded(n), loaded(n)
    asked = [loaded.sites.next(0) for _ in range(5)]
    assert asked == [(0, (1,)), (0, (2,)), (0, (3,)), (0, (4,)), None]
    loaded(7)
    assert loaded.sites.next(0) == (0, (7,)), "a shape that found no room asks again"


def test_a_refused_shape_asks_again_after_many_calls(loaded: Loaded) -> None:
    loaded(5), loaded(5)
    assert loaded.sites.next(0) == (0, (5,))
    loaded.sites.drop(0, (5,), True)
    for _ in range(60):
        loaded(5)
    assert loaded.sites.next(0) is None
    for _ in range(10):
        loaded(5)
    assert loaded.sites.next(0) == (0, (5,))


def test_a_kernel_that_fails_is_dropped_and_the_generic_one_answers(loaded: Loaded) -> None:
    def broken(*args: Any) -> None:
        raise RuntimeError("no memory")

    loaded.insert(3, tvm_ffi.convert(broken))
    for _ in range(4):
        np.testing.assert_allclose(loaded(3), modules.expected(modules.rows(3)), rtol=1e-5,
                                   atol=1e-6)  # fmt: skip
    stats = loaded.stats()
    assert stats["failed"] == 1 and stats["kernels"] == [] and stats["gone"] == 0
    assert stats["broken"] == [[[3], "RuntimeError: no memory"]]
    assert loaded.sites.next(0) == (~0, (3,)), "who manages the sites is told of it"


def test_an_error_of_the_arguments_is_the_generic_kernels_and_costs_no_kernel(
    loaded: Loaded,
) -> None:
    calls = []

    def kernel(*args: Any) -> None:
        calls.append(args)
        if args[1].shape[1] != WIDTH:
            raise RuntimeError("of the special kernel")
        np.from_dlpack(args[2])[...] = 7

    loaded.insert(3, tvm_ffi.convert(kernel))
    site = loaded.library.get_function("opinfo_site_0", query_imports=True)
    x, out = (tvm.runtime.tensor(modules.rows(3)) for _ in range(2))
    narrow = tvm.runtime.tensor(np.zeros((WIDTH, WIDTH - 1), "float32"))
    for _ in range(3):
        with pytest.raises(Exception, match=r"Mismatched|shape") as error:
            site(x, narrow, out)
        assert "of the special kernel" not in str(error.value)
    assert len(calls) == 3 and loaded.stats()["failed"] == 0
    assert np.all(loaded(3) == 7)
    assert loaded.sites.next(0) is None


def test_a_recording_site_counts_all_shapes_and_asks_for_none(compiled: CompiledShapes) -> None:
    loaded = Loaded(compiled, "record")
    for n in (1, 2, 2, 3, 3, 3):
        loaded(n)
    assert sorted(loaded.stats()["misses"]) == [[[1], 1], [[2], 2], [[3], 3]]
    assert loaded.sites.next(0) is None


def test_shapes_beyond_the_bound_are_not_counted(compiled: CompiledShapes) -> None:
    loaded = Loaded(compiled)
    loaded.sites.configure(loaded.site, "jit", 3)
    for n in range(1, 9):
        loaded(n)
    stats = loaded.stats()
    assert len(stats["misses"]) == 3 and stats["uncounted"] == 5


def test_misses_of_many_shapes_are_counted_apart(compiled: CompiledShapes) -> None:
    loaded = Loaded(compiled)
    loaded.sites.configure(loaded.site, "record", 4096)
    for _ in range(2):
        for n in range(1, 301):
            loaded(n)
    assert sorted(loaded.stats()["misses"]) == [[[n], 2] for n in range(1, 301)]
    loaded.sites.open(4)
    assert loaded.stats()["misses"] == []


def test_a_closed_library_is_generic(loaded: Loaded) -> None:
    loaded.insert(3, filled(7))
    loaded.sites.close()
    np.testing.assert_allclose(loaded(3), modules.expected(modules.rows(3)), rtol=1e-5, atol=1e-6)
    assert loaded.stats()["kernels"] == []


@pytest.mark.parametrize("mode", ["jit", "record"])
def test_a_forked_process_serves_by_what_there_was(compiled: CompiledShapes, mode: str) -> None:
    """It takes no lock, since nobody may be there to give it back, and asks for nothing."""
    loaded = Loaded(compiled, mode)

    def broken(*args: Any) -> None:
        raise RuntimeError("no memory")

    loaded.insert(3, filled(7))
    loaded.insert(4, tvm_ffi.convert(broken))
    loaded(5)
    before = loaded.stats()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            right = modules.expected(modules.rows(4))
            good = np.all(loaded(3) == 7) and np.allclose(loaded(4), right, 1e-5, 1e-6)
            for n in (5, 5, 5, 6, 6, 6):
                loaded(n)
            stats = loaded.stats()
            same = all(stats[k] == before[k] for k in ("misses", "uncounted", "failed", "broken"))
            status = 0 if good and same and loaded.sites.next(0) is None else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert loaded.sites.next(0) is None
    assert loaded.stats() == before
    loaded(5)
    asked = loaded.sites.next(0)
    assert asked == ((0, (5,)) if mode == "jit" else None)


@pytest.mark.parametrize("place", [-1, 1])
def test_a_site_that_is_not_there_is_an_error(loaded: Loaded, place: int) -> None:
    with pytest.raises(IndexError, match="no site"):
        loaded.sites.insert(place, (1,), filled(0.0))


def test_threads_read_while_kernels_come_and_go(compiled: CompiledShapes) -> None:
    """Each answer is the generic kernel's or that of an inserted one; old tables are freed."""
    loaded = Loaded(compiled)
    kernels = {n: filled(n) for n in range(1, 6)}
    wrong: list[Any] = []
    done = threading.Event()

    def requests(seed: int) -> None:
        rng = np.random.default_rng(seed)
        right = {n: modules.expected(modules.rows(n)) for n in range(1, 6)}
        while not done.is_set():
            n = int(rng.integers(1, 6))
            got = loaded(n)
            if not (np.all(got == n) or np.allclose(got, right[n], rtol=1e-5, atol=1e-6)):
                wrong.append((n, got))

    threads = [threading.Thread(target=requests, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for k in range(300):
        n = k % 5 + 1
        if k % 3:
            loaded.insert(n, kernels[n])
        else:
            loaded.sites.drop(0, (n,), True)
    done.set()
    for t in threads:
        t.join()
    assert not wrong
    assert loaded.stats()["retired"] == 0
