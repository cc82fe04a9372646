"""Operators of torch that count negative elements of an index from the end, and those that fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from tests.torch_import.test_torch_programs import imported

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

UPDATES = {
    "scatter": lambda x, i, s: x.scatter(0, i[None], s),
    "scatter_value": lambda x, i, s: x.scatter(0, i[None], 3.0),
    "scatter_add": lambda x, i, s: x.scatter_add(0, i[None], s),
    "scatter_reduce": lambda x, i, s: x.scatter_reduce(0, i[None], s, "amax"),
    "index_reduce": lambda x, i, s: x.index_reduce(0, i, s, "prod"),
    "index_add": lambda x, i, s: x.index_add(0, i, s, alpha=2.5),
    "index_copy": lambda x, i, s: x.index_copy(0, i, s),
    "computed": lambda x, i, s: x.scatter_add(0, i[None] * 1, s),
}  # fmt: skip
FILLS = {
    "number": lambda x, i: x.index_fill(0, i, 2.0),
    "tensor": lambda x, i: x.index_fill(-1, i % 3, x[0, 0] + 1),
    "one row": lambda x, i: x.index_fill(0, i[0], 1),
}
X, ROWS = torch.arange(12.0).reshape(4, 3), torch.arange(9.0).reshape(3, 3) - 4
INSIDE, BELOW = torch.tensor([1, 3, 0]), torch.tensor([1, -1, 0])


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", UPDATES)
def test_an_update_refuses_what_torch_refuses(name: str) -> None:
    update: Any = UPDATES[name]
    compiled = opinfo.compile(imported(lambda x, i, s: (update(x, i, s),), (X, INSIDE, ROWS)), [])
    got = compiled.run(X.numpy(), INSIDE.numpy(), ROWS.numpy())
    np.testing.assert_allclose(got[0], update(X, INSIDE, ROWS))
    with pytest.raises((RuntimeError, IndexError), match="out of"):
        update(X, BELOW, ROWS)
    with pytest.raises(ValueError, match=r"as an index, it must be 0 to 3|outside of its axis"):
        compiled.run(X.numpy(), BELOW.numpy(), ROWS.numpy())


@pytest.mark.parametrize("name", FILLS)
def test_a_fill_counts_from_the_end(name: str) -> None:
    fill: Any = FILLS[name]
    compiled = opinfo.compile(imported(lambda x, i: (fill(x, i),), (X, INSIDE)), [])
    for index in (INSIDE, BELOW):
        np.testing.assert_array_equal(compiled.run(X.numpy(), index.numpy())[0], fill(X, index))
