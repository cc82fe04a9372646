"""Regions from Relax in OpenVINO: what they compare is clamped, and no more is wide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.byoc import dispatch
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.prepare.prepare import prepare
from opinfo.jit.arguments.acceptor import BoundaryError

from .wide_cases import EDGES

pytestmark = pytest.mark.skipif(bool(find("openvino").available()), reason="no OpenVINO")
op = relax.op
N = len(EDGES)


def _masked(n: Any, build: Any, *params: Any) -> tvm.IRModule:
    """x where a condition of m holds, else 0."""
    x = relax.Var("x", relax.TensorType((n,), "float32"))
    m = relax.Var("m", relax.TensorType((n,), "int64"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, m, *params]):
        with builder.dataflow():
            condition = build(builder.emit, m, *params)
            y = builder.emit(op.where(condition, x, relax.const(0.0)))
            out = builder.emit_output(builder.emit(op.multiply(y, relax.const(2.0))))
        builder.emit_func_output(out)
    return builder.get()


def _less(e: Any, m: Any) -> Any:
    return e(op.less(m, relax.const(5, "int64")))


CONDITIONS: dict[str, tuple[Any, Any]] = {
    "less": (_less, lambda m: m < 5),
    "bool": (lambda e, m: e(op.astype(m, "bool")), lambda m: m != 0),
    "two": (lambda e, m: e(op.logical_and(_less(e, m), e(op.greater_equal(
        m, relax.const(-(2**24) + 1, "int64"))))), lambda m: (m < 5) & (m > -(2**24))),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_region_compares_clamped_integers(name: str, tmp_path: Path) -> None:
    build, expected = CONDITIONS[name]
    compiled = opinfo.compile(_masked(N, build), ["openvino"])
    assert compiled.dispatched is not None and not compiled.dispatched.left
    x = np.arange(1, N + 1, dtype="float32")
    reference = np.where(expected(EDGES), x, 0) * 2
    np.testing.assert_array_equal(compiled.run(x, EDGES), reference)
    compiled.export(tmp_path / "library.so")
    module = tvm.runtime.load_module(str(tmp_path / "library.so"))
    main = relax.VirtualMachine(module, tvm.cpu())["main"]
    out = main(tvm.runtime.tensor(x), tvm.runtime.tensor(EDGES)).numpy()
    np.testing.assert_array_equal(out, reference)


def test_a_session_clamps_too() -> None:
    n = tvm.tirx.Var("n", "int64")
    compiled = opinfo.compile(_masked(n, _less), ["openvino"], shapes={"n": (1, 64)})
    assert compiled.dispatched is not None
    assert {t.backend for t in compiled.dispatched.taken} == {"openvino"}
    session = opinfo.Session(compiled.library)
    for numbers in (EDGES, EDGES[:3], np.full(7, 2**32)):
        x = np.arange(1, len(numbers) + 1, dtype="float32")
        expected = np.where(numbers < 5, x, 0) * 2
        np.testing.assert_array_equal(np.from_dlpack(session(x, numbers)), expected)


KEPT: dict[str, Any] = {
    "a sum": lambda e, m: _less(e, e(op.add(m, relax.const(1, "int64")))),
    "a reshape": lambda e, m: e(op.reshape(_less(e, e(op.reshape(m, (1, N)))), (N,))),
    "the end of float32": lambda e, m: e(op.less(m, relax.const(2**24, "int64"))),
    "itself": lambda e, m: e(op.less(m, e(op.flip(m, 0)))),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_needs_64_bits_stays_with_tvm(name: str) -> None:
    mod = prepare(_masked(N, KEPT[name]), ["openvino"])
    done = dispatch(mod, ["openvino"])
    assert any("is int64, which OpenVINO rounds beyond 2^24" in o.why for o in done.left)


def test_an_index_of_a_symbolic_axis_is_not_clamped() -> None:
    """The axis may be longer than 2^24."""
    k = tvm.tirx.Var("k", "int64")
    table = relax.Var("table", relax.TensorType((k,), "int64"))

    def build(e: Any, m: Any, table: Any) -> Any:
        taken = e(op.less(e(op.take(table, m, 0)), relax.const(5, "int64")))
        return e(op.logical_and(taken, _less(e, m)))

    done = dispatch(prepare(_masked(N, build, table), ["openvino"]), ["openvino"])
    assert [o.op for o in done.left if "is int64" in o.why] == ["relax.take", "relax.less"]


def test_ids_of_a_symbolic_number_have_the_bounds_that_a_session_checks(tmp_path: Path) -> None:
    n = tvm.tirx.Var("n", "int64")
    table = relax.Var("table", relax.TensorType((100,), "float32"))
    ids = relax.Var("ids", relax.TensorType((n,), "int64"))
    builder = relax.BlockBuilder()
    with builder.function("main", [table, ids]):
        with builder.dataflow():
            row = builder.emit(op.take(table, ids, 0))
            next_id = builder.emit(op.add(ids, relax.const(1, "int64")))
            out = builder.emit(op.multiply(row, builder.emit(op.astype(next_id, "float32"))))
            out = builder.emit_output(out)
        builder.emit_func_output(out)
    compiled = opinfo.compile(builder.get(), ["openvino"], shapes={"n": (1, 64)})
    assert compiled.dispatched is not None and not compiled.dispatched.left
    values = np.random.default_rng(0).standard_normal(100, "float32")
    numbers = np.array([0, 99, 7], "int64")
    compiled.export(tmp_path / "ids.so")
    with opinfo.Session(tmp_path / "ids.so") as session:
        got = session(values, numbers).numpy()
        np.testing.assert_allclose(got, values[numbers] * (numbers + 1), rtol=1e-6)
        with pytest.raises(BoundaryError, match="has the element 100"):
            session(values, np.array([0, 100], "int64"))
