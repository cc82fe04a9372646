"""Strategies of functions: which is chosen, what it makes of the module, why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, cast

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.script import tirx as T

from opinfo.byoc import Code, Region
from opinfo.byoc.backend.catalog import _REGISTRY, find
from opinfo.byoc.codegen.host import native_target
from opinfo.jit import (
    Aot,
    Config,
    Dim,
    Generic,
    Jit,
    Library,
    Record,
    Session,
    compile_shapes,
    specialize_shapes,
)
from opinfo.jit.aot.kernel_variants import Bucket, Exact
from opinfo.jit.arguments.boundary import Boundary
from opinfo.jit.arguments.signature import Signature
from opinfo.jit.compile.compile_shapes import lowered
from opinfo.jit.compile.specialize import _generic
from opinfo.jit.config.named_dims import resolved
from opinfo.jit.config.strategy import strategy
from opinfo.jit.schedule import Scheduled
from tests.jit import modules
from tests.jit.legalised import module


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


def attention(session: Session, n: int, m: int) -> None:
    """Call `modules.attention` and compare."""
    q, k = modules.rows(n), modules.rows(m + 10)[:m]
    scores = q @ k.T
    e = np.exp(scores - scores.max(-1, keepdims=True))
    got = session(tvm.runtime.tensor(q), tvm.runtime.tensor(k)).numpy()
    np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True) @ k, rtol=1e-4, atol=1e-5)


def calls(mod: Any) -> list[str]:
    """What is called in a module, in order."""
    found: list[str] = []

    def visit(e: Any) -> None:
        if isinstance(e, tvm.ir.Call) and getattr(e.op, "name", "").startswith("relax.call"):
            target = e.args[0]
            found.append(getattr(target, "name_hint", None) or str(target.global_symbol))

    for f in mod.functions.values():
        if isinstance(f, relax.Function):
            relax.analysis.post_order_visit(f, visit)
    return found


def test_the_input_is_as_it_was_and_calls_are_sites() -> None:
    mod = lowered(modules.dense(2))
    before = tvm.ir.save_json(mod)
    done = specialize_shapes(mod, "jit")
    assert tvm.ir.save_json(mod) == before
    assert calls(mod) == ["fused_matmul_relu"] * 2
    assert calls(done.module) == ["opinfo_site_0", "opinfo_site_1"]
    assert [t.rule for t in done.functions] == ["contraction"]


def test_generic_calls_stay_calls() -> None:
    done = specialize_shapes(lowered(modules.dense()), "generic")
    assert calls(done.module) == ["fused_matmul_relu"]


def test_a_function_goes_before_an_operator_before_the_default() -> None:
    given = Config("jit", by_function={"fused_matmul_relu": Record()},
                   by_op={"relax.matmul": Generic()})  # fmt: skip
    done = specialize_shapes(lowered(modules.dense()), given)
    assert [t.strategy for t in done.functions] == [Record()]
    by_op = specialize_shapes(
        lowered(modules.dense()), Config("jit", by_op={"relax.nn.relu": Aot()})
    )
    assert by_op.functions[0].strategy == Generic()
    assert by_op.functions[0].why.startswith("no values are declared for n")


@pytest.mark.parametrize("pad", [False, True])
def test_declared_shapes_are_compiled_ahead(pad: bool) -> None:
    given = Config(Aot(pad=pad), dims={"n": Dim(1, 16, likely=(1, 4, 9))})
    done = compile_shapes(modules.dense(), given)
    (told,) = done.functions
    assert told.why == ("3 shapes, padded in n, 1 range" if pad else "3 shapes, 1 range")
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


@pytest.mark.parametrize("how", ["jit", Aot({"n": (2, 4)})], ids=["jit", "aot"])
def test_a_dimension_may_stand_alone_in_the_result_only(how: Any) -> None:
    """Of the reshape, which is fused with nothing: its operand has n * 2 rows."""
    bb = relax.BlockBuilder()
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n * 2, 3), "float32"))
    like = relax.Var("like", relax.TensorType((n,), "float32"))
    with bb.function("main", [x, like]):
        with bb.dataflow():
            gv = bb.emit_output(relax.op.permute_dims(relax.op.reshape(x, (n, 6))))
        bb.emit_func_output(gv)
    done = compile_shapes(bb.get(), how)
    with Session(done) as session:
        for size in (1, 2, 2, 4, 5):
            rows = modules.rows(2 * size)[:, :3].copy()
            got = session(rows, np.zeros(size, "float32")).numpy()
            np.testing.assert_array_equal(got, rows.reshape(size, 6).T)


@pytest.mark.parametrize("how", ["jit", "record", Aot({"n": (2, 4)})], ids=["jit", "record", "aot"])
def test_a_function_may_have_several_results(how: Any) -> None:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), 6), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            both = bb.emit(relax.op.split(x, 2, 1))
            gv = bb.emit_output(relax.Tuple([both[1], both[0]]))
        bb.emit_func_output(gv)
    done = compile_shapes(bb.get(), how)
    assert [t.strategy for t in done.functions] == [strategy(how)]
    with Session(done) as session:
        for n in (1, 2, 2, 4, 5):
            rows = modules.rows(n)[:, :6].copy()
            right, left = session(rows)
            np.testing.assert_array_equal(left.numpy(), rows[:, :3])
            np.testing.assert_array_equal(right.numpy(), rows[:, 3:])


def test_dimensions_whose_paddings_differ_are_not_both_padded() -> None:
    """Of a sum over n and a largest over m of one tensor."""
    mod = modules_of_both()
    given = Aot({"n": (4,), "m": (4,)}, pad=True, finite=True)
    done = compile_shapes(mod, given)
    (told,) = done.functions
    assert "the padding of parameter 0 would hold" in told.why
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
    (told,) = done.functions
    assert told.why.startswith("1 shape") and "1 skipped: a tensor is empty" in told.why
    with Session(done) as session:
        for n in (3, 5, 8, 9):
            x = np.random.default_rng(n).standard_normal((1, 2, n)).astype("float32")
            w = np.ones((3, 2, 3), "float32")
            right = np.lib.stride_tricks.sliding_window_view(x, 3, 2).sum((1, 3))
            np.testing.assert_allclose(session(x, w).numpy()[0], [right[0]] * 3, rtol=1e-4)


@pytest.mark.parametrize("place", ["x:0", "y:0"])
def test_dimensions_of_one_name_are_compiled_by_place(place: str) -> None:
    bb = relax.BlockBuilder()
    x, y = (relax.Var(k, relax.TensorType((tirx.Var("n", "int64"), 4), "float32")) for k in "xy")
    with bb.function("main", [x, y]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.concat([x, y], 0))
        bb.emit_func_output(out)
    done = compile_shapes(bb.get(), Config(Generic(), dims={place: Dim(1, 8)}))
    shapes = [(9, 4), (2, 4)] if place == "x:0" else [(2, 4), (9, 4)]
    with Session(done, strict=True) as session, pytest.raises(ValueError, match="1 to 8"):
        session(*(tvm.runtime.tensor(np.zeros(s, "float32")) for s in shapes))


@pytest.mark.parametrize(
    ("made", "told"),
    [(lambda: Dim(likely=(cast("int", 2.0),)), "a likely value: expected an integer, got 2.0"),
     (lambda: Dim(cast("int", 1.5), 8), "low: expected an integer, got 1.5"),
     (lambda: Aot({"n": (cast("int", 1.5),)}), "expected positive integers"),
     (lambda: specialize_shapes(lowered(modules.dense()), Config(dims={"n": cast("Dim", (1, 8))})),
      r"dims: n: expected a Dim, such as Dim\(1, 8\), got \(1, 8\)")],
)  # fmt: skip
def test_numbers_that_are_none_are_told(made: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        made()
    assert Aot({"n": (cast("int", np.int64(4)),)}).buckets == {"n": (4,)}


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


def test_more_shapes_than_allowed_are_left_and_told() -> None:
    given = Config(Aot(max_variants=2), dims={"n": Dim(likely=(1, 2, 3))})
    (told,) = specialize_shapes(lowered(modules.dense()), given).functions
    assert told.why == "2 shapes; 1 more served by the generic kernel"


def test_functions_of_one_shape_are_scheduled() -> None:
    bound = relax.transform.BindSymbolicVars({"n": 5})(modules.dense())
    (told,) = specialize_shapes(lowered(bound), "jit").functions
    assert told.strategy == Generic() and told.rule == "contraction"


@pytest.mark.parametrize(
    ("given", "told"),
    [("fast", "expected a strategy or one of generic, aot, jit, library, record, got 'fast'"),
     (Config("jit", by_op={"relax.add": "quick"}), "got 'quick'")],
)  # fmt: skip
def test_what_is_no_strategy_is_refused(given: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        specialize_shapes(lowered(modules.dense()), given)


@pytest.mark.parametrize(
    ("make", "told"),
    [(lambda: Jit("soon"),  # type: ignore[arg-type]
      'expected "lazy" or "eager", got \'soon\''),
     (lambda: Jit(threshold=0), "threshold must be at least 1, got 0"),
     (lambda: Dim(4, 8, likely=(2,)), "the likely value 2 is not in 4 to 8"),
     (lambda: Dim(9, 8), "the range is empty")],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(make: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make()


def sliced() -> Any:
    """``x[1:n]`` of x: (2 * n, 8): the function is passed n as a number."""
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n * 2, 8), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, relax.Var("s", relax.ShapeType([n]))]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.strided_slice(x, [0], [1], [n]))
        bb.emit_func_output(out)
    return bb.get()


def test_numbers_that_are_passed_are_dimensions() -> None:
    """The site reads them off the arguments; each shape gets its kernel."""
    with Session(compile_shapes(sliced(), Jit(threshold=1))) as session:
        for _ in range(30):  # a call that meets a lock is not counted
            for n in (1, 2):
                x = np.arange(16 * n, dtype="float32").reshape(2 * n, 8)
                got = session(x, tvm_ffi.Shape([n])).numpy()
                np.testing.assert_array_equal(got, x[1:n])
            (site,) = session.stats().sites
            if site.hits >= 2:
                break
            session.settle()
        assert dict(session.stats().counts) == {"compiled": 2}
        assert set(site.shapes) == {(1,), (2,)}


@pytest.mark.parametrize(
    ("how", "why"),
    [(Aot({"n": (1, 4)}), "1 shape; 1 skipped: a tensor is empty"),
     (Aot({"n": (2, 4)}), "2 shapes"), (Aot({"s:0": (4,)}), "1 shape"),
     (Aot(ranges={"n": ((2, 6),)}), "1 range")],
)  # fmt: skip
def test_numbers_that_are_passed_choose_the_kernel(how: Aot, why: str) -> None:
    done = specialize_shapes(lowered(sliced()), how)
    (told,) = done.functions
    assert isinstance(told.strategy, Aot) and told.why == why
    func = done.module[told.function].with_attr("global_symbol", "f")
    built = tvm.tirx.build(tvm.IRModule({"f": func}), "llvm")["f"]
    for n in (1, 2, 4, 6, 7):
        x = np.arange(16 * n, dtype="float32").reshape(2 * n, 8)
        y = tvm.runtime.tensor(np.full((n - 1, 8), np.nan, "float32"))
        built(tvm.runtime.tensor(x), n, y)
        np.testing.assert_array_equal(y.numpy(), x[1:n])


@T.prim_func(s_tir=True)
def rounds(x: T.Buffer((4,), "float32"), n: T.int64, y: T.Buffer((4,), "float32")) -> None:
    """``y = x * n`` by n additions: no shape has n."""
    T.func_attr({"tirx.noalias": True})
    for i, k in T.grid(4, n):
        with T.sblock("y"):
            vi, _ = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = y[vi] + x[vi]


def test_a_number_of_rounds_is_a_dimension_and_may_be_none() -> None:
    """The schedule is for n >= 1; others are left to the function as it was: nothing is stored."""
    made, told = _generic(rounds, "f", native_target())
    assert told.rule != "none"
    built = tvm.tirx.build(tvm.IRModule({"f": made}), native_target())["f"]
    x = np.arange(4, dtype="float32")
    for n in (-3, 0, 1, 5):
        y = tvm.runtime.tensor(np.full(4, 9, "float32"))
        built(tvm.runtime.tensor(x), n, y)
        np.testing.assert_array_equal(y.numpy(), x * n if n > 0 else np.full(4, 9))


def test_dimensions_have_the_name_of_their_place_too() -> None:
    given = Config(Aot({"x:0": (3, 5)}), dims={"x:0": Dim(1, 64)})
    (told,) = specialize_shapes(lowered(modules.dense()), given).functions
    assert told.why == "2 shapes"


def two() -> Any:
    """``relu(x)`` and ``relu(y)`` of x: (n, 4) and y: (n, 6), where the two n are not one."""
    bb = relax.BlockBuilder()
    x, y = (relax.Var(k, relax.TensorType((tirx.Var("n", "int64"), w), "float32"))
            for k, w in (("x", 4), ("y", 6)))  # fmt: skip
    with bb.function("main", [x, y]):
        with bb.dataflow():
            one, other = (bb.emit(relax.op.nn.relu(v)) for v in (x, y))
            out = bb.emit_output(relax.Tuple([one, other]))
        bb.emit_func_output(out)
    return bb.get()


def test_two_dimensions_of_one_name_are_told_apart_by_their_places() -> None:
    told_so = "several dimensions are named n: give the place instead, one of x:0, y:0"
    with pytest.raises(ValueError, match=told_so):
        specialize_shapes(lowered(two()), Config("aot", dims={"n": Dim(1, 8)}))
    declared = resolved(Config(dims={"y:0": Dim(1, 8)}), two()).dims
    boundary = Boundary(Signature.of(two()["main"]), declared, strict=True)
    x, y, short = (tvm.runtime.empty(s, "float32") for s in ((9, 4), (9, 6), (8, 6)))
    boundary([x, short])
    with pytest.raises(ValueError, match=r"dimension 0 of argument y .* is 9; expected 1 to 8"):
        boundary([x, y])
    given = Config(Aot({"y:0": (3, 4, 5)}), dims={"x:0": Dim(likely=(2,))})
    told = specialize_shapes(lowered(two()), given).functions
    assert [t.why for t in told] == ["1 shape", "3 shapes"]


def test_a_dimension_that_is_not_there_is_refused() -> None:
    told = r"unknown dimension m; the dimensions of the model: n \(x:0\)"
    for given in (Config(dims={"m": Dim()}), Config(Aot({"m": (1,)}))):
        with pytest.raises(ValueError, match=told):
            specialize_shapes(lowered(modules.dense()), given)


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


def test_a_library_is_no_strategy_of_a_fused_function() -> None:
    with pytest.raises(ValueError, match="the strategy of fused_matmul_relu is Library"):
        compile_shapes(modules.dense(), Config(by_function={"fused_matmul_relu": "library"}))


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


@pytest.mark.parametrize(
    ("given", "told"),
    [(Config(by_function={"no_such": "aot"}), "unknown PrimFunc no_such; known: "),
     (Config(by_op={"relax.matmull": "aot"}), "relax.matmull is neither an operator")],
)  # fmt: skip
def test_names_that_mean_nothing_are_refused(given: Config, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        specialize_shapes(lowered(modules.dense()), given)


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


def test_a_schedule_that_does_not_build_is_left_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """`free` is defined nowhere: TVM refuses the function."""

    def broken(func: Any, target: Any) -> Any:
        free = tirx.Var("free", "int64")
        body = tirx.IfThenElse(free > tirx.IntImm("int64", 0), func.body, None)
        made = tirx.PrimFunc(func.params, body, func.ret_type, func.attrs)
        return Scheduled(made, ("broken",))

    monkeypatch.setattr("opinfo.jit.compile.specialize.schedule", broken)
    for how in (Generic(), Aot({"n": (2,)})):
        done = compile_shapes(modules.dense(), Config(how))
        (told,) = done.functions
        assert told.rule == "none" and told.why.startswith("its schedule does not build: ")
        with Session(done) as session:
            x = modules.rows(2)
            np.testing.assert_allclose(session(x).numpy(), modules.expected(x), rtol=1e-4,
                                       atol=1e-5)  # fmt: skip


def test_modules_that_cannot_be_compiled_are_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match=r"expected a tvm.IRModule, got str"):
        compile_shapes("model.onnx")
    with pytest.raises(ValueError, match="the module has no Relax function"):
        compile_shapes(tvm.IRModule({}))
    with pytest.raises(ValueError, match="the target is cuda; symbolic shapes are"):
        compile_shapes(modules.dense(), target={"kind": "cuda", "arch": "sm_90"})
    kind = relax.TensorType((2, 4), "float32")
    x, free = relax.Var("x", kind), relax.Var("free", kind)
    func = relax.Function([x], relax.SeqExpr([], free), kind)
    with pytest.raises(ValueError, match="nothing defines the variable free of main"):
        compile_shapes(tvm.IRModule({"main": func}))
    monkeypatch.setattr("tvm.support.cc.get_cc", lambda: None)
    with pytest.raises(FileNotFoundError, match="no C\\+\\+ compiler on PATH"):
        compile_shapes(modules.dense())
