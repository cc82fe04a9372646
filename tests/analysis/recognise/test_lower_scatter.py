"""`scatter_elements` of fewer indices than data writes where the operator does."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.testing.unoptimised import unoptimised

SHAPE = (2, 3, 4)
N, K = (tirx.Var(name, "int64") for name in "nk")


def _module(data: Any, indices: Any, axis: int, reduction: str, dtype: str) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    types = ((data, "float32"), (indices, dtype), (indices, "float32"))
    params = [relax.Var(f"x{k}", relax.TensorType(*t)) for k, t in enumerate(types)]
    with builder.function("main", params):
        out = builder.emit(relax.op.scatter_elements(*params, axis, reduction))
        builder.emit_func_output(out)
    return builder.get()


def _expected(x: Any, i: Any, u: Any, axis: int, reduction: str) -> Any:
    """The definition, element by element."""
    out = x.copy()
    for at in np.ndindex(*i.shape):
        place = (*at[:axis], i[at], *at[axis + 1 :])
        out[place] = u[at] if reduction == "update" else out[place] + u[at]
    return out


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("axis", "reduction"), [(0, "add"), (1, "update"), (2, "add"), (-1, "add")]
)
def test_fewer_indices_than_data(axis: int, reduction: str, symbolic: bool) -> None:
    """TVM's rule took them for as many as the data along some axes, and wrote elsewhere."""
    rng = np.random.default_rng(0)
    for sizes in itertools.product((1, 2), (2, 3), (2, 4)):
        x, u = (rng.random(shape).astype("float32") for shape in (SHAPE, sizes))
        order = np.argsort(rng.random(sizes), axis=axis)
        i = (order - SHAPE[axis] * (order % 2)).astype("int32")  # some count from the end
        data, indices = ((N, *SHAPE[1:]), (sizes[0], K, sizes[2])) if symbolic else (SHAPE, sizes)
        mod = legalise_module(_module(data, indices, axis, reduction, "int32"))
        machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
        got = machine["main"](*map(tvm.runtime.tensor, (x, i, u))).numpy()
        np.testing.assert_allclose(got, _expected(x, i, u, axis % 3, reduction), rtol=1e-6)
        if symbolic:
            break


def test_as_many_indices_as_data_are_lowered_by_tvm() -> None:
    mod = legalise_module(_module(SHAPE, SHAPE, 1, "update", "int64"))
    assert {g.name_hint for g in mod.functions} == {"main", "scatter_elements"}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32"])
@pytest.mark.parametrize(("data", "indices", "axis"), [
    ((1, 300, 4), (1, 299, 3), 2), ((1, 4, 300), (1, 3, 2), 2), ((300, 2, 1), (5, 2, 1), 0),
])  # fmt: skip
def test_indices_of_few_bits_beside_axes_that_are_longer(
    dtype: str, data: Any, indices: Any, axis: int
) -> None:
    """The coordinates of other axes wrapped around, and code wrote outside of the tensor."""
    rng = np.random.default_rng(0)
    x, u = (rng.random(shape).astype("float32") for shape in (data, indices))
    i = np.argsort(rng.random(indices), axis=axis).astype(dtype)
    mod = legalise_module(_module(data, indices, axis, "update", dtype))
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    got = machine["main"](*map(tvm.runtime.tensor, (x, i, u))).numpy()
    np.testing.assert_array_equal(got, _expected(x, i, u, axis, "update"))
