"""Assertions stay in the code where a caller tells TVM to drop them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.byoc.codegen.checks.kept_checks import OPTION

TABLE = np.arange(12, dtype="float32").reshape(4, 3)


def _module(count: Any) -> Any:
    """Rows of a table at ``i + 1``."""
    builder = relax.BlockBuilder()
    i = relax.Var("i", relax.TensorType([count], "int64"))
    with builder.function("main", [i]):
        with builder.dataflow():
            at = builder.emit(relax.op.add(i, relax.const(1, "int64")))
            out = builder.emit_output(relax.op.take(relax.const(TABLE), at, axis=0))
        builder.emit_func_output(out)
    return builder.get()


def _static() -> Callable[[Any], Any]:
    compiled = opinfo.compile(_module(2), [])
    return lambda i: compiled.run(i)


def _symbolic() -> Callable[[Any], Any]:
    compiled = opinfo.compile(_module(tvm.tirx.Var("n", "int64")), [])
    return lambda i: compiled.run(i)


@pytest.mark.parametrize("build", [_static, _symbolic])
def test_an_index_outside_fails(build: Any) -> None:
    with tvm.transform.PassContext(config={OPTION: True}):
        with pytest.warns(UserWarning, match=f"{OPTION} is ignored: .* unset it") as warned:
            call = build()
    assert warned[0].filename == __file__
    np.testing.assert_array_equal(call(np.array([2, 0])), TABLE[[3, 1]])
    with pytest.raises(ValueError, match="take at an element that is outside of its axis"):
        call(np.array([0, 900]))
