"""Kernels for declared shapes: which are made, with which copies, and at which dimensions."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.script import tirx as T

from opinfo.byoc.codegen.host_target import native_target
from opinfo.jit import (
    Aot,
    Config,
    Dim,
    Session,
    compile_shapes,
    specialize_shapes,
)
from opinfo.jit.aot.kernel_variants import Bucket, Exact
from opinfo.jit.compile.compile_shapes import lowered
from opinfo.jit.compile.specialize import _generic
from tests.jit import modules
from tests.jit.legalised import module

from .test_strategies import attention


@T.prim_func(s_tir=True)
def shifted(a: T.handle, first: T.Buffer((1,), "float32"), b: T.handle) -> None:
    """``b = [first, a[0], a[1], …]``."""
    n = T.int64()
    x = T.match_buffer(a, (n,), "float32")
    y = T.match_buffer(b, (n,), "float32")
    for i in T.grid(n):
        with T.sblock("y"):
            k = T.axis.remap("S", [i])
            y[k] = T.if_then_else(k < T.int64(1), first[0], x[k - T.int64(1)])


@pytest.mark.parametrize("pad", [False, True])
def test_declared_shapes_are_compiled_ahead(pad: bool) -> None:
    given = Config(Aot(pad=pad), dims={"n": Dim(1, 16, likely=(1, 4, 9))})
    done = compile_shapes(modules.dense(), given)
    (function,) = done.functions
    assert function.why == ("3 shapes, padded in n, 1 range" if pad else "3 shapes, 1 range")
    with Session(done) as session:
        for n in range(1, 17):
            x = modules.rows(n)
            np.testing.assert_allclose(session(x).numpy(), modules.expected(x), rtol=1e-4,
                                       atol=1e-5)  # fmt: skip


def test_buckets_of_two_dimensions_are_all_pairs() -> None:
    given = Config(Aot({"n": (1, 4), "m": (3, 8)}), dims={})
    done = compile_shapes(modules.attention(), given)
    assert {t.why for t in done.functions if "n" in str(t)} >= {"4 shapes"}
    with Session(done) as session:
        for n in (1, 3, 4):
            for m in (2, 3, 8):
                attention(session, n, m)


def test_padded_copies_share_no_memory() -> None:
    """TVM would put the result in the place of the operand that is read last, of which a schedule
    that computes some elements twice reads again."""
    mod = module(lambda x: relax.op.nn.log_softmax(x, 0), [(2, 1, "n", 3)])
    done = compile_shapes(mod, Aot({"n": (4, 8)}, pad=True))
    assert [t.why for t in done.functions] == ["2 shapes, padded in n"]
    with Session(done) as session:
        for n in (1, 2, 4, 5, 8, 9):
            x = np.random.default_rng(n).standard_normal((2, 1, n, 3)).astype("float32")
            right = x - np.log(np.exp(x).sum(0, keepdims=True))
            np.testing.assert_allclose(session(x).numpy(), right, rtol=1e-4, atol=1e-5)


def test_dimensions_whose_paddings_differ_are_not_both_padded() -> None:
    """Of a sum over n and a largest over m of one tensor."""
    mod = modules_of_both()
    given = Aot({"n": (4,), "m": (4,)}, pad=True, finite=True)
    done = compile_shapes(mod, given)
    (function,) = done.functions
    assert "the padding of parameter 0 would hold" in function.why
    with Session(done) as session:
        for n, m in [(1, 1), (2, 4), (4, 3), (4, 4), (5, 2)]:
            x = np.random.default_rng(n).standard_normal((n, m)).astype("float32")
            total, largest = session(x)
            np.testing.assert_allclose(total.numpy(), x.sum(0), rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(largest.numpy(), x.max(1))


def modules_of_both() -> Any:
    @T.prim_func(private=True, s_tir=True)
    def both(a: T.handle, b: T.handle, c: T.handle) -> None:
        T.func_attr({"tirx.noalias": True})
        n, m = T.int64(), T.int64()
        x = T.match_buffer(a, (n, m), "float32")
        total = T.match_buffer(b, (m,), "float32")
        largest = T.match_buffer(c, (n,), "float32")
        for j, k in T.grid(m, n):
            with T.sblock("total"):
                vj, vk = T.axis.remap("SR", [j, k])
                with T.init():
                    total[vj] = T.float32(0)
                total[vj] = total[vj] + x[vk, vj]
        for i, k in T.grid(n, m):
            with T.sblock("largest"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    largest[vi] = T.min_value("float32")
                largest[vi] = T.max(largest[vi], x[vi, vk])

    bb = relax.BlockBuilder()
    n, m = (tirx.Var(k, "int64") for k in "nm")
    x = relax.Var("x", relax.TensorType((n, m), "float32"))
    function = bb.add_func(both, "both")
    with bb.function("main", [x]):
        with bb.dataflow():
            types = [relax.TensorType((m,), "float32"), relax.TensorType((n,), "float32")]
            out = bb.emit_output(relax.call_tir(function, [x], types))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.parametrize("pad", [False, True])
def test_shapes_at_which_a_tensor_is_empty_are_left(pad: bool) -> None:
    """A window of 3 over 2 elements."""
    mod = module(lambda x, w: relax.op.nn.conv1d(x, w), [(1, 2, "n"), (3, 2, 3)])
    done = compile_shapes(mod, Aot({"n": (2, 8)}, pad=pad))
    (function,) = done.functions
    assert function.why.startswith("1 shape") and "1 skipped: a tensor is empty" in function.why
    with Session(done) as session:
        for n in (3, 5, 8, 9):
            x = np.random.default_rng(n).standard_normal((1, 2, n)).astype("float32")
            w = np.ones((3, 2, 3), "float32")
            right = np.lib.stride_tricks.sliding_window_view(x, 3, 2).sum((1, 3))
            np.testing.assert_allclose(session(x, w).numpy()[0], [right[0]] * 3, rtol=1e-4)


def test_a_buckets_own_shape_has_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    home = import_module("opinfo.jit.aot.multi_version")
    merge = home.merge

    def noted(func: Any, variants: Any) -> Any:
        seen.extend(variants)
        return merge(func, variants)

    monkeypatch.setattr(home, "merge", noted)
    specialize_shapes(lowered(modules.dense()), Aot({"n": (4, 8)}, pad=True))
    assert [type(v) for v in seen] == [Exact, Bucket, Exact, Bucket]
    assert [v.values["n"] for v in seen] == [4, 4, 8, 8]


def test_small_ranges_are_compiled_whole_and_large_ones_at_their_end() -> None:
    small = Config("aot", dims={"n": Dim(2, 8, 2)})
    assert specialize_shapes(lowered(modules.dense()), small).functions[0].why == "4 shapes"
    large = Config("aot", dims={"n": Dim(1, 1000)})
    assert specialize_shapes(lowered(modules.dense()), large).functions[0].why == (
        "1 shape, 2 ranges"
    )


def test_shapes_beyond_the_limit_use_the_generic_kernel() -> None:
    given = Config(Aot(max_variants=2), dims={"n": Dim(likely=(1, 2, 3))})
    (function,) = specialize_shapes(lowered(modules.dense()), given).functions
    assert function.why == "2 shapes; 1 more served by the generic kernel"


@pytest.mark.parametrize("how", ["generic", "jit"])
def test_where_a_dimension_is_nothing_nothing_is_stored(how: str) -> None:
    with Session(compile_shapes(modules.dense(), how)) as session:
        for _ in range(3):
            assert session(modules.rows(0)).numpy().shape == (0, modules.WIDTH)


def test_a_first_element_of_nothing_is_not_stored() -> None:
    made = _generic(shifted.with_attr("tirx.noalias", True), "f", native_target())[0]
    built = tvm.tirx.build(tvm.IRModule({"f": made}), native_target())["f"]
    memory, first = tvm.runtime.tensor(np.full(16, 7, "float32")), np.ones(1, "float32")
    nothing = tvm_ffi.from_dlpack(np.from_dlpack(memory)[:0])
    built(tvm.runtime.tensor(np.zeros(0, "float32")), tvm.runtime.tensor(first), nothing)
    assert np.all(memory.numpy() == 7)
    out = tvm.runtime.tensor(np.zeros(3, "float32"))
    built(tvm.runtime.tensor(np.arange(3, dtype="float32")), tvm.runtime.tensor(first), out)
    assert out.numpy().tolist() == [1, 0, 1]


def test_padding_that_needs_finite_inputs_is_asked_for() -> None:
    """0 in the padding of x times inf of s is NaN."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), 4), "float32"))
    s = relax.Var("s", relax.TensorType((1, 4), "float32"))
    with bb.function("main", [x, s]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.sum(relax.op.multiply(x, s), axis=[0]))
        bb.emit_func_output(out)
    mod = bb.get()
    given = Config(Aot({"n": (8,)}, pad=True))
    done = compile_shapes(mod, given)
    assert all("padded in" not in f.why for f in done.functions)
    factor = np.array([[np.inf, 1, 2, 3]], "float32")
    with Session(done) as session:
        got = session(np.ones((3, 4), "float32"), factor).numpy()
    np.testing.assert_array_equal(got, factor[0] * 3)
    asked = specialize_shapes(lowered(mod), Config(Aot({"n": (8,)}, pad=True, finite=True)))
    assert any("padded in n" in f.why for f in asked.functions)
