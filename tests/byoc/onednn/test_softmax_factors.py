"""Factors after a softmax that other axes than its own repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax

import opinfo

nn, op = relax.op.nn, relax.op
SHAPE = (2, 8, 6, 9)
#: The first was read along the innermost axis.
FACTORS = [
    (1, 8, 1, 1),
    (1, 1, 1, 9),
    (1, 1, 6, 1),
    (2, 1, 1, 1),
    (2, 8, 1, 9),
    SHAPE,
    (1, 1, 1, 1),
]


def products(axis: int) -> Any:
    """A tuple of `softmax(x) · g` for all factors `g`."""
    builder = relax.BlockBuilder()
    shapes = [SHAPE, *FACTORS]
    x, *factors = (relax.Var(f"v{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes))
    with builder.function("main", [x, *factors]):
        with builder.dataflow():
            outs = [op.multiply(builder.emit(nn.softmax(x, axis)), g) for g in factors]
            out = builder.emit_output(relax.Tuple([builder.emit(o) for o in outs]))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("axis", [1, 3])
def test_each_factor_is_read_at_its_place(axis: int) -> None:
    rng = np.random.default_rng(0)
    x, *factors = (rng.standard_normal(s).astype("float32") for s in (SHAPE, *FACTORS))
    compiled = opinfo.compile(products(axis), ["onednn"])
    powers = np.exp(x.astype(np.float64))
    expected = powers / powers.sum(axis, keepdims=True)
    assert compiled.dispatched is not None and len(compiled.dispatched.taken) == len(FACTORS)
    for got, g in zip(compiled.run(x, *factors), factors, strict=True):
        np.testing.assert_allclose(got, expected * g, rtol=1e-5, atol=1e-6)
