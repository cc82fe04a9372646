"""Numbers that a function gets are dimensions, and dimensions have the names of their places."""

from __future__ import annotations

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
    Generic,
    Jit,
    Session,
    compile_shapes,
    specialize_shapes,
)
from opinfo.jit.arguments.boundary import Boundary
from opinfo.jit.arguments.signature import Signature
from opinfo.jit.compile.compile_shapes import lowered
from opinfo.jit.compile.specialize import _generic
from opinfo.jit.config.named_dims import resolved
from tests.jit import modules


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
    (function,) = done.functions
    assert isinstance(function.strategy, Aot) and function.why == why
    func = done.module[function.function].with_attr("global_symbol", "f")
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
    """The schedule is for n >= 1; for others, the sum over no rounds is what it starts with."""
    made, scheduled = _generic(rounds, "f", native_target())
    assert scheduled.rule != "none"
    built = tvm.tirx.build(tvm.IRModule({"f": made}), native_target())["f"]
    x = np.arange(4, dtype="float32")
    for n in (-3, 0, 1, 5):
        y = tvm.runtime.tensor(np.full(4, 9, "float32"))
        built(tvm.runtime.tensor(x), n, y)
        np.testing.assert_array_equal(y.numpy(), x * max(n, 0))


def test_dimensions_have_the_name_of_their_place_too() -> None:
    given = Config(Aot({"x:0": (3, 5)}), dims={"x:0": Dim(1, 64)})
    (function,) = specialize_shapes(lowered(modules.dense()), given).functions
    assert function.why == "2 shapes"


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


def test_two_dimensions_of_one_name_are_given_by_place() -> None:
    message = "several dimensions are named n: give the place instead, one of x:0, y:0"
    with pytest.raises(ValueError, match=message):
        specialize_shapes(lowered(two()), Config("aot", dims={"n": Dim(1, 8)}))
    declared = resolved(Config(dims={"y:0": Dim(1, 8)}), two()).dims
    boundary = Boundary(Signature.of(two()["main"]), declared, strict=True)
    x, y, short = (tvm.runtime.empty(s, "float32") for s in ((9, 4), (9, 6), (8, 6)))
    boundary([x, short])
    with pytest.raises(ValueError, match=r"dimension 0 of argument y .* is 9; expected 1 to 8"):
        boundary([x, y])
    given = Config(Aot({"y:0": (3, 4, 5)}), dims={"x:0": Dim(likely=(2,))})
    functions = specialize_shapes(lowered(two()), given).functions
    assert [t.why for t in functions] == ["1 shape", "3 shapes"]


def test_a_dimension_that_is_not_there_is_refused() -> None:
    message = r"unknown dimension m; the dimensions of the model: n \(x:0\)"
    for given in (Config(dims={"m": Dim()}), Config(Aot({"m": (1,)}))):
        with pytest.raises(ValueError, match=message):
            specialize_shapes(lowered(modules.dense()), given)
