"""Which products with weights of few bits are taken, in which forms, and which are refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.script import tirx as T

import opinfo
from opinfo.analysis.composites.grouped import group_dequantize
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import Preparer, prepare
from opinfo.front.backend_choice import choose_backends
from opinfo.transform import FuseDequantize

from .weight_only_cases import BACKENDS, M, Quantized, dispatched, function, product, weights

Array = npt.NDArray[Any]
op, nn = relax.op, relax.op.nn


Q, BY_ROWS = Quantized((20, 96)), Quantized((96, 64), axis=0, scales="float32")


REFUSED = {
    "along the columns": lambda e, x: e(op.matmul(
        x, weights(e, Quantized((96, 64), scales="float32")))),
    "not a product of the last axis": lambda e, x: e(op.matmul(
        x, e(op.reshape(weights(e, BY_ROWS), (1, 96, 64))))),
    "groups of 8 values": lambda e, x: product(
        e, x, weights(e, Quantized((20, 96), group=8))),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_other_products_stay_with_their_reason(reason: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = dispatched(REFUSED[reason], (3, 96))
    assert not done.taken
    texts = [left.why for left in done.left] + [str(w.message) for w in caught]
    assert any(reason in text for text in texts), texts


OUT_OF_RANGE = {"not finite": (np.inf, 7.0), "may exceed the range of float16": (200.0, 400.0)}


@pytest.mark.parametrize("reason", OUT_OF_RANGE)
def test_weights_out_of_range_stay_with_tvm(reason: str) -> None:
    words, scales = Q.arrays()
    scales[3, 1], offset = OUT_OF_RANGE[reason]

    def build(emit: Any, x: Any) -> Any:
        w = group_dequantize(relax.const(words), relax.const(scales),
                             **Q.attrs() | {"offset": offset})  # fmt: skip
        return product(emit, x, w)

    with pytest.warns(UserWarning, match=reason):
        done = dispatched(build, (3, 96))
    assert not done.taken and reason in done.failed[0].reason


def _after_q4(emit: Any, x: Any, z: Any) -> Any:
    return emit(op.add(product(emit, x, weights(emit, Q)), z))


FUSE = [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(),
        relax.transform.FuseTIR()]  # fmt: skip


@pytest.mark.parametrize("passes", [[], FUSE, [*FUSE, FuseDequantize()]])
def test_lowered_and_fused_forms(passes: list[Any]) -> None:
    shapes = (M, 1, 96), (M, 1, 20)
    mod = relax.transform.LegalizeOps()(function(_after_q4, *shapes))
    fused = tvm.transform.Sequential(passes)(mod)
    done = dispatch(prepare(fused, BACKENDS), BACKENDS)
    assert [len(r.ops) for r in done.taken] == [5] and not done.left


def test_a_transposed_product_is_a_product() -> None:
    @T.prim_func(private=True, s_tir=True)
    def f(a: T.Buffer((2, 1, 96), "float32"), b: T.Buffer((20, 96), "float32"),
          c: T.Buffer((2, 1, 20), "float32")) -> None:  # fmt: skip
        for i, j, k in T.grid(2, 20, 96):
            with T.sblock("c"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    c[vi, 0, vj] = T.float32(0)
                c[vi, 0, vj] = c[vi, 0, vj] + a[vi, 0, vk] * b[vj, vk]

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 1, 96), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            w = builder.emit(op.astype(weights(builder.emit, Q), "float32"))
            g = builder.add_func(f, "anything")
            out = relax.call_tir(g, [x, w], out_ty=relax.TensorType((2, 1, 20), "float32"))
            out = builder.emit_output(out)
        builder.emit_func_output(out)
    done = dispatch(prepare(builder.get(), BACKENDS), BACKENDS)
    (region,) = done.taken
    assert "relax.nn.transposed_matmul" in region.ops and "relax.nn.group_dequantize" in region.ops


def test_a_table_that_is_gathered_from_is_not_stored_in_full() -> None:
    tied = Quantized((20, 96), scales="float32")

    def build(emit: Any, x: Any, tokens: Any) -> Any:
        w = weights(emit, tied)
        rows = emit(op.take(w, tokens, axis=0))
        return emit(op.matmul(emit(op.add(x, rows)), emit(op.permute_dims(w))))

    mod = prepare(function(build, (3, 96), relax.TensorType((3,), "int32")), BACKENDS)
    constants: list[Any] = []
    tvm_ffi.structural_walk(mod["main"], (tvm.ir.GenericConst, constants.append))
    assert max(np.prod(c.value.shape) for c in constants) < 20 * 96
    assert [r.backend for r in dispatch(mod, BACKENDS).taken] == ["weight_only"]


def test_it_is_chosen_by_default() -> None:
    big = Quantized((512, 512), scales="float32")

    def build(emit: Any, x: Any) -> Any:
        return emit(op.matmul(x, emit(op.permute_dims(weights(emit, big)))))

    for rows in (1, 128):
        mod = function(build, (rows, 512))
        assert Preparer(mod).few_bits
        done = opinfo.dispatch(mod)
        assert [r.backend for r in done.taken] == ["weight_only"]


def test_coarse_runtimes_are_not_defaults_beside_weight_only() -> None:
    with_runtimes, without = (choose_backends(None, None, None, few_bits=b) for b in (False, True))
    assert not any(find(str(name)).coarse for name in without.backends)
    left_out = set(with_runtimes.backends) - set(without.backends)
    assert all(find(str(name)).coarse for name in left_out)
    assert "weight_only" in without.backends
