"""Rows of a table of few bits are gathered as words, and only these are dequantised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis.composites.grouped import group_dequantize
from opinfo.byoc.prepare.prepare import prepare
from opinfo.byoc.prepare.raising.gather_words import gather_words

from ...common.run import run
from ..backends.weight_only_cases import Quantized

BY_COLUMNS = Quantized((20, 96))
BY_ROWS = Quantized((96, 20), axis=0, scales="float32")
ZEROS = Quantized((20, 96), zeros="uint32", more={"zero_points_axis": 1})
ODD = Quantized((20, 93), bits=3)


def module(
    table: Quantized, axis: int, ids: tuple[int, ...], mode: str = "fast", first: bool = False
) -> tvm.IRModule:
    """A gather from a table whose words are parameters; `first` gathers the words."""
    arrays = [relax.Var(f"t{k}", relax.TensorType(a.shape, str(a.dtype)))
              for k, a in enumerate(table.arrays())]  # fmt: skip
    chosen = relax.Var("ids", relax.TensorType(ids, "int32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [chosen, *arrays]):
        with builder.dataflow():
            parts: list[Any] = arrays
            attrs = table.attrs()
            if first:
                parts = [builder.emit(relax.op.take(a, chosen, axis, mode)) for a in arrays]
                other = -1 if axis == 0 else 0
                axes = {"axis", "packed_axis", "zero_points_axis"} & set(attrs)
                attrs |= dict.fromkeys((*axes, "packed_axis"), other)
                out = group_dequantize(*parts, **attrs)
            else:
                values = builder.emit(group_dequantize(*parts, **attrs))
                out = relax.op.take(values, chosen, axis, mode)
            out = builder.emit_output(out)
        builder.emit_func_output(out)
    return builder.get()


CASES = [(BY_COLUMNS, 0), (BY_ROWS, 1), (ZEROS, 0), (ODD, 0)]


@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
@pytest.mark.parametrize(("table", "axis"), CASES)
def test_rows_are_those_of_the_table(table: Quantized, axis: int, shape: tuple[int, ...]) -> None:
    gathered = gather_words(module(table, axis, shape))
    takes = gathered["main"].body.blocks[0].bindings[:-1]
    assert all(b.value.op.name == "relax.take" for b in takes) and len(takes) >= 2
    ids = np.random.default_rng(0).integers(0, 20, shape).astype("int32")
    (got,) = run(prepare(gathered), [ids, *table.arrays()])
    np.testing.assert_allclose(got, table.values().take(ids, axis), rtol=2e-3, atol=2e-3)


def test_before_and_after() -> None:
    after = module(BY_COLUMNS, 0, (3,), first=True)
    before = module(BY_COLUMNS, 0, (3,))
    found, wanted = (m["main"].body.blocks[0].bindings for m in (gather_words(before), after))
    assert [str(b.value.op.name) for b in found] == [str(b.value.op.name) for b in wanted]
    for got, expected in zip(found, wanted, strict=True):
        tvm.ir.assert_structural_equal(got.value.ty, expected.value.ty)


@pytest.mark.parametrize(("table", "axis", "mode"), [
    (BY_COLUMNS, 1, "fast"),  # words hold several of these
    (BY_ROWS, 0, "fast"),
    (BY_COLUMNS, 0, "nan"),  # words have none
])  # fmt: skip
def test_other_gathers_stay(table: Quantized, axis: int, mode: str) -> None:
    mod = module(table, axis, (3,), mode)
    assert gather_words(mod) is mod


def test_the_table_is_stored_for_others_that_read_it() -> None:
    """Its rows are still gathered as words."""
    builder = relax.BlockBuilder()
    ids = relax.Var("ids", relax.TensorType((3,), "int32"))
    words, scales = BY_COLUMNS.arrays()
    with builder.function("main", [ids]):
        with builder.dataflow():
            values = builder.emit(group_dequantize(
                relax.const(words), relax.const(scales), **BY_COLUMNS.attrs()))  # fmt: skip
            rows = builder.emit(relax.op.take(values, ids, axis=0))
            out = builder.emit_output(relax.Tuple([rows, values]))
        builder.emit_func_output(out)
    mod = gather_words(builder.get())
    given = np.array([4, 0, 19], "int32")
    rows, whole = run(prepare(mod), [given])
    np.testing.assert_allclose(whole, BY_COLUMNS.values(), rtol=2e-3, atol=2e-3)
    np.testing.assert_array_equal(rows, whole[given])


def test_words_are_not_read_after_a_write() -> None:
    """The rows are those of the table before the words were overwritten."""
    words, scales = (relax.Var(f"t{k}", relax.TensorType(a.shape, str(a.dtype)))
                     for k, a in enumerate(BY_COLUMNS.arrays()))  # fmt: skip
    ids = relax.Var("ids", relax.TensorType((3,), "int32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [ids, words, scales], pure=False):
        values = builder.emit(group_dequantize(words, scales, **BY_COLUMNS.attrs()))
        builder.emit(relax.Call(
            relax.ExternFunc("overwrite"), [words], None, [relax.ObjectType()]))  # fmt: skip
        rows = builder.emit(relax.op.take(values, ids, axis=0))
        builder.emit_func_output(rows)
    mod = builder.get()
    tvm.ir.assert_structural_equal(gather_words(mod), mod)


def test_words_of_another_block_stay_there() -> None:
    """A branch has none of a dataflow block's own variables."""
    builder = relax.BlockBuilder()
    words, scales = (relax.Var(f"t{k}", relax.TensorType(a.shape, str(a.dtype)))
                     for k, a in enumerate(BY_COLUMNS.arrays()))  # fmt: skip
    ids = relax.Var("ids", relax.TensorType((3,), "int32"))
    with builder.function("main", [ids, words, scales]):
        with builder.dataflow():
            same = builder.emit(relax.op.add(words, words))
            values = builder.emit_output(group_dequantize(same, scales, **BY_COLUMNS.attrs()))
        rows = builder.emit(relax.op.take(values, ids, axis=0))
        builder.emit_func_output(rows)
    mod = builder.get()
    assert gather_words(mod) is mod
