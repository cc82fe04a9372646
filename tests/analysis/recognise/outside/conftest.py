"""PrimFuncs that outside recognisers are asked about; what a test registers ends with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tvm
from tvm import tirx

from opinfo.analysis import recogniser_scope, unregister

from .exp_recognisers import UNARY
from .outer_recognisers import OUTER


@pytest.fixture(autouse=True)
def _scope() -> Iterator[None]:
    with recogniser_scope():
        unregister("outer")
        yield


@pytest.fixture
def func() -> tirx.PrimFunc:
    """An outer product."""
    return tvm.script.from_source(OUTER)


@pytest.fixture
def exp() -> tirx.PrimFunc:
    return tvm.script.from_source(UNARY.format(value="T.exp(x[i, j])"))


@pytest.fixture
def unknown() -> tirx.PrimFunc:
    """No operator."""
    return tvm.script.from_source(UNARY.format(value="T.sin(x[i, j]) * T.exp(x[j, i])"))
