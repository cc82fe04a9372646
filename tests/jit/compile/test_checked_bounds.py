"""Bounds of parameters that the boundary checks before each call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import relax as R

from opinfo.byoc.compile import SharedWork
from opinfo.byoc.dispatching.dispatch_request import DispatchOptions, plan_layouts, read_request
from opinfo.byoc.matching.lowered import Lowered
from opinfo.byoc.patterns.value_bounds import bounds
from opinfo.jit.arguments.checked_bounds import checked_bounds
from opinfo.jit.arguments.signature import Signature

op = relax.op


def found(mod: Any) -> dict[str, dict[int, tuple[int, int]]]:
    functions = {g.name_hint: f for g, f in mod.functions_items() if isinstance(f, relax.Function)}
    return checked_bounds(mod, {n: Signature.of(f, n) for n, f in functions.items()
                                if "global_symbol" in (f.attrs or {})})  # fmt: skip


def taken(rows: Any, shape: Any = (3,), build: Any = None) -> Any:
    """Rows of a table at ids; by default also the ids below 5."""
    table = relax.Var("table", relax.TensorType((rows, 2), "float32"))
    ids = relax.Var("ids", relax.TensorType(shape, "int64"))
    builder = relax.BlockBuilder()
    with builder.function("main", [table, ids]):
        with builder.dataflow():
            out = (build or (lambda e, t, i: e(op.take(t, i, 0))))(builder.emit, table, ids)
            out = builder.emit_output(out)
        builder.emit_func_output(out)
    return builder.get()


def from_the_end(emit: Any, table: Any, ids: Any) -> Any:
    last = emit(op.add(ids, relax.const(7, "int64")))
    below = emit(op.less(ids, relax.const(0, "int64")))
    return emit(op.take(table, emit(op.where(below, last, ids)), 0))


def twice(emit: Any, table: Any, ids: Any) -> Any:
    """Rows of the table and of a shorter one."""
    short = emit(op.strided_slice(table, [0], [0], [4]))
    return emit(op.add(emit(op.take(table, ids, 0)), emit(op.take(short, ids, 0))))


def at_points(emit: Any, table: Any, ids: Any) -> Any:
    return emit(op.gather_nd(table, ids))


@pytest.mark.parametrize(
    ("mod", "expected"),
    [
        (taken(7), {"main": {1: (0, 6)}}),
        (taken(7, build=from_the_end), {"main": {1: (-7, 6)}}),
        (taken(7, build=twice), {"main": {1: (0, 3)}}),
        (taken(7, (3, 2), at_points), {"main": {1: (0, 6)}}),
        (taken(7, (3, 1), at_points), {"main": {1: (0, 6)}}),
        (taken(tvm.tirx.Var("n", "int64")), {}),
        (taken(0), {}),
        (taken(7, build=lambda e, t, i: e(op.take(t, i, 0, "clip"))), {}),
        (taken(7, build=lambda e, t, i: e(op.take(t, e(op.add(i, i)), 0))), {}),
    ],
)
def test_bounds_are_what_the_call_checks(mod: Any, expected: Any) -> None:
    assert found(mod) == expected


def test_a_read_in_a_branch_bounds_nothing() -> None:
    @tvm.script.ir_module
    class Branch:
        @R.function
        def main(
            c: R.Tensor((), "bool"), table: R.Tensor((7,), "float32"), ids: R.Tensor((7,), "int64")
        ) -> R.Tensor((7,), "float32"):
            if c:
                y = R.take(table, ids, axis=0)
            else:
                y = table
            return y

    assert found(Branch) == {}


def test_a_function_that_the_module_calls_has_no_bounds() -> None:
    """Its other caller checks nothing."""

    @tvm.script.ir_module
    class Called:
        @R.function
        def rows(table: R.Tensor((7,), "float32"), ids: R.Tensor((3,), "int64")) -> R.Tensor(
            (3,), "float32"
        ):
            return R.take(table, ids, axis=0)

        @R.function
        def main(table: R.Tensor((7,), "float32"), ids: R.Tensor((3,), "int64")) -> R.Tensor(
            (3,), "float32"
        ):
            cls = Called
            y = cls.rows(table, ids)
            return y

    assert found(Called) == {}


def test_the_plan_of_layouts_and_the_dispatch_have_the_same_bounds() -> None:
    mod = taken(7, build=lambda e, t, i: e(op.take(t, i, 0)))
    shared = SharedWork(mod, found(mod))
    options = DispatchOptions(layouts="best", proofs=shared.proofs)
    request = read_request(shared.prepare(), [], options)
    planned = plan_layouts(request, options)
    assert [_of_ids(r) for r in (request.original, request.lowered, planned.lowered)] == 3 * [
        (0.0, 6.0)]  # fmt: skip
    assert _of_ids(read_request(shared.prepare(), [], DispatchOptions()).lowered) is None


def _of_ids(lowered: Lowered) -> Any:
    (value,) = {v for op in lowered.ops for v in op.inputs if v is not None and v.name == "ids"}
    return bounds(value, lowered.infos)


def test_elements_that_are_taken_have_the_bounds_of_the_data() -> None:
    def build(emit: Any, table: Any, ids: Any) -> Any:
        rows = relax.const(np.array([3, -5, 8]), "int64")
        picked = emit(op.take(rows, ids, 0))
        return emit(op.take(table, emit(op.add(picked, relax.const(5, "int64"))), 0))

    mod = taken(14, build=build)
    shared = SharedWork(mod, found(mod))
    lowered = read_request(shared.prepare(), [], DispatchOptions(proofs=shared.proofs)).lowered
    names = {lowered.name_of(o): bounds(o.outputs[0], lowered.infos) for o in lowered.ops[:2]}
    assert names == {"relax.take": (-5.0, 8.0), "relax.add": (0.0, 13.0)}
