"""Quantisation by group computes what numpy computes; no mutant of it gets its answer."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis import OpInfo, op_info
from opinfo.analysis.composites.grouped import group_dequantize, group_quantize
from opinfo.testing.mutants import mutants, parsed
from opinfo.testing.strip import strip
from opinfo.testing.unoptimised import unoptimised

from ...common.mutation import outputs, trial
from ...part import OneIn

FORMS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "q4f16_1": ((2, 32), {"bits": 4, "group_size": 16, "axis": 1}),
    "q3f16_0": ((64, 3), {"bits": 3, "group_size": 40, "axis": 0}),
    "two bits": ((2, 20), {"bits": 2, "group_size": 8, "axis": 1, "dtype": "uint8"}),
}


def _module(shape: tuple[int, ...], attrs: dict[str, Any], kind: str = "float32") -> Any:
    x = relax.Var("x", relax.TensorType(shape, kind))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(group_quantize(x, **attrs)))
    return builder.get()


def _expected(
    data: np.ndarray, bits: int, group_size: int, axis: int, dtype: str = "uint32"
) -> tuple[np.ndarray, np.ndarray]:
    """The definition, group by group."""
    rows = np.moveaxis(data, axis, -1)
    middle, per_word = 2 ** (bits - 1) - 1, np.dtype(dtype).itemsize * 8 // bits
    words, scales = [], []
    for start in range(0, rows.shape[-1], group_size):
        group = rows[..., start : start + group_size]
        scale = np.abs(group).max(-1) / data.dtype.type(middle)
        values = group / scale[..., None] + data.dtype.type(middle)
        levels = np.clip(np.rint(values), 0, 2 * middle).astype(np.uint64)
        missing = group_size - group.shape[-1]
        levels = np.pad(levels, [(0, 0)] * (levels.ndim - 1) + [(0, missing)])
        for k in range(0, group_size, per_word):
            shifts = np.arange(per_word, dtype=np.uint64) * np.uint64(bits)
            words.append((levels[..., k : k + per_word] << shifts).sum(-1).astype(dtype))
        scales.append(scale)
    return np.stack(words, axis), np.stack(scales, axis)


def _run(mod: Any, *arrays: np.ndarray) -> Any:
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    return machine["main"](*map(tvm.runtime.tensor, arrays))


@pytest.mark.parametrize(("shape", "attrs"), FORMS.values(), ids=FORMS)
def test_it_computes_what_numpy_computes(shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    data = np.random.default_rng(0).uniform(-2, 2, shape).astype("float32")
    words, scales = _run(_module(shape, attrs), data)
    expected = _expected(data, **attrs)
    np.testing.assert_array_equal(words.numpy(), expected[0])
    np.testing.assert_array_equal(scales.numpy(), expected[1])


def test_dequantize_inverts_it() -> None:
    data = np.random.default_rng(0).uniform(-2, 2, (4, 64)).astype("float32")
    attrs = FORMS["q4f16_1"][1]
    words, scales = (t.numpy() for t in _run(_module((4, 64), attrs), data))
    params = [relax.Var(n, relax.TensorType(a.shape, str(a.dtype)))
              for n, a in (("w", words), ("s", scales))]  # fmt: skip
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        call = group_dequantize(*params, bits=4, group_size=16, axis=1, offset=7.0)
        builder.emit_func_output(builder.emit(call))
    back = _run(builder.get(), words, scales).numpy()
    assert np.abs(back - data).max() <= scales.max() * 0.5001


@pytest.mark.parametrize(
    "attrs",
    [
        {"bits": 1, "group_size": 32},
        {"bits": 4, "group_size": 12},
        {"bits": 40, "group_size": 32},
        {"bits": 4, "group_size": 0},
    ],
)
def test_malformed_calls_are_refused(attrs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="group_quantize: groups of"):
        _module((2, 64), attrs)


@pytest.mark.slow
def test_no_mutant_gets_its_answer(one_in: OneIn) -> None:
    different = 0
    for shape, attrs in FORMS.values():
        lowered = relax.transform.LegalizeOps()(_module(shape, attrs))["group_quantize"]
        original = parsed(strip(lowered).script())
        truth = op_info(original)
        assert isinstance(truth, OpInfo) and truth.name == "relax.nn.group_quantize"
        rng = np.random.default_rng(0)
        inputs = [[rng.uniform(-2, 2, shape)] for _ in range(2)]
        results = [outputs(original, i) for i in inputs]
        assert results[0] is not None
        for change, mutant in one_in(3, islice(mutants(original), 24)):
            found = trial(mutant, truth, inputs, results)
            different += found.different
            assert not found.wrong, f"{change}: {found.wrong}"
    assert different >= one_in.least(3, 20)
