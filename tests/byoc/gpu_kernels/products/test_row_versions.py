"""Functions with packed weights and a symbolic number of rows get a version for one row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis.composites import group_dequantize
from opinfo.byoc.backends.nvidia.grouped_weights.packed_products import fuse_packed
from opinfo.byoc.backends.nvidia.tvm_schedules import scheduled
from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.prepare.gpu.row_versions import row_versions
from opinfo.byoc.prepare.prepare import prepare
from opinfo.testing.unoptimised import unoptimised

from ....common.prim_funcs import prim_funcs
from ....common.run import run
from ..gpu_cases import TARGET
from .test_packed_products import CUBLASLT, dispatched, unpacked

OP, WIDTH = relax.op, 256
N, M = (tirx.Var(name, "int64") for name in "nm")


def net(
    rows: Any, *, constant: bool = False, packed: bool = True, flat: bool = False,
    pair: bool = False, private: bool = False,
) -> Any:  # fmt: skip
    """A function of x, words and a scale: x · the weights + x; perhaps of a pair with a cache."""
    rng = np.random.default_rng(0)
    words_type = relax.TensorType((WIDTH, WIDTH // 8), "uint32")
    params = [
        relax.Var("x", relax.TensorType((1, rows, WIDTH), "float16")),
        relax.Var("words", words_type),
        relax.Var("scale", relax.TensorType((WIDTH, WIDTH // 32), "float16")),
    ]
    if pair:
        cache = relax.TensorType((1, M, WIDTH), "float16")
        params.append(relax.Var("pair", relax.TupleType([params[0].ty, cache])))
    bb = relax.BlockBuilder()
    with bb.function("main", params, private=private):
        with bb.dataflow():
            x, words, scale = params[:3]
            if constant:
                drawn = rng.integers(0, 2**32, (WIDTH, WIDTH // 8), "uint32")
                words = relax.const(drawn, "uint32")
            w = bb.emit(group_dequantize(words, scale, bits=4, group_size=32, axis=1, offset=7.0))
            w = w if packed else bb.emit(OP.exp(w))
            turned = bb.emit(OP.permute_dims(w))
            left = bb.emit(OP.reshape(x, (2, 2, WIDTH))) if flat else x
            out = bb.emit(OP.matmul(left, turned))
            out = out if flat else bb.emit(OP.add(out, x))
            if pair:
                both = [bb.emit(relax.TupleGetItem(params[3], k)) for k in (0, 1)]
                out = relax.Tuple([bb.emit(OP.add(out, both[0])), bb.emit(OP.abs(both[1]))])
            result = bb.emit_output(out)
        bb.emit_func_output(result)
    return bb.get()


def functions(mod: Any) -> set[str]:
    return {g.name_hint for g, f in mod.functions_items() if isinstance(f, relax.Function)}


def operands(rows: int) -> list[Any]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, rows, WIDTH)).astype("float16")
    words = rng.integers(0, 2**32, (WIDTH, WIDTH // 8), "uint32")
    return [x, words, (rng.random((WIDTH, WIDTH // 32)) / 8).astype("float16")]


def test_one_row_is_left_and_the_others_are_taken() -> None:
    made = dispatched(net(N))
    assert [t.backend for t in made.taken] == ["cublaslt"]
    assert functions(made.module) == {"main", "main_n1", "main_any"}
    fused = fuse_packed(fuse(made.module))
    kernels = [f.script() for f in prim_funcs(scheduled(fused, TARGET))]
    assert len(kernels) == 2 and sum("reinterpret" in text for text in kernels) == 1


@pytest.mark.parametrize("rows", [1, 3])
def test_both_versions_compute_the_product(rows: int) -> None:
    mod = prepare(net(N), [CUBLASLT])
    assert functions(mod) == {"main", "main_n1", "main_any"}
    x, words, scale = operands(rows)
    (got,) = run(mod, [x, words, scale])
    want = x.astype(float) @ unpacked(words, scale.astype(float), 4, 7).T + x
    np.testing.assert_allclose(got, want, 2e-2, 1e-1)  # it sums in halves


@pytest.mark.parametrize("rows", [1, 2])
def test_tuples_are_passed_on(rows: int) -> None:
    mod = row_versions(net(N, pair=True))
    relax.analysis.well_formed(mod)
    assert functions(mod) == {"main", "main_n1", "main_any"}
    single = next(f for g, f in mod.functions_items() if g.name_hint == "main_n1")
    assert [v.name for v in relax.analysis.defined_symbolic_vars(single)] == ["m"]
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    put = tvm.runtime.tensor
    values, more = operands(rows), np.full((1, 5, WIDTH), -2, "float16")
    first, second = machine["main"](*map(put, values), [put(values[0]), put(more)])
    assert first.numpy().shape == values[0].shape
    np.testing.assert_array_equal(second.numpy(), -more)


def test_the_choice_keeps_what_callers_see() -> None:
    mod = net(N)
    mod.update_func(mod.get_global_var("main"), mod["main"].with_attrs({
        "num_input": 1, "tir_var_upper_bound": {"n": 64}}))  # fmt: skip
    out = row_versions(mod)
    attrs = {g.name_hint: dict(f.attrs or {}) for g, f in out.functions_items()}
    assert attrs["main"].keys() == {"global_symbol", "num_input"}
    assert "global_symbol" not in attrs["main_n1"].keys() | attrs["main_any"].keys()
    assert dict(attrs["main_any"]["tir_var_upper_bound"]) == {"n": 64}
    assert [str(p.ty) for p in out["main"].params] == [str(p.ty) for p in mod["main"].params]


@pytest.mark.parametrize(
    "changed",
    [{"rows": 1}, {"rows": 4}, {"rows": 2 * N}, {"constant": True}, {"packed": False},
     {"private": True}, {"rows": 4, "flat": True}],
)  # fmt: skip
def test_other_functions_stay(changed: dict[str, Any]) -> None:
    mod = net(**{"rows": N, **changed})
    assert row_versions(mod).same_as(mod)
